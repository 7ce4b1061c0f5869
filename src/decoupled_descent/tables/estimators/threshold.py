r"""The probability from which a row is given to class 1, and what this choice costs.

Of n rows with leave-one-out probabilities p_i, a threshold t costs

.. math:: C(t) = \frac1n \sum_i \bigl[r\, 1\{y_i = 1, p_i \le t\} + 1\{y_i = 0, p_i > t\}\bigr],

r being the cost of a missed row of class 1 in units of a false alarm. The threshold with the lowest
cost looks better on these rows than it is. So each fold is decided by the threshold that the other
folds choose, and all estimates are of these decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.evaluation.estimate import Estimate
from decoupled_descent.evaluation.output_scale import OutputScale
from decoupled_descent.tables.estimators.metrics import estimate_metric

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Threshold:
    """A threshold, and estimates for new rows that allow for its choice.

    Attributes:
        value: A row is given to class 1 if its probability is larger.
        cost: The expected cost per row, in units of a false alarm.
        sensitivity: The share of the rows of class 1 that are given to it.
        specificity: The share of the other rows that are not.
        ppv: The share of rows given to class 1 that belong to it.
        npv: The share of the other rows that do not.
    """

    value: float
    cost: Estimate
    sensitivity: Estimate
    specificity: Estimate
    ppv: Estimate
    npv: Estimate


def best_threshold(p: Floats, y: NDArray[np.int64], weights: Floats, ratio: float) -> float:
    """The threshold with the lowest cost; in the middle between two probabilities.

    Example:
        >>> best_threshold(np.array([0.1, 0.3, 0.6]), np.array([0, 1, 1]), np.ones(3), 1.0)
        0.2
    """
    order = np.argsort(p, kind="stable")
    p, cost = p[order], weights[order] * np.where(y[order] == 1, ratio, -1.0)
    total = np.concatenate([[0.0], cost.cumsum()])  # of thresholds above the first 0, 1, … rows
    between = np.concatenate([[p[0] / 2], (p[1:] + p[:-1]) / 2, [(1 + p[-1]) / 2]])
    possible = np.concatenate([[True], p[1:] > p[:-1], [True]])
    limit = total[possible].min() + 1e-12 * np.abs(cost).sum()
    lowest = np.flatnonzero(possible & (total <= limit))
    return float(between[lowest[len(lowest) // 2]])


def choose_threshold(
    p: Floats,
    y: NDArray[np.int64],
    folds: NDArray[np.int64],
    ratio: float,
    widening: float = 1.0,
    *,
    sample_weight: Any = None,
    groups: Any = None,
) -> Threshold:
    """Choose a threshold by leave-one-out probabilities, and estimate it by other folds.

    Args:
        p: Leave-one-out probabilities of class 1, shape (n,).
        y: 0 or 1, shape (n,).
        folds: A number for each row; rows of a group are in the same fold.
        ratio: The cost of a missed row of class 1, in units of a false alarm.
        widening: A factor on standard errors, because rows train the models of others.
        sample_weight: Weights of the rows.
        groups: Groups of the rows, for standard errors.
    """
    weights = np.ones(len(p)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    moved = np.empty(len(p))
    for fold in np.unique(folds):
        own = folds == fold
        limit = best_threshold(p[~own], y[~own], weights[~own], ratio)
        moved[own] = shifted(p[own], limit)
    costs = np.where(y == 1, ratio * (moved <= 0.5), 1.0 * (moved > 0.5))
    zeros, values = np.zeros(len(p)), OutputScale.VALUES
    estimates = [estimate_metric("mae", zeros, costs, values, sample_weight, groups)]
    estimates += [
        estimate_metric(name, y, moved, OutputScale.PROBABILITIES, sample_weight, groups)
        for name in ("sensitivity", "specificity", "ppv", "npv")
    ]
    widened = (replace(one, stderr=widening * one.stderr) for one in estimates)
    return Threshold(best_threshold(p, y, weights, ratio), *widened)


def shifted(p: Floats, threshold: float) -> Floats:
    """Probabilities whose odds are divided by those of a threshold, which becomes 0.5.

    Example:
        >>> shifted(np.array([0.1, 0.2, 0.5]), 0.2).round(3).tolist()
        [0.308, 0.5, 0.8]
    """
    limit = min(max(threshold, 1e-12), 1 - 1e-12)
    own = p * (1 - limit)
    return np.asarray(own / np.maximum(own + limit * (1 - p), 1e-300))
