"""Nearest neighbours: without a row, its neighbours are the next ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoupled_descent.evaluation.families.interface import Family, LeftOut, NoFormulaError
from decoupled_descent.evaluation.kinds import PROBABILITIES
from decoupled_descent.evaluation.task import Task


class Neighbours(Family):
    """Classifiers and regressors of the k nearest neighbours, exactly."""

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Predict every row by its neighbours among the rows outside of its group."""
        if model.n_samples_fit_ != task.n:
            raise ValueError(
                f"X has {task.n} rows, and the model was fitted to {model.n_samples_fit_}"
            )
        known = getattr(model, "_fit_X", None)
        if isinstance(known, np.ndarray) and not np.allclose(known, task.matrix):
            raise ValueError("X is not the table that the model was fitted to: pass the same rows")
        if callable(model.weights):
            raise NoFormulaError("weights is a function")
        k, largest = model.n_neighbors, max(len(own) for own in task.units)
        if k + largest > task.n:
            raise NoFormulaError("without a group there are fewer rows than neighbours")
        distances, places = model.kneighbors(task.X, k + largest)
        units = np.arange(task.n) if task.groups is None else task.groups
        others = units[places] != units[:, None]
        order = np.argsort(~others, axis=1, kind="stable")[:, :k]
        places = np.take_along_axis(places, order, 1)
        shares = _shares(model, np.take_along_axis(distances, order, 1))
        labels = model._y[places]
        if task.classes is None:
            shares = shares.reshape(*shares.shape, *(1,) * (labels.ndim - 2))
            said = (shares * labels).sum(1) / shares.sum(1)
        else:
            said = ((labels[:, :, None] == np.arange(len(task.classes))) * shares[:, :, None]).sum(
                1
            )
            said = said / said.sum(1, keepdims=True)
            said = said if task.kind == PROBABILITIES else said.argmax(1)
        return LeftOut(said, "nearest neighbours without the row", is_exact=True)


def _shares(model: Any, distances: Any) -> Any:
    """How much each neighbour counts: the same, or the inverse of its distance."""
    if model.weights in (None, "uniform"):
        return np.ones_like(distances)
    zero = distances == 0
    with np.errstate(divide="ignore"):
        return np.where(zero.any(1, keepdims=True), zero, 1 / distances)
