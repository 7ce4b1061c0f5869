"""Kernel ridge regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoupled_descent.evaluation.families.interface import Family, LeftOut, NoFormulaError
from decoupled_descent.evaluation.families.linear import by_formula
from decoupled_descent.evaluation.families.losses import Squared
from decoupled_descent.evaluation.families.minimum import ForeignMinimum, of_gram
from decoupled_descent.evaluation.task import Task


class KernelRidge(Family):
    """Kernel ridge regression: a ridge regression on as many columns as there are rows."""

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Predict every row by the solution without it, which is exact."""
        ridges = np.unique(model.alpha)
        if len(ridges) > 1:
            raise NoFormulaError("its targets have different ridges")
        X = model.X_fit_
        if len(X) != task.n:
            raise ValueError(f"X has {task.n} rows, and the model was fitted to {len(X)}")
        gram = np.asarray(model._get_kernel(task.X, X), np.float64)
        outputs = gram @ model.dual_coef_.reshape(task.n, -1)
        ridge, weights = float(ridges[0]), task.row_weights
        columns, penalty, slopes = of_gram(gram / ridge, outputs)
        gradients = weights[:, None] * Squared().gradients(outputs, task.labels)
        minimum = ForeignMinimum(columns, gradients, weights, penalty, slopes)
        return by_formula(minimum, Squared(), outputs, task)
