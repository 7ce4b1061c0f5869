r"""The probability from which a row is given to class 1, and what this choice costs.

Of n rows with leave-one-out probabilities p_i, a threshold t costs

.. math:: C(t) = \frac1n \sum_i \bigl[r\, 1\{y_i = 1, p_i \le t\} + 1\{y_i = 0, p_i > t\}\bigr],

r being the cost of a missed row of class 1 in units of a false alarm. The threshold with the lowest
cost looks better on these rows than it is. So each fold is decided by the threshold that the other
folds choose, and all estimates are of these decisions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from decoupled_descent.checks import error_interval, real_number
from decoupled_descent.evaluation.decision_rule import DecisionRule
from decoupled_descent.evaluation.estimate import Estimate
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.means import mean_with_stderr
from decoupled_descent.tables.search.stacking import folds_of

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
    evaluation: Evaluation, ratio: float, seed: int = 0
) -> tuple[Threshold, Evaluation]:
    """Choose a threshold by probabilities of rows as if new, and estimate it by other folds.

    Args:
        evaluation: Probabilities of two classes; its rule has the class to find.
        ratio: The cost of a missed row of this class, in units of a false alarm.
        seed: Deals the rows to folds.

    Returns:
        The threshold with its estimates, and the evaluation with the decisions that it leads to.
    """
    if np.ndim(evaluation.predictions) != 2 or evaluation.predictions.shape[1] != 2:
        count = len(evaluation.classes) if evaluation.classes is not None else "other"
        raise ValueError(f"a threshold is for two classes; the model has {count}")
    if not real_number("cost_ratio", ratio) > 0:
        raise ValueError(f"cost_ratio={ratio!r} must be larger than 0")
    p, y = evaluation.positive_predictions[:, 1], evaluation.positive_labels
    weights, positive = evaluation.row_weights, evaluation.rule.positive
    groups = None if evaluation.groups is None else torch.from_numpy(evaluation.groups)
    folds = folds_of(len(y), groups, seed, torch.from_numpy(evaluation.labels)).numpy()
    found = np.zeros(len(y), bool)
    for fold in np.unique(folds):
        own = folds == fold
        found[own] = p[own] > best_threshold(p[~own], y[~own], weights[~own], ratio)
    value = best_threshold(p, y, weights, ratio)
    decided = np.where(found, positive, 1 - positive)
    result = evaluation.with_rule(DecisionRule(value, positive), decided)
    costs = np.where(y == 1, ratio * ~found, 1.0 * found)
    spent, stderr = mean_with_stderr(costs, evaluation.weights, evaluation.groups)
    stderr *= evaluation.widening
    units = len(evaluation.values)
    cost = Estimate(spent, stderr, error_interval(spent, stderr), "cost", units, result.verdict)
    names = ("sensitivity", "specificity", "ppv", "npv")
    return Threshold(value, cost, *(result.estimate(name) for name in names)), result
