"""Estimates for later rows: ``python studies/later_rows.py [DRAWS] [FIRST_SEED]``.

Each draw has 300 rows in time and the 30 rows after them, on which the error is measured. Two
tables are real: a draw has 330 of the 2930 houses, or 220 of the 306 patients, by their time; they
are read from the folder DECOUPLED_DATA. The
estimate with ``time=`` and the plain leave-one-out estimate count as right if they are within two
standard errors of it. To the standard error of the plain estimate, that of the mean over the 30
rows is added, which the other one contains already.
"""

import os
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import decoupled_descent as dd

ROWS, NEXT = 300, 30


def turning(rng, t, X):
    """The coefficients turn slowly: the concept drifts in one direction."""
    angle = 3 * t
    return X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) + 0.5 * rng.normal(size=len(t))


def levels(rng, t, X):
    """The level jumps 22 times, as between batches or seasons."""
    jumps = rng.normal(size=22)[np.minimum((22 * t).astype(int), 21)]
    return X[:, 0] + jumps + 0.5 * rng.normal(size=len(t))


def walk(rng, t, X):
    """The level is a random walk."""
    steps = 0.1 * rng.normal(size=len(t)).cumsum()
    return X[:, 0] + steps + 0.5 * rng.normal(size=len(t))


def rates(rng, t, X):
    """Two classes, whose rate is a random walk."""
    steps = (0.5 * rng.normal(size=30)).cumsum()[np.minimum((30 * t).astype(int), 29)]
    return (1.5 * X[:, 0] - 1.5 + steps + rng.logistic(size=len(t)) > 0).astype(int)


def calm(rng, t, X):
    """Nothing drifts."""
    return X[:, 0] + 0.7 * rng.normal(size=len(t))


TABLES = {one.__name__: one for one in (turning, levels, walk, rates, calm)}


def simulated(table, seed):
    """Rows in time, their targets and their times."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, ROWS + NEXT)
    X = rng.normal(size=(len(t), 4))
    y = table(rng, t, X)
    return np.column_stack([X, t]), y, t


def houses(seed):
    """The logarithms of prices of houses in Ames by month of sale, from 2006 to 2010."""
    frame = pd.read_csv(Path(os.environ["DECOUPLED_DATA"]) / "tables" / "ames.csv.gz")
    t = frame["Year_Sold"] + frame["Mo_Sold"] / 12
    X = frame.drop(columns="target").select_dtypes("number").to_numpy(float)
    return in_time(X, np.log(frame["target"].to_numpy(float)), t.to_numpy(), ROWS + NEXT, seed)


def patients(seed):
    """Survival after an operation of breast cancer by the year of the operation, 1958 to 1969."""
    path = Path(os.environ["DECOUPLED_DATA"]) / "frontier" / "habermans-survival.csv.gz"
    frame = pd.read_csv(path)
    X = frame[["V1", "V2", "V3"]].to_numpy(float)
    return in_time(X, frame["target"].to_numpy(int), X[:, 1], 220, seed)


def in_time(X, y, t, count, seed):
    """Some rows at random, in the order of time."""
    chosen = np.random.default_rng(seed).permutation(len(y))[:count]
    chosen = chosen[np.argsort(t[chosen], kind="stable")]
    return X[chosen], y[chosen], t[chosen]


REAL = {one.__name__: one for one in (houses, patients)}


def draw(X, y, t):
    """Return for both estimates whether they are right, and the ratio of estimate and error."""
    rows = len(y) * ROWS // (ROWS + NEXT)
    count = len(y) - rows
    classes = y.dtype.kind == "i"
    kind = dd.DecoupledClassifier if classes else dd.DecoupledRegressor
    timed = kind(features="linear").fit(X[:rows], y[:rows], time=t[:rows])
    plain = kind(features="linear").fit(X[:rows], y[:rows])
    if classes:
        codes = np.searchsorted(plain.classes_, y[rows:])
        losses = -np.log(plain.predict_proba(X[rows:])[np.arange(count), codes])
    else:
        losses = np.square(plain.predict(X[rows:]) - y[rows:])
    error, sampling = losses.mean(), losses.std(ddof=1) / np.sqrt(count)
    stderrs = (
        timed.estimated_test_error_stderr_,
        np.hypot(plain.estimated_test_error_stderr_, sampling),
    )
    estimates = timed.estimated_test_error_, plain.estimated_test_error_
    return [
        (abs(estimate - error) <= 2 * stderr, estimate / error, stderr / error, estimate < error)
        for estimate, stderr in zip(estimates, stderrs, strict=True)
    ]


def main():
    draws, first = (int(sys.argv[k]) if len(sys.argv) > k else (100, 0)[k - 1] for k in (1, 2))
    makers = {name: partial(simulated, table) for name, table in TABLES.items()} | REAL
    print("| table | right with time | too low | ratio | stderr | right without | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, make in makers.items():
        results = np.array([draw(*make(seed)) for seed in range(first, first + draws)], dtype=float)
        right, ratios = results[:, :, 0].mean(0), np.median(results[:, :, 1:3], 0)
        low = (1 - results[:, 0, 0]) @ results[:, 0, 3]
        timed = f"{100 * right[0]:.0f} % | {low:.0f} | {ratios[0, 0]:.2f} | {ratios[0, 1]:.2f}"
        print(f"| {name} | {timed} | {100 * right[1]:.0f} % | {ratios[1, 0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
