"""The lasso and the elastic net: left out with the columns that they chose."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoupled_descent.evaluation.families.linear import Linear, Penalised, columns_of
from decoupled_descent.evaluation.families.losses import Squared
from decoupled_descent.evaluation.task import Task


class Lasso(Linear):
    """The lasso and the elastic net, also with a penalty that a search has chosen."""

    def problem(self, model: Any, task: Task) -> Penalised:
        """Half of the mean squared error, α ρ ‖β‖₁ and ½ α (1 − ρ) ‖β‖², times the weights."""
        total = float(task.row_weights.sum())
        alpha = total * float(getattr(model, "alpha_", getattr(model, "alpha", 0.0)))
        share = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", 1.0))
        return Penalised(
            Squared(), columns_of(model.coef_), np.atleast_1d(model.intercept_),
            alpha * (1 - share), alpha * share, task.row_weights, model.fit_intercept,
            is_positive=getattr(model, "positive", False),
        )  # fmt: skip
