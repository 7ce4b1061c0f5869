"""Estimates for later rows: ``python docs/studies/later_rows.py DRAWS``.

Each draw has 300 rows in time and the 30 rows after them, on which the error is measured. The
estimate with ``time=`` and the plain leave-one-out estimate count as right if they are within two
standard errors of it. To the standard error of the plain estimate, that of the mean over the 30
rows is added, which the other one contains already.
"""

import sys

import numpy as np

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


def draw(table, seed):
    """Return for both estimates whether they are right, and the ratio of estimate and error."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, ROWS + NEXT)
    X = rng.normal(size=(len(t), 4))
    y = table(rng, t, X)
    X = np.column_stack([X, t])
    classes = y.dtype.kind == "i"
    kind = dd.DecoupledClassifier if classes else dd.DecoupledRegressor
    timed = kind(features="linear").fit(X[:ROWS], y[:ROWS], time=t[:ROWS])
    plain = kind(features="linear").fit(X[:ROWS], y[:ROWS])
    if classes:
        codes = np.searchsorted(plain.classes_, y[ROWS:])
        losses = -np.log(plain.predict_proba(X[ROWS:])[np.arange(NEXT), codes])
    else:
        losses = np.square(plain.predict(X[ROWS:]) - y[ROWS:])
    error, sampling = losses.mean(), losses.std(ddof=1) / np.sqrt(NEXT)
    stderrs = (
        timed.estimated_test_error_stderr_,
        np.hypot(plain.estimated_test_error_stderr_, sampling),
    )
    estimates = timed.estimated_test_error_, plain.estimated_test_error_
    return [
        (abs(estimate - error) <= 2 * stderr, estimate / error)
        for estimate, stderr in zip(estimates, stderrs, strict=True)
    ]


def main():
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print("| table | right with time | ratio | right without | ratio |\n|---|---|---|---|---|")
    for name, table in TABLES.items():
        results = np.array([draw(table, seed) for seed in range(draws)], dtype=float)
        right, ratios = results[:, :, 0].mean(0), np.median(results[:, :, 1], 0)
        cells = [f"{100 * right[k]:.0f} % | {ratios[k]:.2f}" for k in (0, 1)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
