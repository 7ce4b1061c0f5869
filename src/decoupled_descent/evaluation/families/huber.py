"""Huber's regression, whose scale is estimated with the coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoupled_descent.evaluation.families.interface import Family, LeftOut
from decoupled_descent.evaluation.families.linear import by_formula
from decoupled_descent.evaluation.families.losses import ScaledHuber
from decoupled_descent.evaluation.families.minimum import ForeignMinimum
from decoupled_descent.evaluation.task import Task


class Huber(Family):
    """Huber's regression: the scale is a second output, the same number for all rows."""

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Predict every row by one Newton step of coefficients and scale without it."""
        task = task.with_rows(task.matrix)
        loss, d = ScaledHuber(model.epsilon), task.X.shape[1]
        outputs = np.stack([model.predict(task.X), np.full(task.n, model.scale_)], 1)
        weights = task.row_weights
        gradients = weights[:, None] * loss.gradients(outputs, task.labels)
        curvatures = weights[:, None, None] * loss.curvatures(outputs, task.labels)
        active = np.zeros((d + 1, 2), bool)
        active[:d, 0] = True
        active[d] = model.fit_intercept, True
        slopes = np.zeros((d + 1, 2))
        slopes[:d, 0] = 2 * model.alpha * model.coef_
        penalty = np.append(np.full(d, 2.0 * model.alpha), 0.0)
        columns = np.concatenate([task.X, np.ones((task.n, 1))], 1)
        minimum = ForeignMinimum(columns, gradients, curvatures, penalty, slopes, active)
        return by_formula(minimum, loss, outputs, task)
