"""Accuracy, area under the curve and error of the default estimators on real tables.

    python studies/edge_tables.py run --out edge_tables.jsonl [--data FOLDER] [--splits 12]
    python studies/edge_tables.py table edge_tables.jsonl

42 tables (those of studies/tables.py, and eighteen small public ones in ``frontier``) are
divided at random, twelve times; 150 rows, or half of a smaller table, are for training, all others
are the truth. Ten tables with two classes are also sampled with the same number of rows of each
class. The truth has a standard error, too: it is added to that of the estimate in z, and to the
interval when covering is counted. ``run`` leaves out what the file has already.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import decoupled_descent as dd

sys.path.insert(0, str(Path(__file__).parent))
import tables

N = 150


def names(data):
    """All tables: those of the folder ``tables``, scikit-learn's, and those of ``frontier``."""
    own = [*json.loads((Path(data, "tables") / "about.json").read_text()), *tables.OWN]
    more = sorted(path.name.split(".")[0] for path in Path(data, "frontier").glob("*.csv.gz"))
    return [("tables", name) for name in own] + [("frontier", name) for name in more]


def load(data, kind, name):
    """Numbers, labels and the task."""
    if kind == "tables":
        X, y, task = tables.load(str(Path(data, "tables")), name)
    else:
        frame = pd.read_csv(Path(data, "frontier", f"{name}.csv.gz"))
        y, task = frame.pop("target").to_numpy(), "classification"
        text = [c for c in frame if not pd.api.types.is_numeric_dtype(frame[c])]
        X = frame.astype(dict.fromkeys(text, object)) if text else frame.to_numpy(float)
        y = np.unique(y, return_inverse=True)[1]
    return X, y, task


def rows_for(y, seed, balanced):
    """Training rows and the others."""
    rng = np.random.default_rng(seed)
    order, n = rng.permutation(len(y)), min(N, len(y) // 2)
    if not balanced:
        return order[:n], order[n:]
    half = min(n // 2, int(np.bincount(y).min() * 0.6))
    train = np.concatenate([order[y[order] == label][:half] for label in (0, 1)])
    return train, np.setdiff1d(order, train)


def records(X, y, task, train, test):
    """Each metric: estimate, ends of its interval, standard error, truth and that of the truth."""
    rows = tables._rows
    before = tables.prepared(X)
    A, B = before.fit_transform(rows(X, train)), before.transform(rows(X, test))
    if task == "regression":
        model = dd.DecoupledRegressor().fit(A, y[train])
        squares = (model.predict(B) - y[test]) ** 2
        return {"squared error": _record(model, "test_error", squares)}
    classes = np.unique(y[train])
    keep = np.isin(y[test], classes)
    B, test = B[keep], test[keep]
    model = dd.DecoupledClassifier().fit(A, y[train])
    chances = model.predict_proba(B)
    own = np.searchsorted(classes, y[test])
    losses = -np.log(chances[np.arange(len(own)), own])
    found = {
        "log loss": _record(model, "test_error", losses),
        "accuracy": _record(model, "accuracy", 1.0 * (chances.argmax(1) == own)),
    }
    if len(classes) == 2 and np.bincount(own, minlength=2).min() > 1:
        area = model.estimate("auc")
        truth = dd.evaluation.Evaluation.of(own, chances).estimate("auc")
        found["AUC"] = [area.value, *area.interval, area.stderr, truth.value, truth.stderr]
    return found


def _record(model, name, values):
    estimate = getattr(model, f"estimated_{name}_")
    ends, stderr = (getattr(model, f"estimated_{name}_{end}_") for end in ("interval", "stderr"))
    own = values.std(ddof=1) / len(values) ** 0.5
    return [estimate, *ends, stderr, float(values.mean()), float(own)]


def run(options):
    out = Path(options.out)
    done = set()
    if out.exists():
        done = {tuple(json.loads(line)["key"]) for line in out.read_text().splitlines()}
    for seed in range(options.splits):
        for kind, name in names(options.data):
            X, y, task = load(options.data, kind, name)
            modes = [False]
            if task == "classification" and y.max() == 1 and np.bincount(y).min() >= 60:
                modes.append(True)
            for balanced in modes:
                key = (kind, name, seed, balanced)
                train, test = rows_for(y, seed, balanced)
                if key in done or (balanced and len(train) < 40):
                    continue
                result = records(X, y, task, train, test)
                with out.open("a") as file:
                    file.write(json.dumps({"key": key, "n": len(train), "result": result}) + "\n")


def table(path):
    """Bias in standard errors, and coverage, of every metric."""
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    print("| tables | metric | fits | mean z | rms z | covered |")
    print("|---|---|---|---|---|---|")
    kinds = (
        ("shared and scikit-learn's", lambda key: key[0] == "tables" and not key[3]),
        ("frontier", lambda key: key[0] == "frontier" and not key[3]),
        ("equal classes", lambda key: key[3]),
    )
    for label, chosen in kinds:
        some = [line["result"] for line in lines if chosen(line["key"])]
        for metric in ("accuracy", "AUC", "log loss", "squared error"):
            a = np.array([one[metric] for one in some if metric in one], dtype=float)
            if len(a) == 0:
                continue
            value, low, high, stderr, truth, own = a.T
            z = (value - truth) / np.hypot(stderr, own)
            below = value - np.hypot(value - low, 1.96 * own)
            above = value + np.hypot(high - value, 1.96 * own)
            inside = (below <= truth) & (truth <= above)
            print(f"| {label} | {metric} | {len(a)} | {z.mean():+.2f} | "
                  f"{np.sqrt((z**2).mean()):.2f} | {100 * inside.mean():.0f} % |")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, dest="command")
    running = commands.add_parser("run")
    running.add_argument("--out", required=True)
    running.add_argument("--data", default=os.environ.get("DECOUPLED_DATA", "data"))
    running.add_argument("--splits", type=int, default=12)
    commands.add_parser("table").add_argument("file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    run(options) if options.command == "run" else table(options.file)


if __name__ == "__main__":
    main()
