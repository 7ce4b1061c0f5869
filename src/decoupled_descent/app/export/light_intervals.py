"""The intervals of :mod:`decoupled_descent.tables.estimators.jackknife` with NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.app.export.predictor import CLIP, Predictor, leaves, starting_with

Floats = NDArray[np.float64]

#: New rows are processed in blocks, so that about this many numbers are in memory.
NUMBERS = 2**21


class LightJackknife:
    """The training rows that intervals of one number need, from the arrays of a model file."""

    def __init__(self, predictor: Predictor, constant: float) -> None:
        self.predictor, self.constant = predictor, float(constant)
        arrays = starting_with("jackknife.", predictor.arrays)
        self.residuals: Floats = arrays["residuals"][:, 0]
        self.weights: Floats = arrays["weights"]
        self.groups: NDArray[np.int64] = arrays["groups"]
        self.arrays = arrays

    def intervals(self, X: Any, centre: Floats, level: float) -> Floats:
        """Lower and upper ends around predictions (m, 1), on the scale of the fit, (m, 2)."""
        if "moves.0" not in self.arrays:
            width = quantiles(self.residuals[None], self.weights, level)
            return np.hstack([centre - width, centre + width])
        size, ends = max(1, NUMBERS // len(self.residuals)), []
        for start in range(0, len(X), size):
            rows = slice(start, start + size)
            models = centre[rows] + self.changes(X[rows])
            lower = -quantiles(self.residuals - models, self.weights, level)
            upper = quantiles(self.residuals + models, self.weights, level)
            ends.append(np.stack([lower, upper], 1))
        return np.concatenate(ends)

    def changes(self, X: Any) -> Floats:
        """How predictions change if each training row is left out, shape (m, s)."""
        about, arrays = self.predictor.about, self.predictor.arrays
        used = list(dict.fromkeys(member["map"] for member in about["members"]))
        new = {k: self.predictor.features(k, about["maps"][k], X) for k in used}
        total = np.zeros((len(X), len(self.residuals)))
        for k, member in enumerate(about["members"]):
            number = member["map"]
            old = self.arrays[f"features.{used.index(number)}"]
            scale = arrays[f"map.{number}.values"] + member["ridge"]
            pulled = new[number] / scale @ old.T + self.constant
            total += member["share"] * pulled * self.arrays[f"moves.{k}"][:, 0]
        count = int(self.groups.max()) + 1
        if count < len(self.groups):
            sums = np.zeros((len(X), count))
            np.add.at(sums.T, self.groups, total.T)
            total = sums[:, self.groups]
        for k, other in enumerate(about["others"]):
            parts, kept = starting_with(f"other.{k}.", arrays), self.arrays[f"others.{k}"]
            change = _of_forest if other["model"]["kind"] == "forest" else _of_folds
            total = total + other["share"] * change(parts, X, kept)
        return total


def _of_forest(arrays: dict[str, Any], X: Any, unseen: Any) -> Floats:
    """The mean over the trees that did not see a row, minus the mean over all, (m, s)."""
    count = unseen.sum(1, keepdims=True)
    without = unseen / np.maximum(count, 1) - 1 / unseen.shape[1]
    without[count[:, 0] == 0] = 0.0
    result: Floats = arrays["value"][leaves(arrays, X), 0] @ without.T
    return result


def _of_folds(arrays: dict[str, Any], X: Any, folds: Any) -> Floats:
    """Predictions of the model without the fold of a row, minus those of the model, (m, s)."""
    values = (X[:, arrays["columns"]] - arrays["mean"]) / arrays["scale"]
    theta = arrays["fold_theta"][:, :, 0] - arrays["theta"][:, 0]
    moved = np.clip(values, -CLIP, CLIP) @ theta.T + (arrays["fold_bias"] - arrays["bias"])[:, 0]
    result: Floats = moved[:, folds]
    return result


def quantiles(values: Floats, weights: Floats, level: float) -> Floats:
    """The conformal quantile of each row of values (m, s), infinite beyond the last, (m,)."""
    order = values.argsort(1, kind="stable")
    ordered = np.take_along_axis(values, order, 1)
    limit = level * (weights.sum() + 1) * (1 - 1e-12)
    index = (weights[order].cumsum(1) < limit).sum(1, keepdims=True)
    past = np.full((len(values), 1), np.inf)
    result: Floats = np.take_along_axis(np.hstack([ordered, past]), index, 1)[:, 0]
    return result
