"""Gaussian process regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoupled_descent.evaluation.families.interface import Family, LeftOut, not_known
from decoupled_descent.evaluation.task import Task


class GaussianProcess(Family):
    r"""Gaussian process regression with its kernel as it was fitted.

    .. math:: o_G^{(-G)} = y_G - (Q_{GG})^{-1} (Q y)_G, \qquad Q = (K + α I)^{-1}
    """

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Predict every row without it."""
        X = model.X_train_
        if len(X) != task.n:
            raise ValueError(f"X has {task.n} rows, and the model was fitted to {len(X)}")
        covariance = model.kernel_(task.X)
        covariance[np.diag_indices_from(covariance)] += model.alpha
        inverse = np.linalg.inv(covariance)
        y = np.asarray(task.labels, np.float64)
        target = (y - model._y_train_mean) / model._y_train_std
        solved, left = inverse @ target, np.empty_like(target)
        for own in task.units:
            left[own] = target[own] - np.linalg.solve(inverse[np.ix_(own, own)], solved[own])
        predictions = left * model._y_train_std + model._y_train_mean
        return LeftOut(predictions, "formula", model.predict(task.X), pairs=not_known)
