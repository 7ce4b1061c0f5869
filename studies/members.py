"""The default mixture with and without members that are not Newton fits, and levels of columns.

Real tables of studies/tables.py at 100, 400 and 1000 rows (or half of a small table), and the
18 public sets of the folder ``frontier`` with the four folds on which scores of other models are
published. ``before`` has kernels and linear models only, and takes whole numbers as quantities; its
records in ``members.jsonl`` are of the version that ranked maps by squared errors.

    python studies/members.py run --out members.jsonl --data FOLDER [--sizes 100,400]
    python studies/members.py table members.jsonl --data FOLDER
    python studies/members.py wide [--data FOLDER]
    python studies/members.py constant --data FOLDER
    python studies/members.py rules

``wide`` samples tables with many more columns than rows: 15 columns matter, or all, or one of each
of 15 blocks of 20 correlated columns. With a folder it adds real ones (two splits). L1 and ridge
have ten folds. The summary below each table has the ratio of the error to that of the better of L1
and ridge, chosen afterwards. ``constant`` compares the default with one without the constant
member, on tables of at most 150 rows and on the first fold of the public sets. ``rules`` draws
tables of 700 to 1,100 rows and 5 to 8 classes, which follow rules of a few of 8 to 30 mixed columns
with exceptions, and compares the default with one whose random forest has single rows as leaves and
a third of the columns.

``run`` leaves out what the file has already. Times are CPU seconds on one thread.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import tables
import torch
from sklearn.linear_model import LassoCV, LogisticRegressionCV, RidgeCV
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decoupled_descent as dd
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.features.candidates import AUTO
from decoupled_descent.tables.members.catalogue import AUTO as AUTO_MEMBERS
from decoupled_descent.tables.members.catalogue import RECIPES
from decoupled_descent.tables.members.growing import FORESTS
from decoupled_descent.tables.members.interface import TableSize

#: The features of before: those without levels.
PLAIN = [name for name in AUTO if not name.endswith("/levels")]
MODELS = {"before": {"features": PLAIN, "members": []}, "default": {}}
#: The most test rows: more would take time and change little.
MOST = 3000
#: Real tables that are wide, and the number of training rows.
WIDE = {"khan": 41, "tecator": 100, "dna": 100, "dhfr": 100, "tweets": 100}


def settings(data, sizes):
    """Yield name, size, split and the function that returns rows, for tables and public sets."""
    for name, n in tables.settings(data / "tables"):
        band = min((size for size in tables.SIZES if n <= 1.5 * size), default=0)
        slow = name in ("soybean", "digits") and n > 150  # many classes
        if band in sizes and not slow:
            for split in range(2 if n <= 150 else 1):
                yield name, n, split, tables.split(data / "tables", name, n, split)
    for name in json.loads((data / "frontier" / "scores.json").read_text()):
        frame = pd.read_csv(data / "frontier" / f"{name}.csv.gz")
        y = np.unique(frame.pop("target").to_numpy(), return_inverse=True)[1]
        folds = StratifiedKFold(4, shuffle=True, random_state=0)
        for fold, (train, test) in enumerate(folds.split(frame, y)):
            parts = [frame.iloc[one].reset_index(drop=True) for one in (train, test)]
            rows = parts[0], y[train], parts[1], y[test], "classification"
            yield f"frontier/{name}", len(train), fold, rows


def matrices(X, new):
    """Numbers from tables as ``decoupled train`` reads them."""
    if not isinstance(X, pd.DataFrame):
        X, new = pd.DataFrame(X).add_prefix("c"), pd.DataFrame(new).add_prefix("c")
    columns = Columns.learn(X)
    return columns.apply(X), columns.apply(new)


def measure(rows, options):
    """Fit, and compare the estimate with the error on the test rows."""
    given, y, new, truth, task = rows
    X, fresh = matrices(given, new[:MOST])
    truth = truth[:MOST]
    kind = dd.DecoupledRegressor if task == "regression" else dd.DecoupledClassifier
    start = time.process_time()
    model = kind(**options).fit(X, y)
    seconds = time.process_time() - start
    ask = model.predict if task == "regression" else model.predict_proba
    predicted = ask(fresh)
    losses = tables.row_losses(task, truth, predicted)
    shares = defaultdict(float)
    for other in model.mixture_.others:
        shares[other.model.name.partition("(")[0]] += other.share
    record = {
        "task": task,
        "estimate": model.estimated_test_error_,
        "estimate_se": model.estimated_test_error_stderr_,
        "test": losses.mean(),
        "test_se": losses.std() / len(losses) ** 0.5,
        "seconds": seconds,
        "shares": {name: round(share, 3) for name, share in shares.items()},
    }
    if task == "classification":
        record["precision"] = average_precision(truth, predicted)
    return record


def designs():
    """Yield the kind, the rows and the columns of simulated wide tables, and the rows."""
    for kind in ("sparse", "dense", "blocks"):
        for n, d in ((50, 5000), (100, 2000), (200, 1000)):
            for seed in (0, 1):
                yield kind, n, d, seed, design(kind, n, d, np.random.default_rng(seed))


def design(kind, n, d, rng):
    """Training rows and 1000 others; the labels are drawn from a logistic model."""
    total, theta = n + 1000, np.zeros(d)
    if kind == "blocks":
        shared = np.repeat(rng.normal(size=(total, d // 20)), 20, 1)
        X = 0.8 * shared + 0.6 * rng.normal(size=(total, d))
        theta[: 15 * 20 : 20] = 1.0
    else:
        X = rng.normal(size=(total, d))
        theta = rng.normal(size=d) if kind == "dense" else (np.arange(d) < 15).astype(float)
    logits = 6 * X @ theta / (X @ theta).std()
    y = (rng.random(total) < 1 / (1 + np.exp(-logits))).astype(int)
    return X[:n], y[:n], X[n:], y[n:]


def wide(data):
    """Print the errors of the default, of L1 and of ridge on wide tables."""
    drawn = [(kind, n, d, (*rows, "classification"), seed) for kind, n, d, seed, rows in designs()]
    _wide("design", drawn)
    if data is None:
        return
    real = []
    for name, n in WIDE.items():
        for split in range(2):
            X, y, new, truth, task = tables.split(data / "tables", name, n, split)
            X, new = matrices(X, new[:MOST])
            real.append((name, n, X.shape[1], (X, y, new, truth[:MOST], task), split))
    print()
    _wide("table", real)


def _wide(title, settings):
    """Print a table of errors, and its summary."""
    print(f"| {title} | n × d | default | L1 | ridge | z |\n|---|---|---|---|---|---|")
    ratios, scores = [], []
    for name, n, d, (X, y, new, truth, task), _ in settings:
        kind = dd.DecoupledRegressor if task == "regression" else dd.DecoupledClassifier
        model = kind().fit(X, y)
        fitted = [
            model,
            *(make_pipeline(StandardScaler(), one).fit(X, y) for one in rivals(task, y)),
        ]
        ask = "predict" if task == "regression" else "predict_proba"
        losses = [tables.row_losses(task, truth, getattr(one, ask)(new)) for one in fitted]
        spread = losses[0].std() / len(truth) ** 0.5
        stderr = np.hypot(model.estimated_test_error_stderr_, spread)
        means = [one.mean() for one in losses]
        scores.append((means[0] - model.estimated_test_error_) / stderr)
        ratios.append(means[0] / min(means[1:]))
        text = " | ".join(f"{one:.3g}" for one in means)
        print(f"| {name} | {n} × {d} | {text} | {scores[-1]:+.1f} |", flush=True)
    print(
        f"\nratio to the better of L1 and ridge: {np.exp(np.mean(np.log(ratios))):.3f} (geometric "
        f"mean), {max(ratios):.3f} (worst); mean z {np.mean(scores):+.2f}, rms z "
        f"{np.sqrt(np.mean(np.square(scores))):.2f}"
    )


def rivals(task, y):
    """L1 and ridge regression with ten folds."""
    if task == "regression":
        return LassoCV(cv=10, max_iter=20000), RidgeCV(np.logspace(-3, 6, 19), cv=10)
    common = {"cv": 10, "scoring": "neg_log_loss", "use_legacy_attributes": False}
    solver, steps = ("liblinear", 100) if len(set(y)) == 2 else ("saga", 500)
    return (
        LogisticRegressionCV(Cs=8, l1_ratios=(1,), solver=solver, max_iter=steps, **common),
        LogisticRegressionCV(Cs=np.logspace(-6, 1, 8), l1_ratios=(0,), **common),
    )


def constant(data):
    """Print the errors of the default with and without the constant member."""
    print("| table, n | without | default | ratio |\n|---|---|---|---|")
    pairs = []
    for name, n, split, rows in settings(data, [100]):
        if split or n > 500 or rows[-1] == "regression":
            continue
        size = TableSize(n, matrices(rows[0], rows[2][:1])[0].shape[1], 1, has_classes=True)
        plain = [one.name for one in AUTO_MEMBERS if one.suits(size) and one.name != "constant"]
        pairs.append([measure(rows, one) for one in ({"members": plain}, {})])
        one, two = (record["test"] for record in pairs[-1])
        print(f"| {name}, {n} | {one:.4g} | {two:.4g} | {two / one:.3f} |", flush=True)
    _summary("constant", pairs)


def rule_table(seed):
    """A drawn table: the chances of the classes are those of a leaf of a random tree."""
    rng = np.random.default_rng(1000 + seed)
    n, count, d = (int(rng.integers(*one)) for one in ((700, 1101), (5, 9), (8, 31)))
    total, columns = n + 3000, {}
    for j in range(d):
        kind, levels = rng.choice(["number", "whole", "text"], p=[0.4, 0.35, 0.25]), j % 5 + 2
        drawn = rng.normal(size=total) if kind == "number" else rng.integers(0, levels, total)
        columns[f"c{j}"] = np.char.add("v", drawn.astype(str)) if kind == "text" else drawn
    matter, base = (
        rng.choice(d, int(rng.integers(4, 8)), replace=False),
        rng.dirichlet([3.0] * count),
    )
    chances, spread = np.empty((total, count)), rng.choice([0.15, 0.3, 0.6])

    def grow(rows, depth):
        if depth == 0 or len(rows) < total / 50:
            chances[rows] = rng.dirichlet(spread * count * base + 1e-3)
            return
        codes = np.unique(columns[f"c{rng.choice(matter)}"], return_inverse=True)[1][rows]
        left = codes <= np.quantile(codes, rng.uniform(0.25, 0.75))
        grow(rows[left], depth - 1)
        grow(rows[~left], depth - 1)

    grow(np.arange(total), int(rng.integers(3, 6)))
    y = (chances.cumsum(1) < rng.random((total, 1))).sum(1).clip(0, count - 1)
    X, (known, train) = pd.DataFrame(columns), np.unique(y[:n], return_inverse=True)
    test = n + np.flatnonzero(np.isin(y[n:], known))
    new = X.iloc[test].reset_index(drop=True)
    return X.iloc[:n], train, new, np.searchsorted(known, y[test]), "classification"


def rules(seeds=range(4)):
    """Print log losses and mean precisions with forests as they were and as they are."""
    print("| table, rows | single rows | default | precision |\n|---|---|---|---|")
    forest = FORESTS[0]._replace(columns=1 / 3, leaf=1)
    pairs = []
    for seed in seeds:
        rows = rule_table(seed)
        pairs.append([])
        for one in (forest, FORESTS[0]):
            RECIPES["random forest"] = one
            pairs[-1].append(measure(rows, {"members": ["random forest", "extra trees"]}))
        one, two = pairs[-1]
        print(
            f"| {seed}, {len(rows[1])} | {one['test']:.4f} | {two['test']:.4f} | "
            f"{one['precision']:.3f} → {two['precision']:.3f} |", flush=True,
        )  # fmt: skip
    _summary("rules", pairs)


def average_precision(y, chances):
    """Of the second of two classes; of several, the mean weighted by their sizes."""
    if chances.shape[1] == 2:
        return average_precision_score(y, chances[:, 1])
    return average_precision_score(np.eye(chances.shape[1])[y], chances, average="weighted")


def run(out, data, sizes):
    """Add records to a file."""
    lines = out.read_text().splitlines() if out.exists() else []
    done = {tuple(json.loads(line)[k] for k in ("model", "table", "n", "split")) for line in lines}
    for name, n, split, rows in settings(data, sizes):
        for model, options in MODELS.items():
            if (model, name, n, split) in done:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                record = {"model": model, "table": name, "n": n, "split": split}
                record |= measure(rows, options)
            append(out, record)


def append(out, record):
    """Add a record to a file of lines, with numbers of five digits."""
    rounded = {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in record.items()}
    with out.open("a") as file:
        file.write(json.dumps(rounded) + "\n")


def table(path, data):
    """Print all results as tables of a page."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    by = {(r["model"], r["table"], r["n"], r["split"]): r for r in records}
    keys = [key[1:] for key in by if key[0] == "default" and ("before", *key[1:]) in by]
    pairs = defaultdict(list)
    for key in keys:
        pairs[key[:2]].append((by[("before", *key)], by[("default", *key)]))
    own = {k: v for k, v in pairs.items() if not k[0].startswith("frontier/")}
    _errors(own)
    _summary("tables", [pair for several in own.values() for pair in several])
    public = defaultdict(list)
    for (name, _), several in pairs.items():
        if name.startswith("frontier/"):
            public[name.removeprefix("frontier/")] += several
    _public(public, json.loads((data / "frontier" / "scores.json").read_text()))
    _summary("public sets", [pair for several in public.values() for pair in several])


def _errors(pairs):
    print("| table, n | before | default | ratio | shares of others |\n|---|---|---|---|---|")
    for (name, n), several in sorted(pairs.items(), key=lambda item: (item[0][1], item[0][0])):
        one, two = (np.mean([pair[k]["test"] for pair in several]) for k in (0, 1))
        ratio = np.exp(np.mean([np.log(b["test"] / a["test"]) for a, b in several]))
        parts = defaultdict(float)
        for _, record in several:
            for kind, share in record["shares"].items():
                parts[kind] += share / len(several)
        words = ", ".join(f"{kind} {share:.2f}" for kind, share in parts.items() if share >= 0.01)
        print(f"| {name}, {n} | {one:.4g} | {two:.4g} | {ratio:.3f} | {words} |")


def _summary(name, pairs):
    """Ratio of errors and of times, and z: (test − estimate) over both standard errors."""
    ratio = np.exp(np.mean([np.log(b["test"] / a["test"]) for a, b in pairs]))
    times = np.median([b["seconds"] / a["seconds"] for a, b in pairs])
    print(
        f"\n{name}: {len(pairs)} fits, ratio of errors {ratio:.4f}, of times {times:.2f} (median)"
    )
    for number, model in enumerate(MODELS):
        z = [
            (r["test"] - r["estimate"]) / np.hypot(r["estimate_se"], r["test_se"])
            for r in (pair[number] for pair in pairs)
        ]
        print(f"{model}: mean z {np.mean(z):+.2f}, rms z {np.sqrt(np.mean(np.square(z))):.2f}")
    print()


def _public(public, scores):
    others = ("tabpfn3", "tabicl", "tabfm", "catboost", "random_forest")
    print(f"| set | before | default | log loss | {' | '.join(others)} |")
    print(f"|{'---|' * (4 + len(others))}")
    columns = []
    for name, several in public.items():
        one, two = (np.mean([pair[k]["precision"] for pair in several]) for k in (0, 1))
        losses = [np.mean([pair[k]["test"] for pair in several]) for k in (0, 1)]
        published = [np.mean(scores[name]["average_precision"][other]) for other in others]
        columns.append([one, two, *published, *losses])
        text = " | ".join(f"{value:.3f}" for value in published)
        print(f"| {name} | {one:.3f} | {two:.3f} | {losses[0]:.3f} → {losses[1]:.3f} | {text} |")
    mean = np.mean(columns, axis=0)
    text = " | ".join(f"{value:.4f}" for value in mean[2:-2])
    print(f"| mean | {mean[0]:.4f} | {mean[1]:.4f} | {mean[-2]:.4f} → {mean[-1]:.4f} | {text} |")


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("run", "table", "wide", "constant", "rules"))
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sizes", default="100,400,1000")
    given = parser.parse_args()
    if given.action == "wide":
        warnings.simplefilter("ignore")
        wide(given.data)
    elif given.action == "rules":
        warnings.simplefilter("ignore")
        rules()
    elif given.action == "constant":
        warnings.simplefilter("ignore")
        constant(given.data)
    elif given.action == "run":
        run(given.out, given.data, [int(size) for size in given.sizes.split(",")])
    else:
        table(given.path, given.data)
