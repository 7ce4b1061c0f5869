"""Calibration: predicted probabilities beside observed frequencies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

if TYPE_CHECKING:
    from decoupled_descent.evaluation.evaluation import Evaluation

Floats = NDArray[np.floating[Any]]

#: The most bins, and the fewest rows in each.
BINS, LEAST = 10, 20
#: Probabilities nearer to 0 or 1 count as this, so that their log odds are finite.
LEAST_CHANCE = 1e-12


class CalibrationLine(NamedTuple):
    r"""A logistic regression of the class on the log odds z of its predicted probabilities.

    Perfect probabilities have slope 1 and intercept 0. A slope below 1 means that they are too
    extreme. The intercept is that at slope 1: above 0 the class occurs more often than predicted.
    """

    slope: float
    slope_stderr: float
    intercept: float
    intercept_stderr: float


@dataclass(frozen=True)
class Calibration:
    r"""Leave-one-out probabilities of the rows, and how often the class was the right one.

    With two classes these are the probabilities of the second class; with more, those of the most
    probable class of each row. Rows are sorted by them into bins of about equal size.

    Attributes:
        stated: Mean predicted probability in each bin.
        seen: The observed frequency: how often the class was the right one.
        count: Rows in each bin.
        error: The expected calibration error, Σ_b share_b abs(seen_b − stated_b).
        stderr: Its standard error.
        chance: Its expectation if all probabilities were perfect; above 0, because bins are
            finite.
        line: Of two classes, the calibration line; None otherwise, and where it has no end.
    """

    stated: tuple[float, ...]
    seen: tuple[float, ...]
    count: tuple[int, ...]
    error: float
    stderr: float
    chance: float
    line: CalibrationLine | None = None

    @property
    def table(self) -> pd.DataFrame:
        """One row per bin: stated, seen, count."""
        return pd.DataFrame({"stated": self.stated, "seen": self.seen, "count": self.count})

    @property
    def calibrated(self) -> bool:
        """Whether the error is at most two standard errors above its expectation by chance."""
        return self.error <= self.chance + 2 * self.stderr

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        lists = {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items()}
        return lists | {"line": None if self.line is None else self.line._asdict()}


def reliability(evaluation: Evaluation) -> Calibration:
    """Compare predicted probabilities with observed frequencies.

    Args:
        evaluation: Probabilities of classes with their labels.

    Returns:
        The table by bins and the expected calibration error.

    Example:
        >>> from decoupled_descent.evaluation import Evaluation
        >>> chances = np.repeat([[0.75, 0.25]], 40, axis=0)
        >>> result = reliability(Evaluation.of(np.arange(40) % 2, chances))
        >>> result.count, round(result.error, 6)
        ((40,), 0.25)
    """
    chances, codes, groups = evaluation.predictions, evaluation.labels, evaluation.groups
    n, classes = chances.shape
    chosen = np.ones(n, dtype=int) if classes == 2 else chances.argmax(1)
    stated, seen = chances[np.arange(n), chosen], (codes == chosen).astype(float)
    shares = evaluation.row_weights / evaluation.row_weights.sum()
    bins = _bins(stated)
    sizes = np.bincount(bins, shares)
    means = [np.bincount(bins, shares * values) / sizes for values in (stated, seen)]
    gaps = means[1] - means[0]
    pulls = shares * np.sign(gaps)[bins] * (seen - stated - gaps[bins])
    doubt = np.bincount(bins, shares**2 * stated * (1 - stated))  # if the probabilities are perfect
    return Calibration(
        tuple(means[0].tolist()),
        tuple(means[1].tolist()),
        tuple(np.bincount(bins).tolist()),
        float(sizes @ np.abs(gaps)),
        float(np.sqrt(_group_sums(pulls, groups) @ _group_sums(pulls, groups))),
        float(math.sqrt(2 / math.pi) * np.sqrt(doubt).sum()),
        calibration_line(stated, seen, shares, groups) if classes == 2 else None,
    )


def calibration_line(
    stated: Floats, seen: Floats, shares: Floats, groups: NDArray[Any] | None = None
) -> CalibrationLine | None:
    r"""Slope and intercept of the calibration, with standard errors that count groups.

    Newton's method for :math:`\sum_i s_i \log(1 + e^{u_i}) - s_i y_i u_i` with :math:`u_i = a + b
    z_i`. The standard errors are those of the sandwich formula.

    Args:
        stated: Predicted probabilities of the class, shape (n,).
        seen: 1 for the rows of the class, otherwise 0.
        shares: Weights of the rows, which sum to 1.
        groups: The group of each row, or None.

    Returns:
        The line; None if one class is missing, or if the probabilities separate the classes.

    Example:
        >>> chances = np.repeat([0.2, 0.8], 50)  # and 20 % and 80 % belong to the class
        >>> seen = np.r_[np.ones(10), np.zeros(40), np.ones(40), np.zeros(10)]
        >>> line = calibration_line(chances, seen, np.full(100, 0.01))
        >>> round(line.slope, 6), abs(round(line.intercept, 6))
        (1.0, 0.0)
    """
    inside = np.clip(stated, LEAST_CHANCE, 1 - LEAST_CHANCE)
    odds = np.log(inside) - np.log1p(-inside)
    both = np.stack([np.ones_like(odds), odds], 1)
    of_slope = _fitted(both, np.zeros_like(odds), seen, shares, groups)
    of_level = _fitted(both[:, :1], odds, seen, shares, groups)
    if of_slope is None or of_level is None:
        return None
    return CalibrationLine(of_slope[0][1], of_slope[1][1], of_level[0][0], of_level[1][0])


def _fitted(
    columns: Floats, offset: Floats, seen: Floats, shares: Floats, groups: NDArray[Any] | None
) -> tuple[list[float], list[float]] | None:
    """Coefficients of a logistic regression and their standard errors; None without a minimum."""
    found = np.zeros(columns.shape[1])
    for _ in range(50):
        chances = expit(columns @ found + offset)
        spread = shares * chances * (1 - chances)
        hessian = columns.T @ (spread[:, None] * columns)
        if not np.linalg.cond(hessian) < 1e10:  # also for NaN
            return None
        step = np.linalg.solve(hessian, columns.T @ (shares * (seen - chances)))
        found = found + step
        if np.abs(step).max() < 1e-10:
            break
    else:
        return None
    pulls = (shares * (seen - chances))[:, None] * np.linalg.solve(hessian, columns.T).T
    sums = np.stack([_group_sums(one, groups) for one in pulls.T])
    return found.tolist(), np.sqrt(np.square(sums).sum(1)).tolist()


def _bins(stated: Floats) -> NDArray[np.intp]:
    """Bins of about equal size; equal probabilities are in the same one."""
    count = max(1, min(BINS, len(stated) // LEAST))
    limits = np.quantile(stated, np.arange(1, count) / count)
    _, bins = np.unique(np.searchsorted(limits, stated), return_inverse=True)
    return bins.reshape(-1)


def _group_sums(values: Floats, groups: NDArray[Any] | None) -> Floats:
    return values if groups is None else np.bincount(groups, values).astype(float)
