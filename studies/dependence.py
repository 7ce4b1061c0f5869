"""How wrong is the estimate if rows are not independent, and does ``diagnose`` detect it?

Rows of the same patients in order or shuffled, labels of overlapping days, slow features with
errors of their own, and tables that are merely sorted. Truth is the log loss on 4,000 rows of other
patients, of later days, or of the same law. z = (estimate − truth)/standard error.

Run with ``python studies/dependence.py OUT.json``; five minutes on one core.
"""

import json
import sys
import warnings

import numpy as np
import torch

import decoupled_descent as dd

SEEDS, FRESH = 10, 4000


def groups(size, noise, n=400, shuffled=False):
    def draw(r):
        count = (n + FRESH) // size
        people = r.normal(size=(count, 20))
        ill = 0.7 * people[:, 0] + 1.5 * r.normal(size=count) > 0
        who = np.repeat(np.arange(count), size)
        X, y = people[who] + noise * r.normal(size=(len(who), 20)), ill[who].astype(int)
        order = r.permutation(n) if shuffled else np.arange(n)
        return X[:n][order], y[:n][order], X[n:], y[n:]

    return draw


def series(r, length):
    features = np.zeros((length, 6))
    for t in range(1, length):
        features[t] = 0.97 * features[t - 1] + 0.25 * r.normal(size=6)
    return features


def overlapping(days, n=450, gap=500):
    def draw(r):
        length = n + gap + FRESH
        X = series(r, length)
        walk = np.r_[0, np.cumsum(r.normal(size=length + days))]
        y = (walk[days : length + days] > walk[:length]).astype(int)
        return X[:n], y[:n], X[n + gap :], y[n + gap :]

    return draw


def slow(n=450, gap=500):
    def draw(r):
        X, w = series(r, n + gap + FRESH), r.normal(size=6)
        y = (X @ w + r.logistic(size=len(X)) > 0).astype(int)
        return X[:n], y[:n], X[n + gap :], y[n + gap :]

    return draw


def ordered(by, d=20, n=600):
    def draw(r):
        X = r.normal(size=(n + FRESH, d))
        y = (X[:, 0] + X[:, 1] + r.logistic(size=len(X)) > 0).astype(int)
        keys = {"nothing": np.zeros(n), "label": y[:n], "column": X[:n, 0]}
        order = np.argsort(keys[by], kind="stable")
        return X[:n][order], y[:n][order], X[n:], y[n:]

    return draw


KINDS = {
    "10 rows of each patient, in order": groups(10, 0.5),
    "5 rows of each, less alike": groups(5, 1.0),
    "2 rows of each": groups(2, 0.5),
    "10 rows of each, shuffled": groups(10, 0.5, shuffled=True),
    "overlapping days": overlapping(20),
    "slow features, errors of their own": slow(),
    "independent, in no order": ordered("nothing"),
    "independent, sorted by label": ordered("label"),
    "independent, sorted by a column of 20": ordered("column"),
    "independent, sorted by a column of 4": ordered("column", d=4),
}


def study(draw):
    z, verdicts, alike, accuracy = [], [], [], []
    for seed in range(SEEDS):
        X, y, fresh, truth = draw(np.random.default_rng(seed))
        model = dd.DecoupledClassifier(random_state=seed).fit(X, y)
        p = model.predict_proba(fresh)[np.arange(len(truth)), truth]
        z.append(
            (model.estimated_test_error_ + np.log(p).mean()) / model.estimated_test_error_stderr_
        )
        accuracy.append((model.estimated_accuracy_, model.score(fresh, truth)))
        verdicts.append(model.diagnostics_.verdict)
        alike += [f.value for f in model.diagnostics_.findings if f.name == "neighbouring rows"]
    names = ("trust", "caution", "do not trust")
    return {
        "mean_z": np.mean(z),
        "accuracy": list(np.mean(accuracy, 0)),
        "neighbouring_rows": [min(alike), max(alike)],
        "verdicts": [verdicts.count(name) for name in names],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    result = {}
    for name, draw in KINDS.items():
        found = result[name] = study(draw)
        low, high = found["neighbouring_rows"]
        estimate, truth = found["accuracy"]
        print(
            f"| {name} | {100 * estimate:.0f} % | {100 * truth:.0f} % | {found['mean_z']:+.1f} | "
            f"{low:.2f} to {high:.2f} | {' / '.join(map(str, found['verdicts']))} |",
            flush=True,
        )
    with open(sys.argv[1], "w") as file:
        json.dump(result, file, indent=1)
