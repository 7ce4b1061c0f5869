"""Least squares, with a ridge or without."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoupled_descent.evaluation.families.interface import NoFormulaError
from decoupled_descent.evaluation.families.linear import (
    Linear,
    Penalised,
    as_weights,
    columns_of,
)
from decoupled_descent.evaluation.families.losses import Squared, SquaredScores
from decoupled_descent.evaluation.task import Task


class LeastSquares(Linear):
    """Ordinary least squares and ridge regression; the ridge of a search counts as given."""

    def problem(self, model: Any, task: Task) -> Penalised:
        """Half of the squared error, and half of the ridge times ‖β‖²."""
        coefficients = columns_of(model.coef_)
        return Penalised(
            Squared() if task.classes is None else SquaredScores(), coefficients,
            np.broadcast_to(model.intercept_, coefficients.shape[1]), _ridge(model), 0.0,
            as_weights(model, task), model.fit_intercept,
            is_positive=getattr(model, "positive", False),
        )  # fmt: skip


class BayesianRidge(Linear):
    """Ridge regression with a ridge that the model has estimated."""

    def problem(self, model: Any, task: Task) -> Penalised:
        """The ridge is the ratio of the two precisions."""
        return Penalised(
            Squared(), columns_of(model.coef_), np.atleast_1d(model.intercept_),
            float(model.lambda_ / model.alpha_), 0.0, task.row_weights, model.fit_intercept,
        )  # fmt: skip


def _ridge(model: Any) -> float:
    given = getattr(model, "alpha_", getattr(model, "alpha", 0.0))  # RidgeCV, Ridge, OLS
    ridges = np.unique(given)
    if len(ridges) > 1:
        raise NoFormulaError("its targets have different ridges")
    return float(ridges[0])
