r"""The median of the errors of rows, with an interval from order statistics.

Of m independent rows, the number with an error below the true median is binomial with probability
½. So the k-th smallest and the k-th largest error enclose it with probability at least 95 % if
:math:`P(B \le k - 1) \le 0.025`. Unequal weights, and rows of a group that are alike, count as
fewer rows: m is then :math:`\tfrac14 / s^2`, s being the standard error of the share of rows below
the median (Woodruff's interval).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Median(NamedTuple):
    """A median and its 95 % interval."""

    value: float
    interval: tuple[float, float]


def median(values: Floats, weights: Floats, units: NDArray[np.int64]) -> Median:
    """The weighted median, and its 95 % interval from order statistics.

    Args:
        values: Errors of the rows, not negative, shape (n,).
        weights: Weights of the rows, shape (n,).
        units: The number of the row or group that each row belongs to: 0, 1, 2, …, shape (n,).

    Returns:
        The median and its interval. With fewer than six rows or groups, the interval is 0 to ∞.

    Example:
        >>> rows = np.arange(20)
        >>> median(rows + 1.0, np.ones(20), rows)
        Median(value=10.5, interval=(6.0, 15.0))
    """
    order = np.argsort(values, kind="stable")
    kept = order[weights[order] > 0]
    sizes, w = values[kept], weights[kept] / weights[kept].sum()
    value = _quantile(sizes, w, 0.5)
    rows = _independent_rows(sizes <= value, w, units[kept])
    k = _binomial_rank(rows)
    if k == 0:
        return Median(value, (0.0, math.inf))
    share = k / rows - 1e-12
    low = sizes[int(np.searchsorted(w.cumsum(), share))]
    high = sizes[len(sizes) - 1 - int(np.searchsorted(w[::-1].cumsum(), share))]
    return Median(value, (float(low), float(high)))


def _quantile(sizes: Floats, shares: Floats, level: float) -> float:
    """The value that a share ``level`` is below; in the middle if all values between are."""
    reached = shares.cumsum()
    ends = np.searchsorted(reached, [level - 1e-12, level + 1e-12]).clip(max=len(sizes) - 1)
    return float(sizes[ends].mean())


def _independent_rows(below: NDArray[np.bool_], shares: Floats, units: NDArray[np.int64]) -> int:
    """How many independent rows of equal weight know the share below the median as well."""
    codes = np.unique(units, return_inverse=True)[1]
    count = int(codes.max()) + 1
    if count == len(units) and np.ptp(shares) <= 1e-12 * shares.max():
        return len(units)
    parts = np.bincount(codes, shares * (below - below @ shares))
    variance = float(parts @ parts) * count / max(1, count - 1)
    kish = 1 / float(np.square(np.bincount(codes, shares)).sum())
    rows = 0.25 / variance if variance > 0 else kish
    return max(1, math.floor(min(rows, len(units)) + 1e-9))


def _binomial_rank(rows: int) -> int:
    """The largest k with P(B ≤ k − 1) ≤ 0.025, B being binomial with probability ½; 0 if none."""
    from scipy.stats import binom

    k = int(binom.ppf(0.025, rows, 0.5))
    return k + 1 if binom.cdf(k, rows, 0.5) <= 0.025 else k
