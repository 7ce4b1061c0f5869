"""Does the check "drift" tell tables whose relation changes with time from others?

Tables of six columns, one of them a time, are drawn row by row in time, 15 % longer than they are
trained on. The first rows are shuffled, and the default estimator is fitted to them. The later rows
show whether the estimate holds for them. Four kinds drift: the coefficients or the level walk at
random, the level jumps once, or the coefficients turn slowly. Four do not: nothing depends on time,
the target has a season or a straight trend, or the columns move and the relation stays.

``python studies/drift.py 16 32`` draws tables 16 to 31 of each kind; even ones have 150 rows,
odd ones 400, and of every four the last two have classes. The check and its limits were chosen on
tables 0 to 15.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import decoupled_descent as dd

DRIFTING = ("coefficients walk", "level walks", "level jumps", "coefficients turn")
STABLE = ("nothing", "season", "trend", "columns move")
#: Rows after those that are trained on, as a share of them.
LATER = 0.15


class Draw(NamedTuple):
    """A table in the order of time."""

    X: pd.DataFrame
    y: Any


def draw(kind: str, n: int, classes: bool, rng: np.random.Generator) -> Draw:
    """Draw a table with (1 + LATER) n rows."""
    size, d = int((1 + LATER) * n), 5
    t = np.sort(rng.uniform(0, 1, size)) * (1 + LATER)
    X, b = rng.normal(size=(size, d)), rng.normal(size=d) / np.sqrt(d) * 1.5
    slopes, level = np.tile(b, (size, 1)), np.zeros(size)
    if kind == "coefficients walk":
        slopes = slopes + np.cumsum(rng.normal(size=(size, d)) * 2 / np.sqrt(size), 0)
    elif kind == "level walks":
        level = np.cumsum(rng.normal(size=size) * 4 / np.sqrt(size))
    elif kind == "level jumps":
        level = 2.5 * (t > rng.uniform(0.6, 0.95)) * rng.choice([-1, 1])
    elif kind == "coefficients turn":
        other = rng.normal(size=d) / np.sqrt(d) * 1.5
        slopes = slopes * (1 - t[:, None]) + other * t[:, None]
    elif kind == "season":
        level = 1.5 * np.sin(2 * np.pi * rng.integers(3, 9) * t + rng.uniform(0, 6))
    elif kind == "trend":
        level = 2 * t
    elif kind == "columns move":
        X = X + 2 * t[:, None] * rng.normal(size=d) / np.sqrt(d)
    f = (X * slopes).sum(1) + level
    if classes:
        chances = 1 / (1 + np.exp(-1.5 * (f - np.median(f))))
        y = (rng.uniform(size=size) < chances).astype(int)
    else:
        y = f + 0.7 * rng.normal(size=size)
    names = ["date", *(f"x{k}" for k in range(d))]
    return Draw(pd.DataFrame(np.column_stack([1000 * t, X]), columns=names), y)


def measured(kind: str, seed: int) -> dict[str, Any]:
    """The check and the truth for one table."""
    kinds = DRIFTING + STABLE
    rng = np.random.default_rng(1000 * seed + kinds.index(kind))
    n, classes = (150, 400)[seed % 2], bool((seed // 2) % 2)
    table = draw(kind, n, classes, rng)
    order = rng.permutation(n)
    model: Any = (dd.DecoupledClassifier if classes else dd.DecoupledRegressor)()
    model.fit(table.X.iloc[order], table.y[order])
    X, y = table.X.iloc[n:], table.y[n:]
    if classes:
        losses = -np.log(model.predict_proba(X)[np.arange(len(y)), y])
    else:
        losses = (model.predict(X) - y) ** 2
    finding = next(one for one in model.diagnostics_.findings if one.name == "drift")
    error, stderr = model.estimated_test_error_, model.estimated_test_error_stderr_
    z = (losses.mean() - error) / np.hypot(stderr, losses.std() / np.sqrt(len(losses)))
    return {
        "kind": kind, "seed": seed, "value": finding.value, "status": finding.status, "z": z,
        "ratio": losses.mean() / error, "wrong": bool(z > 2 and losses.mean() > 1.2 * error),
    }  # fmt: skip


def main(first: int, end: int) -> None:
    """Print how often the check fires, for each kind."""
    warnings.simplefilter("ignore")
    rows = [measured(kind, seed) for seed in range(first, end) for kind in DRIFTING + STABLE]
    table = pd.DataFrame(rows)
    table["caution"] = table.status.isin(["caution", "alarm"])
    table["alarm"] = table.status == "alarm"
    kinds = table.groupby("kind", sort=False)
    counts = kinds[["caution", "alarm", "wrong"]].sum()
    print(counts.assign(tables=kinds.size(), ratio=kinds.ratio.median().round(2)))
    wrong = table[table.wrong]
    print(f"of {len(wrong)} wrong ones: {wrong.caution.sum()} caution, {wrong.alarm.sum()} alarm")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
