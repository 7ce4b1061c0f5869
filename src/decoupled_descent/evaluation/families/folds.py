r"""Folds, for all models that have no formula: they are fitted without each of ten folds.

Rows train the models for each other, so that left-out losses of different rows are correlated. To
first order, the loss of row i moves by :math:`b_{ij}` if row j is left out, too, and the mean loss
has the additional variance :math:`\frac1{n^2} \sum_{i \ne j} b_{ij} b_{ji}`. Where the model
minimises the loss by which it is evaluated, :math:`b` is symmetric, and the sum is
:math:`\sum_i \sum_j b_{ij}^2`: the variance of the loss of each row over training sets. Otherwise
that is an upper bound. The rows are divided into random halves, twice, and each half is predicted
by a model of the other. With half of the rows, effects are twice as large, and a random half leaves
out half of them at random: the variance over halves is that over training sets of all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from decoupled_descent.evaluation.families.interface import LeftOut
from decoupled_descent.evaluation.folds import assign_folds
from decoupled_descent.evaluation.foreign import Foreign
from decoupled_descent.evaluation.means import unit_values

#: As many folds, if there are as many rows or groups.
FOLDS = 10
#: The first seed of the halves, and how often rows are divided into halves.
SEED, TWICE = 1, 2


def by_folds(foreign: Foreign, reason: str = "", seed: int = 0, count: int = FOLDS) -> LeftOut:
    """Predict the rows of each fold by a model of the others, in parallel by joblib."""
    predictions = _predicted(foreign, parts := _folds(foreign, seed, count))
    fitted = foreign.predict(foreign.model, np.arange(foreign.task.n))
    models = np.empty(foreign.task.n, np.int64)
    for number, out in enumerate(parts):
        models[out] = number
    return LeftOut(predictions, "folds", fitted, models=models, refits=len(parts), reason=reason)


def pairs_by_halves(foreign: Foreign) -> float:
    """The variance of the error because rows train the models for each other.

    0 if the model cannot be fitted to half of the rows.
    """
    task, values = foreign.task, []
    try:
        for seed in range(SEED, SEED + TWICE):
            said = _predicted(foreign, _folds(foreign, seed, 2))
            values.append(
                unit_values(task.kind.losses(task.labels, said), task.weights, task.groups)
            )
    except ValueError:
        return 0.0
    moved = values[0] - values[1]
    return float(moved.var()) / TWICE / len(moved)


def _predicted(foreign: Foreign, parts: list[Any]) -> Any:
    """Predictions of the rows of each part by a model of the others."""
    from joblib import Parallel, delayed

    said = Parallel()(delayed(_fold)(foreign, out) for out in parts)
    predictions = np.empty((foreign.task.n, *said[0].shape[1:]), said[0].dtype)
    for out, own in zip(parts, said, strict=True):
        predictions[out] = own
    return predictions


def _fold(foreign: Foreign, out: Any) -> Any:
    return foreign.predict(foreign.without(out), out)


def _folds(foreign: Foreign, seed: int, most: int) -> list[Any]:
    """Rows of each fold: each class in all folds, whole groups in one."""
    task = foreign.task
    classes = None if task.classes is None else task.labels
    if classes is not None and task.groups is None and (rarest := np.bincount(classes).min()) < 2:
        raise ValueError(
            f"y has a class with {rarest} row: without it, no model knows the class; drop it, or "
            "merge it with another"
        )
    count = min(most, len(task.units))
    fold = assign_folds(task.n, count, classes=classes, groups=task.groups, seed=seed).fold.numpy()
    return [np.flatnonzero(fold == k) for k in range(count)]
