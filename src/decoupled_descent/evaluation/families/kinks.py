r"""Models whose loss has a kink: support vectors on the margin, and quantiles.

Rows at the kink have a derivative between those of its two sides. It follows from the others,
because the model is at its minimum. Their second derivative is that of the smoothed kink,

.. math:: W = \text{jump} / (2δ) ,

of rows at the kink alone with a small δ, or of all rows within the bandwidth of a density.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.evaluation.families.interface import (
    Family,
    LeftOut,
    NoFormulaError,
    not_known,
)
from decoupled_descent.evaluation.families.linear import columns_of
from decoupled_descent.evaluation.families.losses import decided, doubt
from decoupled_descent.evaluation.families.minimum import ForeignMinimum
from decoupled_descent.evaluation.task import Task

Floats = NDArray[np.float64]

#: Rows this near to a kink, in units of the outputs, are at it.
AT_KINK = 1e-3
WIDTH = 0.5


def at_kinks(
    columns: Floats, penalty: Floats, slopes: Floats, gradients: Floats, rows: Any, curvatures: Any
) -> ForeignMinimum:
    """The minimum with the derivatives of the rows at kinks, which balance all others.

    Args:
        columns: The design, shape (n, q).
        penalty: Second derivatives of the penalty, shape (q,).
        slopes: Its first derivatives, shape (q,).
        gradients: Derivatives of the rows' losses, shape (n,); those at kinks do not count.
        rows: Which rows are at kinks, shape (n,).
        curvatures: Those of the smoothed kinks, shape (n,).
    """
    gradients = np.where(rows, 0.0, gradients)
    missing = -(columns.T @ gradients + slopes)
    if rows.any():
        gradients[rows] = np.linalg.lstsq(columns[rows].T, missing, rcond=None)[0]
    return ForeignMinimum(columns, gradients[:, None], curvatures, penalty, slopes[:, None])


def smoothed(errors: Floats, jumps: Floats, *kinks: float) -> Floats:
    """Second derivatives of smoothed kinks, shape (n,).

    Args:
        errors: A number for each row, shape (n,).
        jumps: By how much the derivative of each row's loss jumps, shape (n,).
        kinks: Where, in the units of the errors.
    """
    width = WIDTH * max(1e-300, float(np.std(errors))) * len(errors) ** -0.2
    near = sum((np.abs(errors - kink) < width).astype(np.float64) for kink in kinks)
    return np.asarray(jumps * near / (2 * width))


class LinearSupport(Family):
    """LinearSVC and LinearSVR: ½ ‖β‖², the intercept included, and C times the losses."""

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Predict every row by one Newton step, for each class against the rest in turn."""
        task = task.with_rows(task.matrix)
        size = model.intercept_scaling if model.fit_intercept else 0.0
        coefficients = columns_of(model.coef_)
        columns = np.concatenate([task.X, np.full((task.n, int(size > 0)), size)], 1)
        if task.classes is not None and columns.shape[1] >= task.n:
            raise NoFormulaError("it has as many coefficients as rows, and most are at the kink")
        own = np.broadcast_to(model.intercept_, coefficients.shape[1]) / (size or 1.0)
        beta = np.concatenate([coefficients, own[None]]) if size else coefficients
        outputs = columns @ beta
        left, kept = outputs.copy(), outputs.copy()
        for k in range(outputs.shape[1]):
            minimum = self._minimum(model, task, columns, beta[:, k], outputs[:, k], k)
            left[:, [k]] += minimum.moves(task)
            if task.classes is not None:
                kept[:, [k]] = left[:, [k]] + minimum.shifts(task)
        if task.classes is None:
            return LeftOut(left[:, 0], "formula", outputs[:, 0], pairs=not_known)
        unsure = doubt(outputs, left)
        said, again = decided(left), decided(kept)
        return LeftOut(said, "formula", decided(outputs), again, not_known, doubt=unsure)

    def _minimum(
        self, model: Any, task: Task, columns: Floats, beta: Floats, outputs: Floats, k: int
    ) -> ForeignMinimum:
        """The minimum of one class against the rest, or of a regression."""
        ridge = float(getattr(model, "penalty", "l2") == "l2")
        moving = np.ones(len(beta), bool) if ridge else beta != 0
        slopes = beta if ridge else np.sign(beta)
        columns, slopes = columns[:, moving], slopes[moving]
        penalty = np.full(int(moving.sum()), ridge)
        violated, first, second, kinked = self._derivatives(model, task, outputs, k)
        if kinked is not None:
            at, near = kinked
            return at_kinks(columns, penalty, slopes, violated * first, at, near)
        scaled = int(moving[: len(model.coef_[0])].sum()) if task.is_standardised else 0
        return ForeignMinimum(
            columns, (violated * first)[:, None], violated * second, penalty, slopes[:, None],
            scaled=scaled, kinks=(0.0 if ridge else slopes[:scaled, None]) * np.ones((scaled, 1)),
        )  # fmt: skip

    @staticmethod
    def _derivatives(model: Any, task: Task, outputs: Floats, k: int) -> tuple[Any, ...]:
        """Which rows count, their derivatives, and which are at the kink (None: no kink)."""
        cost = model.C * task.row_weights
        if task.classes is None:
            errors = outputs - task.labels
            beyond, sign = np.abs(errors) - model.epsilon, np.sign(errors)
            kinks: tuple[Any, ...] = errors, cost, -model.epsilon, model.epsilon
        else:
            from decoupled_descent.evaluation.families.linear import as_weights

            cost = model.C * as_weights(model, task)
            place = 1 if len(task.classes) == 2 else k
            label = np.where(task.labels == place, 1.0, -1.0)
            beyond, sign = 1 - label * outputs, -label
            kinks = beyond, cost, 0.0
        violated = beyond > 0
        if model.loss.startswith("squared"):
            return violated, 2 * cost * sign * beyond, 2 * cost, None
        at = np.abs(beyond) < AT_KINK * max(1.0, outputs.std())
        return violated, cost * sign, None, (at, smoothed(*kinks))


class Quantile(Family):
    """Quantile regression, with a density of the residuals in place of the kink."""

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Predict every row by one Newton step without it."""
        task = task.with_rows(task.matrix)
        weights, tau = task.row_weights, model.quantile
        outputs, moving = model.predict(task.X), np.abs(model.coef_) > 1e-10
        free = np.ones((task.n, int(model.fit_intercept)))
        columns = np.concatenate([task.X[:, moving], free], 1)
        kink = model.alpha * weights.sum()
        slopes = np.concatenate([kink * np.sign(model.coef_[moving]), np.zeros(free.shape[1])])
        errors = task.labels - outputs
        gradients = weights * np.where(errors > 0, -tau, 1 - tau)
        at = np.abs(errors) < 1e-6 * max(1e-300, np.abs(task.labels).max())
        near = smoothed(errors, weights, 0.0)
        exact = at_kinks(columns, np.zeros(len(slopes)), slopes, gradients, at, near)
        if columns.shape[1] >= near.astype(bool).sum():
            raise NoFormulaError("too few rows are near to the quantile")
        minimum = replace(exact, slopes=None)
        left = outputs + minimum.moves(task)[:, 0]
        return LeftOut(left, "formula", outputs, pairs=not_known)
