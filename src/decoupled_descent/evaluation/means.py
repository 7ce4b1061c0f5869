r"""Means with standard errors: the one place where the sampling error of a mean is computed.

Rows may have weights and belong to groups. A *unit* is a row, or a group of rows: units are
independent of each other. The values v_u below have the weighted mean m of the losses as their
mean, and their standard deviation over √count is its standard error:

.. math:: v_u = m + \frac{\text{count}}{n} \sum_{i \in u} \frac{w_i}{\bar w} (\ell_i - m) .
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from decoupled_descent.checks import standard_error
from decoupled_descent.rows.averages import unit_values as tensor_values

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Mean(NamedTuple):
    """A mean and its standard error."""

    value: float
    stderr: float


def unit_values(losses: Any, weights: Any = None, groups: Any = None) -> Floats:
    """One value per unit, whose mean is the mean of the losses and whose sd/√count its stderr.

    Args:
        losses: Losses of the rows, shape (n,).
        weights: Weights of the rows, shape (n,); equal by default.
        groups: The number of the group of each row: 0, 1, 2, …, shape (n,); rows by default.

    Example:
        >>> unit_values(np.array([1.0, 3.0, 5.0]), groups=np.array([0, 0, 1])).round(2).tolist()
        [1.67, 4.33]
    """
    w, codes = (None if one is None else _tensor(one) for one in (weights, groups))
    return np.asarray(tensor_values(_tensor(losses).double(), w, codes))


def mean_with_stderr(
    losses: Any,
    weights: Any = None,
    groups: Any = None,
    *,
    least_variance: float = 0.0,
    pairs: float = 0.0,
) -> Mean:
    """The weighted mean of losses, and its standard error.

    Args:
        losses: Losses of the rows, shape (n,).
        weights: Weights of the rows; equal by default.
        groups: The number of the group of each row; by default rows are independent.
        least_variance: A lower bound of the variance of the value of a unit, such as one that
            counts large losses which have not occurred; see :func:`variance_with_one_more`.
        pairs: The variance that the mean has in addition, because units have something in common:
            each is in the training set of the models for the others.

    Example:
        >>> mean_with_stderr([1.0, 2.0, 3.0])
        Mean(value=2.0, stderr=0.577...)
    """
    with np.errstate(all="ignore"):  # an error that is not finite is reported as it is
        values = unit_values(losses, weights, groups)
        spread = max(deviation(values), math.sqrt(least_variance))
    common = pairs if math.isfinite(pairs) else 0.0
    stderr = math.hypot(spread / math.sqrt(len(values)), math.sqrt(max(0.0, common)))
    return Mean(float(values.mean()), stderr)


def variance_with_one_more(values: Floats, loss: float | None = None) -> float:
    """The variance of a new loss, where a large loss counts once more: by default the largest.

    A new loss is larger than all n that were observed with probability 1/(n + 1).
    """
    return deviation(np.append(values, values.max() if loss is None else loss)) ** 2


def effective_count(weights: Any = None, groups: Any = None, n: int | None = None) -> float:
    """The number of units of equal weight that know a mean as well (Kish).

    Example:
        >>> round(effective_count(np.array([1000.0] + [1.0] * 199)), 1)
        1.4
    """
    if weights is None:
        w = np.ones(len(groups) if n is None else n)
    else:
        w = np.asarray(weights, np.float64)
    totals = w if groups is None else np.bincount(np.asarray(groups), w)
    largest = float(totals.max())
    return float((totals / largest).sum() ** 2 / np.square(totals / largest).sum())


def share_with_stderr(
    right: Any, weights: Any = None, groups: Any = None, expected: Any = None
) -> Mean:
    r"""A share of rows and its standard error, which is above 0 even if all rows agree.

    The variance of the share p is that of m = p(1 − p)/variance independent rows. Two right and two
    wrong rows are added to them (Agresti and Coull). If all rows agree, or are one group, m is
    Kish's number of units.

    Args:
        right: Whether each row counts for the share, shape (n,).
        weights: Weights of the rows.
        groups: The group of each row.
        expected: A better guess of how often each row is right, shape (n,). Its mean replaces the
            share; the standard error follows from what was counted.

    Example:
        >>> share_with_stderr(np.ones(80))
        Mean(value=1.0, stderr=0.016...)
    """
    right = np.asarray(right, np.float64)
    shares = np.full(len(right), 1 / len(right)) if weights is None else weights / weights.sum()
    share = min(1.0, float(np.average(right, weights=weights)))
    parts = shares * (right - share)
    sums = parts if groups is None else np.bincount(groups, parts)
    rows = effective_count(shares, groups)
    if right.min() < right.max() and (groups is None or np.ptp(groups) > 0):
        spread, rows = float(sums @ sums), effective_count(shares)
        rows = min(share * (1 - share) / spread, rows) if spread > 0 else rows
    if expected is not None:
        share = min(1.0, max(0.0, float(shares @ np.asarray(expected, np.float64))))
    towards = (rows * share + 2) / (rows + 4)
    return Mean(share, math.sqrt(max(0.0, towards * (1 - towards)) / (rows + 4)))


def jackknife(without: Floats) -> float:
    r"""The jackknife standard error from the value without each unit.

    .. math:: s^2 = \frac{G - 1}{G} \sum_g (\theta_{-g} - \bar\theta)^2
    """
    units = len(without)
    spread = float(np.square(without - without.mean()).sum())
    return math.sqrt((units - 1) / units * spread) if units > 1 else math.nan


def of_means(
    rows: Floats, value: Callable[[Floats], Floats], weights: Floats, units: Codes
) -> tuple[Floats, Floats]:
    """A function of means over rows, shape (n, q), and the same without each unit."""
    count = int(units.max()) + 1
    sums, total = np.zeros((count, rows.shape[1])), np.zeros(count)
    np.add.at(sums, units, rows * weights[:, None])
    np.add.at(total, units, weights)
    rest = (sums.sum(0) - sums) / (total.sum() - total)[:, None]
    return value(sums.sum(0) / total.sum()), value(rest)


def deviation(values: Floats) -> float:
    """The standard deviation; not a number for a single value."""
    if len(values) < 2 or not np.isfinite(values).all():
        return math.nan
    return math.sqrt(len(values)) * float(standard_error(values))


def _tensor(values: Any) -> torch.Tensor:
    if isinstance(values, torch.Tensor):
        return values.detach().cpu()
    return torch.from_numpy(np.ascontiguousarray(values))
