"""Generalised linear models: Poisson, Gamma and Tweedie regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from decoupled_descent.evaluation.families.linear import Linear, Penalised, columns_of
from decoupled_descent.evaluation.families.losses import HalfTweedie
from decoupled_descent.evaluation.task import Task


@dataclass(frozen=True)
class GeneralisedLinear(Linear):
    """Regression with the deviance of a Tweedie law; without a power, that of the model."""

    power: float | None = None

    def problem(self, model: Any, task: Task) -> Penalised:
        """Half of the mean deviance and ½ α ‖β‖², times the weights."""
        power = model.power if self.power is None else self.power
        link = getattr(model, "link", "auto")
        has_log = power > 0 if link == "auto" else link == "log"
        alpha = float(task.row_weights.sum()) * model.alpha
        return Penalised(
            HalfTweedie(float(power), has_log), columns_of(model.coef_),
            np.atleast_1d(model.intercept_), alpha, 0.0, task.row_weights, model.fit_intercept,
        )  # fmt: skip
