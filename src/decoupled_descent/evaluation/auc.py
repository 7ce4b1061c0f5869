r"""The area under the ROC curve, and the same without any one row or group.

With S the weight of pairs that are in the right order (ties count half), a unit u takes away its
pairs with all others: :math:`S_{-u} = S - \sum_{i \in u} S_i + S_{uu}`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Area(NamedTuple):
    """An area under the curve, that without each unit, and a bound of the standard error."""

    value: float
    without: Floats
    smallest_stderr: float


def area_under_curve(
    labels: Any, scores: Floats, weights: Floats, units: Codes, folds: Codes | None
) -> Area:
    """The area under the ROC curve, of all pairs of rows or of those within folds.

    Args:
        labels: 1 for the class that should have high scores, shape (n,).
        scores: Scores of the rows, shape (n,).
        weights: Weights of the rows, shape (n,).
        units: The number of the row or group that each row belongs to: 0, 1, 2, …, shape (n,).
        folds: Only rows of the same fold are compared; None compares all.
    """
    positive = np.asarray(labels) == 1
    if positive.all() or not positive.any():
        raise ValueError("metric='auc' needs rows of both classes")
    codes = np.zeros(len(scores), np.int64)
    if folds is not None and _has_pairs(positive, folds, units):
        codes = np.unique(folds, return_inverse=True)[1]
    pairs, count = np.zeros(len(scores)), int(units.max()) + 1
    for fold in range(int(codes.max()) + 1):
        high, low = positive & (codes == fold), ~positive & (codes == fold)
        above = _below(scores[high], scores[low], weights[low])
        below = weights[high].sum() - _below(scores[low], scores[high], weights[high])
        pairs[high], pairs[low] = above * weights[high], below * weights[low]
    ones, zeros = (_by_unit(weights * kind, units, codes) for kind in (positive, ~positive))
    lost = np.bincount(units, pairs, count)
    for unit, fold in np.argwhere((ones > 0) & (zeros > 0)):  # pairs within it were taken twice
        at = (units == unit) & (codes == fold)
        high, low = positive & at, ~positive & at
        lost[unit] -= _below(scores[high], scores[low], weights[low]) @ weights[high]
    all_pairs = ones.sum(0) * zeros.sum(0)
    rest = ((ones.sum(0) - ones) * (zeros.sum(0) - zeros)).sum(1)
    if (rest <= 0).any():
        raise ValueError("metric='auc' needs both classes without any one row or group")
    total = pairs[positive].sum()
    sizes = [int((kind > 0).any(1).sum()) for kind in (ones, zeros)]
    return Area(float(total / all_pairs.sum()), (total - lost) / rest, _smallest_stderr(*sizes))


def _smallest_stderr(m: int, n: int) -> float:
    """The standard error by Hanley and McNeil if half a row of the rarer class were out of order.

    If all m n pairs are in the right order, the jackknife gives 0.
    """
    area = 1 - 0.5 / (min(m, n) + 1)
    ones, zeros = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (m - 1) * (ones - area**2) + (n - 1) * (zeros - area**2)
    return math.sqrt(spread / (m * n))


def _has_pairs(positive: NDArray[np.bool_], folds: Codes, units: Codes) -> bool:
    """Whether folds have pairs of both classes, also without any one unit."""
    codes = np.unique(folds, return_inverse=True)[1]
    ones, zeros = (
        _by_unit(kind.astype(np.float64), units, codes) for kind in (positive, ~positive)
    )
    rest = ((ones.sum(0) - ones) * (zeros.sum(0) - zeros)).sum(1)
    return bool((rest > 0).all())


def _by_unit(values: Floats, units: Codes, folds: Codes) -> Floats:
    """Sums over the rows of each unit in each fold, shape (units, folds)."""
    sums = np.zeros((int(units.max()) + 1, int(folds.max()) + 1))
    np.add.at(sums, (units, folds), values)
    return sums


def _below(values: Floats, others: Floats, weights: Floats) -> Floats:
    """For each value, the weight of others below it, equal ones by half."""
    order = np.argsort(others, kind="stable")
    reached = np.concatenate([[0.0], weights[order].cumsum()])
    left = np.searchsorted(others[order], values, "left")
    right = np.searchsorted(others[order], values, "right")
    return np.asarray((reached[left] + reached[right]) / 2)
