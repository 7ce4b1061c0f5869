"""What a way to estimate a test error is, and those that serve every model class.

A way gets the training rows and nothing else. It returns a model, an estimate of the model's test
error, and the standard error of the estimate where the way has one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Losses of a model on new rows, row by row.
RowLosses = Callable[[Array, Array], Array]


class Answer(NamedTuple):
    """What a way returns."""

    estimate: float
    stderr: float | None  # None: the way has none
    losses: RowLosses  # of the model that the user ends up with


class Trained(Protocol):
    """One model for every candidate: ridges, or steps of a descent."""

    def losses(self, X: Array, y: Array) -> Array:
        """Row losses of all candidates, shape (candidates, rows)."""

    def pick(self, index: int) -> RowLosses:
        """The model of one candidate."""


#: Every single row is left out, fit by fit, of samples up to this size: the first few data sets.
LITERAL_ROWS, LITERAL_SEEDS = 100, 3
#: Trains all candidates, or those up to ``last`` where later ones need not be known.
Learner = Callable[..., Trained]
Way = Callable[[Array, Array], Answer]


class Draw(NamedTuple):
    """Training rows and test rows."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


def mean_and_stderr(losses: Array) -> tuple[float, float]:
    """Mean of row losses and its standard error; rows that cannot be judged are NaN."""
    kept = losses[~np.isnan(losses)]
    return float(kept.mean()), float(kept.std(ddof=1) / np.sqrt(len(kept)))


def lowest(losses: Array) -> int:
    """The candidate with the lowest mean loss; one that blew up does not count."""
    means = np.nanmean(losses, 1)
    return int(np.where(np.isfinite(means), means, np.inf).argmin())


def hold_out(learner: Learner, share: float) -> Way:
    """Judge candidates by rows that are set aside; the best one, trained on the rest, is kept."""

    def way(X: Array, y: Array) -> Answer:
        cut = len(y) - max(2, round(share * len(y)))
        trained = learner(X[:cut], y[:cut])
        losses = trained.losses(X[cut:], y[cut:])
        best = lowest(losses)
        return Answer(*mean_and_stderr(losses[best]), trained.pick(best))

    return way


def cross_validation(learner: Learner, folds: int | None) -> Way:
    """Judge candidates by folds (None: single rows); the best is trained again on all rows."""

    def way(X: Array, y: Array) -> Answer:
        fold = np.arange(len(y)) % (folds or len(y))
        parts = []
        for number in range(fold.max() + 1):
            out = fold == number
            parts.append((out, learner(X[~out], y[~out]).losses(X[out], y[out])))
        count = min(len(found) for _, found in parts)  # descents that blow up end early
        losses = np.empty((count, len(y)))
        for out, found in parts:
            losses[:, out] = found[:count]
        best = lowest(losses)
        return Answer(*mean_and_stderr(losses[best]), learner(X, y, last=best).pick(best))

    return way


def common_ways(learner: Learner, literal: bool = False) -> dict[str, Way]:
    """Hold-out and folds, and if asked for, a fit without every single row."""
    ways = {f"hold-out {share} %": hold_out(learner, share / 100) for share in (10, 20, 30)}
    ways |= {f"{folds}-fold": cross_validation(learner, folds) for folds in (5, 10)}
    if literal:
        ways["leave-one-out"] = cross_validation(learner, None)
    return ways


def literal(rows: int, seed: int) -> bool:
    """Whether leave-one-out is done literally."""
    return rows <= LITERAL_ROWS and seed < LITERAL_SEEDS


def measure(way: Way, draw: Draw) -> dict[str, float | None]:
    """Estimate, test error and processor time of one way on one data set."""
    start = time.process_time()
    answer = way(draw.X, draw.y)
    seconds = time.process_time() - start
    losses = answer.losses(draw.X_test, draw.y_test)
    test, test_stderr = mean_and_stderr(losses)
    return {
        "estimate": answer.estimate, "estimate_se": answer.stderr,
        "test": test, "test_se": test_stderr, "test_sd": float(np.nanstd(losses, ddof=1)),
        "seconds": seconds,
    }  # fmt: skip


def single_fit(learner: Learner) -> Way:
    """Train all candidates once on all rows and believe the last one's fitted error."""

    def way(X: Array, y: Array) -> Answer:
        trained = learner(X, y)
        model = trained.pick(-1)
        return Answer(*mean_and_stderr(model(X, y)), model)

    return way
