"""The default estimators on 24 real tables, beside five other models.

Every model gets the same rows and must say what its test error will be: ours by leave-one-out, the
others by the five-fold cross-validation that their users need. 100, 400 and 1000 rows (or half of a
small table) are for training, the rest judges. All settings are defaults, without arguments.

    python studies/tables.py run --out results.jsonl [--data FOLDER]
           [--models ours,linear] [--tables wine,spam] [--sizes 100] [--splits 0-3]
    python studies/tables.py table results.jsonl [more.jsonl ...]

``run`` leaves out what the file has already. Times are CPU seconds on one thread. Where the model
is the same and only its estimate has changed since, a record has no ``estimate`` until it is
measured again.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV, Ridge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR

OWN = {
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "wine": datasets.load_wine,
    "diabetes": datasets.load_diabetes,
}
MODELS = ("ours", "linear", "svm", "forest", "boosting", "mlp")
OURS = MODELS[0]
LEAST = 1e-15  # smaller probabilities count as this
SIZES = (100, 400, 1000)


# Data


@functools.cache
def load(data, name):
    """Columns (a frame where there is text), labels from 0 on or numbers, and the task."""
    if name in OWN:
        found = OWN[name]()
        X, y = np.asarray(found.data, float), found.target
        task = "regression" if name == "diabetes" else "classification"
    else:
        about = json.loads((Path(data) / "about.json").read_text())[name]
        path, task = Path(data) / about["file"], about["task"]
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                X, y = arrays["X"].astype(float), arrays["y"]
        else:
            frame = pd.read_csv(path)
            y = frame.pop("target").to_numpy()
            text = [c for c in frame if not pd.api.types.is_numeric_dtype(frame[c])]
            X = frame.astype(dict.fromkeys(text, object)) if text else frame.to_numpy(float)
    if task == "classification":
        y = np.unique(y, return_inverse=True)[1]
    return X, np.asarray(y, None if task == "classification" else float), task


def settings(data, more=()):
    """All tables with their numbers of training rows, the smallest first.

    ``more`` are further sizes, for tables that have 1000 other rows.
    """
    names = [*json.loads((Path(data) / "about.json").read_text()), *OWN]
    found = []
    for name in names:
        rows = len(load(data, name)[1])
        sizes = {min(rows // 2, SIZES[-1])} | {n for n in SIZES if rows >= 2 * n}
        sizes |= {n for n in more if SIZES[-1] < n <= rows - 1000}
        found += [(n, name) for n in sizes]
    return [(name, n) for n, name in sorted(found)]


def split(data, name, n, seed):
    """Training and test rows; test rows of classes that training rows lack are left out."""
    X, y, task = load(data, name)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n], order[n:]
    labels = y
    if task == "classification":
        known = np.unique(y[train])
        test = test[np.isin(y[test], known)]
        labels = np.searchsorted(known, y)
    return _rows(X, train), labels[train], _rows(X, test), labels[test], task


def _rows(X, index):
    return X.iloc[index].reset_index(drop=True) if isinstance(X, pd.DataFrame) else X[index]


def prepared(X):
    """What every model needs: no gaps, no constant columns, text as columns of 0 and 1."""
    numbers = make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True),
        VarianceThreshold(),
        StandardScaler(),
    )
    if not isinstance(X, pd.DataFrame):
        return numbers
    text = [c for c in X if X[c].dtype == object]
    rest = [c for c in X if X[c].dtype != object]
    dummies = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer([("numbers", numbers, rest), ("text", dummies, text)])


# Models


def row_losses(task, y, said):
    """−log of the probability of the true class, or the squared error."""
    if task == "classification":
        return -np.log(np.clip(said[np.arange(len(y)), y], LEAST, 1.0))
    return (y - said) ** 2


def scaled(model):
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def makers(name, task, variance):
    """How to make the model from a setting, and the settings to choose from by folds."""
    numbers = task == "regression"
    if name == "linear":
        return (lambda alpha: Ridge(alpha)), [{"alpha": a} for a in np.logspace(-3, 4, 30)]
    if name == "svm":  # gamma in multiples of scikit-learn's "scale"
        grid = [{"C": c, "gamma": g / variance} for c in (0.1, 1, 10, 100) for g in (0.2, 1, 5)]
        if numbers:
            return (lambda **p: scaled(SVR(cache_size=500, **p))), grid
        return (lambda **p: SVC(probability=True, random_state=0, cache_size=500, **p)), grid
    if name == "forest":
        kind = RandomForestRegressor if numbers else RandomForestClassifier
        return (lambda: kind(n_estimators=300, random_state=0)), [{}]
    if name == "boosting":
        kind = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
        return (lambda: kind(random_state=0)), [{}]
    if numbers:
        return (lambda: scaled(MLPRegressor(random_state=0, max_iter=1000))), [{}]
    return (lambda: MLPClassifier(random_state=0)), [{}]


def folds(y, task):
    if task == "regression" or np.bincount(y).max() < 5:
        return list(KFold(5).split(y))
    return list(StratifiedKFold(5).split(y, y))


def predicted(model, A, task, count):
    if task == "regression":
        return np.asarray(model.predict(A), float).ravel()
    said = np.zeros((len(A), count))
    said[:, model.classes_] = model.predict_proba(A)
    return said


def fit_ours(_, X, y, task):
    """Our estimator with its defaults, and its own estimate."""
    import decoupled_descent as dd

    map_ = prepared(X)
    A = np.asarray(map_.fit_transform(X), float)
    kind = dd.DecoupledRegressor if task == "regression" else dd.DecoupledClassifier
    model = kind().fit(A, y)
    estimate = model.estimated_test_error_, model.estimated_test_error_stderr_
    return map_, model, estimate


def fit_folds(name, X, y, task):
    """Another model, its setting chosen by five folds, which also estimate its error."""
    parts, count = folds(y, task), int(y.max()) + 1 if task == "classification" else 0
    map_ = prepared(X)
    A = np.asarray(map_.fit_transform(X), float)
    if name == "linear" and task == "classification":
        return map_, *_logistic(A, y, parts)
    pieces = []
    for train, test in parts:
        own = prepared(X).fit(_rows(X, train))
        pieces.append((own.transform(_rows(X, train)), own.transform(_rows(X, test))))
    make, grid = makers(name, task, A.shape[1] * A.var())
    losses = np.full((len(grid), len(y)), np.nan)
    for (train, test), (B, C) in zip(parts, pieces, strict=True):
        known = np.isin(y[test], y[train]) if count else np.ones(len(test), bool)
        for row, setting in enumerate(grid):
            said = predicted(make(**setting).fit(B, y[train]), C[known], task, count)
            losses[row, test[known]] = row_losses(task, y[test][known], said)
    best = int(np.nanmean(losses, 1).argmin())
    return map_, make(**grid[best]).fit(A, y), _mean(losses[best])


def _logistic(A, y, parts):
    """LogisticRegressionCV, whose folds' coefficients give the rows behind its own score."""
    model = LogisticRegressionCV(
        Cs=10, cv=parts, scoring="neg_log_loss", l1_ratios=(0,), max_iter=1000,
        use_legacy_attributes=False,
    )  # fmt: skip
    model.fit(A, y)
    best = int(np.argmin(np.abs(np.log(model.Cs_ / model.C_))))
    losses = np.full(len(y), np.nan)
    for fold, (train, test) in enumerate(parts):
        known = np.isin(y[test], y[train])
        weights = model.coefs_paths_[fold, 0, best]
        logits = A[test] @ weights[:, :-1].T + weights[:, -1]
        if logits.shape[1] == 1:
            logits = np.hstack([np.zeros_like(logits), logits])
        logits -= logits.max(1, keepdims=True)
        said = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        losses[test[known]] = row_losses("classification", y[test][known], said[known])
    return model, _mean(losses)


def _mean(losses):
    kept = losses[np.isfinite(losses)]
    return float(kept.mean()), float(kept.std(ddof=1) / np.sqrt(len(kept)))


def measure(data, name, n, seed, model):
    """One fit: estimate, test error, their standard errors, accuracy or R², CPU seconds."""
    X, y, X_test, y_test, task = split(data, name, n, seed)
    start = time.process_time()
    fitted = (fit_ours if model == OURS else fit_folds)(model, X, y, task)
    seconds = time.process_time() - start
    map_, trained, (estimate, stderr) = fitted
    count = int(y.max()) + 1 if task == "classification" else 0
    said = predicted(trained, np.asarray(map_.transform(X_test), float), task, count)
    losses = row_losses(task, y_test, said)
    test, test_stderr = _mean(losses)
    right = said.argmax(1) == y_test if count else None
    score = float(right.mean()) if count else float(1 - losses.mean() / y_test.var())
    return {
        "table": name, "n": n, "split": seed, "model": model, "task": task,
        "estimate": estimate, "estimate_se": stderr, "test": test, "test_se": test_stderr,
        "score": score, "seconds": seconds,
    }  # fmt: skip


# Tables


def summarise(records):
    """Ranks, ratios to the linear model, honesty and times, as Markdown."""
    cells = {(r["table"], r["n"], r["split"], r["model"]): r for r in records}
    models = [m for m in MODELS if any(key[3] == m for key in cells)]
    fits = defaultdict(set)
    for table, n, seed, model in cells:
        fits[table, n, seed].add(model)
    shared = [key for key, have in fits.items() if set(models) <= have]
    by_setting = defaultdict(list)
    for key in shared:
        by_setting[key[:2]].append(key)
    means = {
        (setting, m): np.mean([cells[(*key, m)]["test"] for key in keys])
        for setting, keys in by_setting.items()
        for m in models
    }
    print(f"{len(by_setting)} settings, {len(shared)} splits of them that every model has\n")
    print("| model | mean rank | first | error / linear | largest | accuracy | R² | time |")
    print("|---|---|---|---|---|---|---|---|")
    for m in models:
        ranks = [sorted(means[s, q] for q in models).index(means[s, m]) + 1 for s in by_setting]
        ratios = np.array([means[s, m] / means[s, "linear"] for s in by_setting])
        score = {
            task: np.mean(
                [cells[(*k, m)]["score"] for k in shared if cells[(*k, m)]["task"] == task]
            )
            for task in ("classification", "regression")
        }
        three = [
            sum(cells[(*k, q)]["seconds"] for q in ("linear", "svm", "boosting")) for k in shared
        ]
        took = np.median(
            [cells[(*k, m)]["seconds"] / t for k, t in zip(shared, three, strict=True)]
        )
        print(
            f"| {m} | {np.mean(ranks):.2f} | {ranks.count(1)} | {np.exp(np.log(ratios).mean()):.2f}"
            f" | {ratios.max():.2f} | {100 * score['classification']:.1f} % "
            f"| {score['regression']:.2f} | {took:.2f} |"
        )
    print("\ntime: median of CPU seconds over those of linear + svm + boosting together\n")
    print("| model | rows | fits | mean z | rms z | 95 % intervals cover |")
    print("|---|---|---|---|---|---|")
    for m in models:
        for label, low, high in (("≤ 107", 0, 107), ("108–450", 108, 450), ("> 450", 451, 10**9)):
            z = _z([r for k, r in cells.items() if k[3] == m and low <= k[1] <= high])
            if len(z):
                print(f"| {m} | {label} | {_honesty(z)} |")
        print(f"| {m} | all | {_honesty(_z([r for k, r in cells.items() if k[3] == m]))} |")
    print("\n| table | rows | splits | estimate | test | mean z | " + " | ".join(models) + " |")
    print("|---|---|---|---|---|---|" + "---|" * len(models))
    for setting in sorted({key[:2] for key in cells if key[3] == "ours"}):
        own = [r for k, r in cells.items() if k[:2] == setting and k[3] == "ours"]
        values = " | ".join(
            f"{means[setting, m]:.4g}" if setting in by_setting else "" for m in models
        )
        known = [r for r in own if r["estimate"] is not None]
        said, true = (np.mean([r[name] for r in known]) for name in ("estimate", "test"))
        print(
            f"| {setting[0]} | {setting[1]} | {len(known)} | {said:.4g} | {true:.4g} "
            f"| {_z(own).mean():+.2f} | {values} |"
        )


def _z(records):
    known = [r for r in records if r["estimate"] is not None]
    return np.array(
        [(r["test"] - r["estimate"]) / np.hypot(r["test_se"], r["estimate_se"]) for r in known]
    )


def _honesty(z):
    covered = 100 * (np.abs(z) <= 1.96).mean()
    return f"{len(z)} | {z.mean():+.2f} | {np.sqrt((z**2).mean()):.2f} | {covered:.0f} %"


# Command line


def numbers(text):
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def read(paths):
    return [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--out", required=True, type=Path)
    run.add_argument("--data", default=Path(os.environ.get("DECOUPLED_DATA", "data"), "tables"))
    run.add_argument("--models", default=",".join(MODELS))
    run.add_argument("--tables")
    run.add_argument("--sizes", type=numbers)
    run.add_argument("--splits", type=numbers, default=[0, 1, 2, 3])
    commands.add_parser("table").add_argument("files", nargs="+")
    asked = parser.parse_args()
    if asked.command == "table":
        summarise(read(asked.files))
        return
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    past = read([asked.out]) if asked.out.exists() else []
    done = {(r["table"], r["n"], r["split"], r["model"]) for r in past}
    with asked.out.open("a") as out:
        for seed in asked.splits:
            for name, n in settings(asked.data, asked.sizes or ()):
                for model in asked.models.split(","):
                    wanted = not asked.tables or name in asked.tables.split(",")
                    wanted = wanted and (not asked.sizes or n in asked.sizes)
                    if not wanted or (name, n, seed, model) in done:
                        continue
                    record = measure(asked.data, name, n, seed, model)
                    out.write(json.dumps(record) + "\n")
                    out.flush()
                    print(json.dumps({k: v for k, v in record.items() if k != "task"}), flush=True)


if __name__ == "__main__":
    main()
