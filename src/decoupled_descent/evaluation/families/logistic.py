"""Logistic regression with two or more classes, under any penalty."""

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
from decoupled_descent.evaluation.families.losses import Logistic, Softmax
from decoupled_descent.evaluation.task import Task


class LogisticRegression(Linear):
    """Logistic regression; several classes jointly."""

    def problem(self, model: Any, task: Task) -> Penalised:
        """The log loss, ρ/C ‖β‖₁ and ½ (1 − ρ)/C ‖β‖²."""
        if not getattr(model, "refit", True):
            raise NoFormulaError("refit=False averages the models of folds")
        coefficients = columns_of(model.coef_)
        ridge, kink = _penalty(model)
        binary = coefficients.shape[1] == 1
        lib = model.solver == "liblinear" and model.fit_intercept  # it penalises its intercept
        return Penalised(
            Logistic() if binary else Softmax(), coefficients, np.atleast_1d(model.intercept_),
            ridge, kink, as_weights(model, task), model.fit_intercept,
            float(model.intercept_scaling) if lib else 0.0,
        )  # fmt: skip


def _penalty(model: Any) -> tuple[float, float]:
    """The ridge and the kink."""
    strength = np.unique(getattr(model, "C_", getattr(model, "C", 1.0)))
    if len(strength) > 1:
        raise NoFormulaError("its classes have different penalties")
    if model.penalty is None or not np.isfinite(strength[0]):
        return 0.0, 0.0
    named = {"l1": 1.0, "l2": 0.0}.get(model.penalty)
    share = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", None))
    each = np.asarray(share, object).reshape(-1)  # None for a ridge, as scikit-learn stores it
    share = np.unique([0.0 if one is None else float(one) for one in each])
    if len(share) > 1:
        raise NoFormulaError("its classes have different penalties")
    part = float(share[0]) if named is None else named
    scale = 1 / float(strength[0])
    return (1 - part) * scale, part * scale
