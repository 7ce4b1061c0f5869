"""Generalised linear models: Poisson, Gamma and Tweedie regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoupled_descent.evaluation.families.linear import Linear, Penalised, columns_of
from decoupled_descent.evaluation.families.losses import HalfTweedie
from decoupled_descent.evaluation.task import Task

#: The powers of the models that are named for their law.
POWERS = {"PoissonRegressor": 1.0, "GammaRegressor": 2.0}


class GeneralisedLinear(Linear):
    """Regression with the deviance of a Tweedie law."""

    def problem(self, model: Any, task: Task) -> Penalised:
        """Half of the mean deviance and ½ α ‖β‖², times the weights."""
        power = POWERS.get(type(model).__name__, getattr(model, "power", 0.0))
        link = getattr(model, "link", "auto")
        has_log = power > 0 if link == "auto" else link == "log"
        alpha = float(task.row_weights.sum()) * model.alpha
        return Penalised(
            HalfTweedie(float(power), has_log), columns_of(model.coef_),
            np.atleast_1d(model.intercept_), alpha, 0.0, task.row_weights, model.fit_intercept,
        )  # fmt: skip
