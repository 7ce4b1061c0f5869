"""Ways through the estimators for tables, and through ``decoupled train``."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

import decoupled_descent as dd
from studies.ways.common import Now, refused, several, shell, told, way, without_trust

PART = "tables"
LINEAR = {"features": "linear", "ridge": 1.0, "random_state": 0}
FAST = ("--features", "linear", "--ridge", "1", "--fast", "--json")


def numbers(n=200, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, 2 * X[:, 0] + rng.normal(size=n)


def trained(frame, *options, target="y"):
    """``decoupled train`` on a frame: status, what it says, the model, and its folder."""
    folder = Path(tempfile.mkdtemp())
    frame.to_csv(folder / "t.csv", index=False)
    given = ("train", folder / "t.csv", "--target", target, "--out", folder / "o", *options)
    status, said = shell(*given)
    return status, said, dd.load_model(folder / "o") if status == 0 else None, folder


def _said(result, honest):
    error = f"error {result['estimated_test_error']:.3g}"
    return Now(f"{error}, *{result['verdict']}*", honest)


@way(PART, "classes that a plane separates, 120 rows", "log loss 0.019 for 0.198; rms z 2.15, "
     "worst −8.8")  # fmt: skip
def separable():
    z, verdicts = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(120, 4)), rng.normal(size=(3000, 4))
        y, labels = (rows[:, 0] + rows[:, 1] > 0 for rows in (X, new))
        model = dd.DecoupledClassifier(random_state=0).fit(X, y.astype(int))
        chances = model.predict_proba(new)[np.arange(3000), labels.astype(int)]
        losses = -np.log(np.maximum(chances, 1e-15))
        gap = model.evaluation_.error - losses.mean()
        z.append(gap / math.hypot(model.evaluation_.stderr, losses.std() / 3000**0.5))
        verdicts.append(model.evaluation_.verdict)
    return several(z, verdicts)


def cases(n, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)).round(3), columns=list("abc"))
    sick = frame["a"] + 0.8 * rng.normal(size=n) > 1.2
    return frame.assign(y=np.where(sick, "case", "well"))


@way(PART, "the stored threshold: `predict`, `load_model`", "*case* 187 times, and 4 times")
def threshold():
    frame = cases(300)
    _, _, model, folder = trained(frame, *FAST, "--positive", "case", "--cost-ratio", "20")
    new = cases(500, 1).drop(columns="y")
    new.to_csv(folder / "new.csv", index=False)
    _, text = shell("predict", folder / "o", folder / "new.csv")
    counts = text.count("case,"), int((model.predict(new) == "case").sum())
    lines = [line.split(",") for line in text.splitlines()]
    column = lines[0].index("prediction")
    counts = sum(line[column] == "case" for line in lines[1:]), counts[1]
    return Now(f"*case* {counts[0]} and {counts[1]} times", counts[0] == counts[1])


def drifting(n, first, rng):
    """Classes whose dependence on the column fades with time."""
    time = np.arange(first, first + n)
    x = rng.normal(size=n)
    strength = 3 - 6 * time / 400
    y = rng.random(n) < 1 / (1 + np.exp(-strength * x))
    return pd.DataFrame({"time": time, "x": x, "z": rng.normal(size=n), "y": np.where(y, "b", "a")})


@way(PART, "`--time`: the AUC of later rows", "0.745 for 0.609: covered in 0 of 3 draws")
def later_auc():
    z, verdicts = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        frame, new = drifting(200, 0, rng), drifting(2000, 0, rng).assign(time=220)
        strength = 3 - 6 * 220 / 400
        new["y"] = rng.random(2000) < 1 / (1 + np.exp(-strength * new["x"]))
        model = dd.DecoupledClassifier(**LINEAR)
        X = frame[["x", "z"]].to_numpy()
        model.fit(X, frame["y"], time=frame["time"])
        area = model.evaluation_.estimate("auc")
        true = roc_auc_score(new["y"], model.predict_proba(new[["x", "z"]].to_numpy())[:, 1])
        z.append((area.value - true) / area.stderr)
        verdicts.append(area.verdict)
    return several(z, verdicts)


@way(PART, "identifiers as numbers: patient_id, MRN, case number, Patient-Nr.",
     "features without a word; sensitivity 0.605, *trust*; 0.907 for new patients")  # fmt: skip
def identifiers():
    used = []
    for name in ("patient_id", "MRN", "case number", "Patient-Nr."):
        frame = cases(200).assign(**{name: np.random.default_rng(0).permutation(200) + 1})
        _, _, model, _ = trained(frame, *FAST)
        used += [name] if name in model.columns.names else []
    return Now(f"used: {', '.join(used) or 'none'} of 4", not used)


def survey():
    X, y = numbers(300)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X.round(3), columns=list("abcde"))
    frame = frame.assign(wt=rng.uniform(0.2, 4, 300).round(2), y=y.round(3))
    return frame.assign(stratum=rng.integers(1, 5, 300))


@way(PART, "a survey, its weights as a column", "no option; weights are predictors, *trust*")
def survey_weights():
    _, plain, _, _ = trained(survey(), *FAST)
    status, weighted, _, _ = trained(survey(), *FAST, "--weight", "wt")
    said = f"without --weight *{plain['verdict']}*; with it *{weighted['verdict']}*"
    return Now(said, status == 0 and plain["verdict"] != "trust")


@way(PART, "a survival time with `died` as a column", "✓ *trust*")
def survival():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)).round(3), columns=list("abc"))
    time = (365 * rng.exponential(size=200) * np.exp(frame["a"])).round() + 1
    frame = frame.assign(died=rng.integers(0, 2, 200), time=time.astype(int))
    _, result, _, _ = trained(frame, *FAST, target="time")
    return _said(result, result["verdict"] != "trust")


@way(PART, "several labels in a cell", "✓ *trust*")
def several_labels():
    rng = np.random.default_rng(0)
    X, _ = numbers(240)
    frame = pd.DataFrame(X.round(3), columns=list("abcde"))
    words = np.array(["red;blue", "red", "blue", "green;red", "green"])
    status, result, _, _ = trained(frame.assign(y=words[rng.integers(0, 5, 240)]), *FAST)
    return Now(result, True) if status else _said(result, result["verdict"] != "trust")


def _far(constant):
    X, y = numbers()
    plain = dd.DecoupledRegressor(**LINEAR).fit(X, y).evaluation_.estimate("r2").value

    def look(model):
        return told(model.evaluation_.estimate("r2"), plain)

    return refused(lambda: dd.DecoupledRegressor(**LINEAR).fit(X, y + constant), look)


@way(PART, "y + 1e15", "R² 0 (0 to 0), *trust*; true 0.8")
def far_numbers():
    return _far(1e15)


@way(PART, "y + 1e19", "R² 0, *trust*")
def farther_numbers():
    return _far(1e19)


@way(PART, "one row of weight 1000 among 199 of weight 1, random labels",
     "accuracy 0.94 or 0.09, *trust*")  # fmt: skip
def one_heavy_row():
    X, _ = numbers()
    y, weights = np.random.default_rng(1).integers(0, 2, 200), np.ones(200)
    weights[7] = 1000
    model = dd.DecoupledClassifier(**LINEAR).fit(X, y, sample_weight=weights)
    return told(model.evaluation_.estimate("accuracy"), 0.5)


@way(PART, "two numbers for one thing: RMSE in headline, JSON, `estimate`", "2.11 and 2.08")
def two_numbers():
    frame = survey().drop(columns=["wt", "stratum"])
    _, result, _, _ = trained(frame, *FAST)
    model = dd.DecoupledRegressor(**LINEAR)
    model.fit(frame.drop(columns="y").to_numpy(), frame["y"].to_numpy())
    found = [
        result["estimated_test_error"] ** 0.5,
        result["measures"]["RMSE"]["estimate"],
        model.estimate("rmse").value,
    ]
    said = ", ".join(f"{one:.4g}" for one in found)
    return Now(said, bool(np.ptp(found) <= 1e-9 * found[0]))


@way(PART, "importance where forests hold most of the weight", "of the Newton members alone")
def importance_of_forests():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 4))
    y = (np.sign(X[:, 1]) * np.sign(X[:, 2]) > 0).astype(int)  # steps: for trees
    frame = pd.DataFrame(X.round(4), columns=list("abcd")).assign(y=np.where(y, "p", "q"))
    _, result, _, _ = trained(frame, "--json")
    rises = result["importance"]
    first = sorted(rises, key=rises.get)[-2:]
    return Now(f"most important: {', '.join(first)}; true b, c", set(first) == {"b", "c"})


@way(PART, "spectra, 60 × 700: a section of the report fails", "ZeroDivisionError, no model")
def spectra():
    lost = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 12)) @ rng.normal(size=(12, 700)) + 0.1 * rng.normal(
            size=(60, 700)
        )
        frame = pd.DataFrame(X.round(3)).rename(columns="w{}".format)
        labels = np.where(X[:, :9].max(1) > 3, "p", "q")
        status, said, model, _ = trained(frame.assign(y=labels), "--json", "--fast")
        lost += [] if status == 0 and model is not None else [said]
    return Now(f"{len(lost)} of 3 models lost", not lost)


@way(PART, "too little trust: 250 rows, AUC 0.67", "“not better than guessing”")
def too_little_trust():
    words = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(250, 6))
        y = np.where(rng.random(250) < 1 / (1 + np.exp(-0.9 * X[:, 0] + 2)), "case", "well")
        frame = pd.DataFrame(X.round(3), columns=list("abcdef")).assign(y=y)
        _, result, _, _ = trained(frame, "--features", "linear", "--json")
        area = result["measures"]["AUC"]["estimate"]
        words.append((area, result["better_than"]["guessing"]["word"]))
    said = ", ".join(f"{area:.2f} {word}" for area, word in words)
    honest = all(word != "no" for area, word in words if area > 0.65)
    return Now(f"AUC and “better than guessing”: {said}", honest)


@way(PART, "random labels")
def random_labels():
    z, verdicts = [], []
    for seed in range(4):
        X, _ = numbers(seed=seed)
        y = np.random.default_rng(100 + seed).integers(0, 2, 200)
        accuracy = dd.DecoupledClassifier(random_state=0).fit(X, y).evaluation_.estimate("accuracy")
        z.append((accuracy.value - 0.5) / accuracy.stderr)
        verdicts.append(accuracy.verdict)
    return several(z, verdicts)


@way(PART, "every row twice, random labels")
def copies():
    X, _ = numbers(100)
    y = np.random.default_rng(1).integers(0, 2, 100)
    model = dd.DecoupledClassifier(random_state=0).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    return told(model.evaluation_.estimate("accuracy"), 0.5)


@way(PART, "six rows of each patient, patients not given")
def patients():
    X, y = persons(40, 6, 0)
    model = dd.DecoupledClassifier(random_state=0).fit(X, y)
    return told(model.evaluation_.estimate("accuracy"), 0.5)


def persons(count, each, seed):
    """Rows of persons; nothing but the person says the class."""
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(count, 5)), each, 0) + 0.2 * rng.normal(size=(count * each, 5))
    return X, np.repeat(rng.integers(0, 2, count), each)


@way(PART, "a column that knows the answer")
def leak():
    frame = cases(200)
    frame["score"] = np.where(frame["y"] == "case", 2.0, 1.0) + 0.01 * np.arange(200) / 200
    _, result, _, _ = trained(frame, *FAST)
    return _said(result, result["verdict"] != "trust")


@way(PART, "ten rows")
def ten_rows():
    X, y = numbers(10)
    return refused(lambda: dd.DecoupledRegressor(**LINEAR).fit(X, y).evaluation_, without_trust)
