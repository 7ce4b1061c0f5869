r"""Prediction intervals from leave-one-out models: the jackknife+, with NumPy alone.

With μ₋ᵢ the model without row i (or without its group) and R_i = |y_i − μ₋ᵢ(x_i)|, the interval at
level 1 − α ends at the quantiles of μ₋ᵢ(x) ∓ R_i over the training rows (Barber, Candès, Ramdas and
Tibshirani, *Predictive inference with the jackknife+*, 2021). It contains the target of a new row
with probability at least 1 − 2α for any distribution of the rows, and usually with about 1 − α.

For squared loss all these models follow from one fit. Leaving row i out moves the prediction of any
x by

.. math:: J(x) H^{-1} J_i^\top d_i = \Bigl(\frac{1}{\sum_j w_j} + \sum_k
   \frac{\phi_k(x)\,\phi_k(x_i)}{v_k + \lambda}\Bigr) d_i, \qquad d_i = w_i (o_i^{(-i)} - y_i),

since features are centred and uncorrelated (``tables/features/decomposition.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.tables.prediction.predictor import Mixture, starting_with

Floats = NDArray[np.floating[Any]]

#: New rows are processed in blocks, so that about this many numbers are in memory.
NUMBERS = 2**21
#: Arrays that every jackknife has, and lists of arrays.
SINGLE, LISTS = ("residuals", "weights", "groups"), ("features", "moves", "others")


@dataclass(frozen=True)
class Jackknife:
    """The data of s training rows that intervals need.

    Without moves, intervals have the same width everywhere, in units of the deviation that the loss
    assumes.
    """

    residuals: Floats  # abs(y − μ₋ᵢ(x_i)), divided by this deviation, shape (s, K)
    weights: Floats  # of the rows, shape (s,); their sum is the effective sample size
    groups: NDArray[np.int64]  # rows with the same whole number are left out together, shape (s,)
    constant: float = 0.0  # 1/Σ_j w_j over all training rows
    features: tuple[Floats, ...] = ()  # φ for each feature map of the mixture, shapes (s, r)
    moves: tuple[Floats, ...] = ()  # d for each member of the mixture, shapes (s, K)
    others: tuple[NDArray[Any], ...] = ()  # for each member of another kind, shapes (s, …)
    rows: NDArray[np.intp] | None = None  # the indices of these rows, shape (s,); not in files
    other_rows: tuple[Floats, ...] = ()  # these rows for members of other kinds; not in files

    @classmethod
    def plain(cls, residuals: Floats, weights: Floats) -> Jackknife:
        """From out-of-sample errors or scores (n, K) and weights of the rows alone."""
        rows = np.arange(len(residuals))
        return cls(np.abs(residuals), weights, rows, rows=rows)

    @classmethod
    def read(cls, constant: float, arrays: Mapping[str, Any]) -> Jackknife:
        """Restore what :meth:`arrays` described, from the arrays of a file that was checked."""
        own = starting_with("jackknife.", arrays)
        lists = []
        for name in LISTS:
            several = starting_with(f"{name}.", own)
            lists.append(tuple(several[key] for key in sorted(several, key=int)))
        residuals, weights, groups = (own[name] for name in SINGLE)
        features, moves, others = lists
        return cls(residuals, weights, groups, float(constant), features, moves, others)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, for a file."""
        named: dict[str, NDArray[Any]] = {f"jackknife.{k}": getattr(self, k) for k in SINGLE}
        for name in LISTS:
            for number, value in enumerate(getattr(self, name)):
                named[f"jackknife.{name}.{number}"] = value
        return named

    def of_one_width(self) -> Jackknife:
        """For intervals of the same width everywhere, which need no features of the rows."""
        return replace(self, constant=0.0, features=(), moves=(), others=(), other_rows=())

    def in_order(self) -> Jackknife:
        """The same in the order of the residuals of one output, which tells nothing of the rows.

        Only for intervals of the same width everywhere.
        """
        order = self.residuals[:, 0].argsort(kind="stable")
        return Jackknife(self.residuals[order], self.weights[order], np.arange(len(order)))

    def widths(self, level: float) -> Floats:
        """The quantile of the residuals, shape (K,), which intervals without moves have."""
        widths: Floats = quantiles(self.residuals[None], self.weights, level)[0]
        return widths

    def intervals(self, mixture: Mixture, X: Any, centre: Floats, level: float) -> Floats:
        """Lower and upper ends, shape (m, K, 2), around predictions of shape (m, K)."""
        if not self.moves:
            return np.asarray(mixture.around(centre, self.widths(level)))
        ends, size = [], max(1, NUMBERS // self.residuals.size)
        for start in range(0, len(centre), size):
            rows = slice(start, start + size)
            models = centre[rows, None] + self.changes(mixture, X[rows])
            ends.append(self._ends(models, self.weights, level))
        return np.concatenate(ends)

    def own_intervals(self, mixture: Mixture, left_out: Floats, level: float) -> Floats:
        r"""Intervals for these rows themselves, shape (s, K, 2), each from the other rows.

        ``left_out`` are their leave-one-out outputs (s, K). The prediction without rows i and j is
        approximated by μ₋ᵢ(x_i) + (μ₋ⱼ − μ)(x_i), so that no row influences its own interval.
        """
        weights = self.weights * (self.groups[:, None] != self.groups)
        if self.moves:
            return self._ends(left_out[:, None] + self.changes(mixture, None), weights, level)
        every = np.broadcast_to(self.residuals, (len(left_out), *self.residuals.shape))
        return np.asarray(mixture.around(left_out, quantiles(every, weights, level)))

    def _ends(self, models: Floats, weights: Floats, level: float) -> Floats:
        """Quantiles of the predictions without each row ∓ its residual, shape (m, K, 2)."""
        lower = -quantiles(self.residuals - models, weights, level)
        return np.stack([lower, quantiles(self.residuals + models, weights, level)], 2)

    def changes(self, mixture: Mixture, X: Any | None) -> Floats:
        """μ₋ᵢ(x) − μ(x), shape (m, s, K); for these rows themselves if X is None."""
        used = dict.fromkeys(member.number for member in mixture.members)
        old = dict(zip(used, self.features, strict=True))
        new = old if X is None else {number: mixture.maps[number](X) for number in used}
        total: Any = 0.0
        for member, moves in zip(mixture.members, self.moves, strict=True):
            scale = mixture.values[member.number] + member.ridge
            pulled = new[member.number] / scale @ old[member.number].T + self.constant
            total = total + member.share * pulled[:, :, None] * moves
        count = int(self.groups.max()) + 1
        if count < len(self.groups):
            sums = np.zeros((count, len(total), total.shape[2]))
            np.add.at(sums, self.groups, total.swapaxes(0, 1))
            total = sums.swapaxes(0, 1)[:, self.groups]
        inputs = self.other_rows if X is None else [X] * len(mixture.others)
        for other, kept, rows in zip(mixture.others, self.others, inputs, strict=True):
            total = total + other.share * other.changes(rows, kept)  # groups are left out in these
        result: Floats = total
        return result


def quantiles(values: Floats, weights: Floats, level: float) -> Floats:
    """The conformal quantile along the second axis, infinite beyond the last value.

    With unit weights it is the ⌈(s + 1) level⌉-th smallest of s values. Values are (m, s, K),
    weights (s,) or (m, s).
    """
    order = values.argsort(1, kind="stable")
    ordered = np.take_along_axis(values, order, 1)
    weights = np.broadcast_to(weights, values.shape[:2])[:, :, None]
    reached = np.take_along_axis(np.broadcast_to(weights, values.shape), order, 1).cumsum(1)
    limit = level * (weights.sum(1, keepdims=True) + 1) * (1 - 1e-12)
    index = (reached < limit).sum(1, keepdims=True)
    past = np.full_like(ordered[:, :1], math.inf)
    result: Floats = np.take_along_axis(np.concatenate([ordered, past], 1), index, 1)[:, 0]
    return result
