r"""Support vector machines with kernels.

With M the rows on the margin and the others as they are, leaving row i out moves its output by

.. math:: V_{ij} = K_{ij} - k_i^\top C^{-1} k_j, \qquad k_i = (K_{iM}, 1), \qquad
   C = \begin{pmatrix} K_{MM} + δ & 1 \\ 1 & 0 \end{pmatrix},

δ the small width of the smoothed kink: the 1 stands for the intercept, which is not penalised.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.evaluation.families.interface import (
    Family,
    LeftOut,
    NoFormulaError,
    not_known,
)
from decoupled_descent.evaluation.families.kinks import smoothed
from decoupled_descent.evaluation.families.losses import doubt
from decoupled_descent.evaluation.families.minimum import ForeignMinimum
from decoupled_descent.evaluation.task import Task

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

#: Dual coefficients within this part of their bounds are at them.
BOUND = 1e-6
#: As many rows have a matrix of all pairs.
MOST = 6000


@dataclass(frozen=True, eq=False)
class KernelMinimum(ForeignMinimum):
    """A minimum given by the products of rows, ``design`` of shape (n, n), and its margin."""

    @cached_property
    def _margin(self) -> Codes:
        return np.flatnonzero(self.curvatures > 0)

    @cached_property
    def _held(self) -> tuple[Floats, Floats]:
        """(K_M, 1) of all rows, and C⁻¹ times its transpose."""
        margin, size = self._margin, len(self._margin)
        sides = np.concatenate([self.design[:, margin], np.ones((len(self.design), 1))], 1)
        system = np.ones((size + 1, size + 1))
        system[:size, :size] = self.design[np.ix_(margin, margin)]
        system[np.arange(size), np.arange(size)] += 1 / self.curvatures[margin]
        system[size, size] = 0.0
        if not size:  # no row holds the intercept
            return sides[:, :0], np.zeros((0, len(sides)))
        return sides, np.linalg.solve(system, sides.T)

    @cached_property
    def diagonal(self) -> Floats:
        """V of each row, shape (n, 1, 1)."""
        sides, solved = self._held
        own = np.einsum("nm,mn->n", sides, solved)
        return np.asarray((np.diag(self.design) - own)[:, None, None])

    def blocks(self, own: Codes) -> Floats:
        """V of the rows of units of the same size."""
        sides, solved = self._held
        pairs = self.design[own[:, :, None], own[:, None, :]]
        return np.asarray(pairs - sides[own] @ solved.T[own].swapaxes(1, 2))

    def times(self, outputs: Floats) -> Floats:
        """V times numbers of all rows."""
        sides, solved = self._held
        return np.asarray(self.design @ outputs - sides @ (solved @ outputs))

    def _check_rows(self, task: Task) -> None:
        """The support vectors were compared before."""


class SupportVectors(Family):
    """SVC and SVR; of several classes each pair by itself."""

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Predict every row from the same margin without it."""
        if task.n > MOST:
            raise NoFormulaError(f"{task.n} rows are too many for a matrix of all pairs")
        _check_same(model, task)
        gram = self._gram(model, task)
        if task.classes is None:
            dual = np.zeros(task.n)
            dual[model.support_] = _dense(model.dual_coef_)[0]
            outputs = gram @ dual + model.intercept_[0]
            cost = model.C * task.row_weights
            ends = -model.epsilon, model.epsilon
            minimum = _minimum(gram, -dual, smoothed(outputs - task.labels, cost, *ends))
            left = outputs + minimum.moves(task)[:, 0]
            slopes = 2 * (left - task.labels) * task.row_weights / task.row_weights.mean()
            pairs = partial(minimum.pairs, task, slopes[:, None])
            return LeftOut(left, "formula", outputs, pairs=pairs)
        if hasattr(model, "predict_proba"):
            raise NoFormulaError("its probabilities come from an inner validation")
        return self._classes(model, task, gram)

    def _classes(self, model: Any, task: Task, gram: Floats) -> LeftOut:
        """The votes of all pairs of classes."""
        count = len(task.classes)
        votes, unsure = np.zeros((3, task.n, count)), np.zeros(task.n)
        cost = model.C * task.row_weights * model.class_weight_[task.labels]
        for pair, (first, second) in enumerate(combinations(range(count), 2)):
            dual = _dual(model, task, first, second)
            intercept = model.intercept_[pair] * (-1 if count == 2 else 1)
            outputs = gram @ dual + intercept
            distances = 1 - np.where(task.labels == first, outputs, -outputs)
            curved = smoothed(distances, cost, 0.0)
            ways = self._moved(task, gram, dual, curved, (first, second))
            far = doubt(outputs[:, None], (outputs + ways[1])[:, None])
            unsure = np.maximum(unsure, far)
            for own, moved in enumerate(ways):
                wins = outputs + moved > 0
                votes[own, wins, first] += 1
                votes[own, ~wins, second] += 1
        fitted, left, kept = votes.argmax(2)
        return LeftOut(
            left, "formula", fitted, kept, pairs=not_known, doubt=unsure,
            regrouped=lambda grouped: self._classes(model, grouped, gram),
        )  # fmt: skip

    @staticmethod
    def _moved(
        task: Task, gram: Floats, dual: Floats, curved: Floats, pair: tuple[int, int]
    ) -> list[Floats]:
        """How far outputs move: for the model itself, without each row, and with shares kept."""
        from dataclasses import replace

        rows = np.flatnonzero(np.isin(task.labels, pair))
        groups = None
        if task.groups is not None:
            groups = np.unique(task.groups[rows], return_inverse=True)[1].reshape(-1)
        weights = None if task.weights is None else task.weights[rows]
        part = replace(
            task, labels=task.labels[rows], X=None, y=None, groups=groups, weights=weights
        )
        minimum = _minimum(gram[np.ix_(rows, rows)], -dual[rows], curved[rows])
        left, kept = np.zeros(task.n), np.zeros(task.n)
        left[rows] = minimum.moves(part)[:, 0]
        kept[rows] = left[rows] + minimum.shifts(part)[:, 0]
        return [np.zeros(task.n), left, kept]

    @staticmethod
    def _gram(model: Any, task: Task) -> Floats:
        """The products of all pairs of rows."""
        if callable(model.kernel):
            return np.asarray(model.kernel(task.X, task.X), np.float64)
        if model.kernel == "precomputed":
            raise NoFormulaError("its kernel is given in advance")
        from sklearn.metrics.pairwise import pairwise_kernels

        options = {"gamma": model._gamma, "degree": model.degree, "coef0": model.coef0}
        return np.asarray(
            pairwise_kernels(task.X, metric=model.kernel, filter_params=True, **options), np.float64
        )


def _minimum(gram: Floats, gradients: Floats, curvatures: Floats) -> KernelMinimum:
    return KernelMinimum(gram, gradients[:, None], curvatures, np.zeros(len(gram)))


def _dual(model: Any, task: Task, first: int, second: int) -> Floats:
    """The coefficients of the rows for a pair of classes, positive for the first."""
    dual, labels = np.zeros(task.n), task.labels[model.support_]
    coefficients = _dense(model.dual_coef_)
    if len(task.classes) == 2:
        dual[model.support_] = -coefficients[0]
        return dual
    for own, row in ((first, second - 1), (second, first)):
        mine = labels == own
        dual[model.support_[mine]] = coefficients[row, mine]
    return dual


def _dense(values: Any) -> Floats:
    """Numbers that are a sparse matrix if the model was fitted to one."""
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)


def _check_same(model: Any, task: Task) -> None:
    """Refuse rows of which the support vectors are not a part."""
    if model.shape_fit_[0] != task.n:
        raise ValueError(f"X has {task.n} rows, and the model was fitted to {model.shape_fit_[0]}")
    vectors, rows = _dense(model.support_vectors_), task.matrix[model.support_]
    if np.shape(vectors) == np.shape(rows) and not np.allclose(vectors, rows):
        raise ValueError("X is not the table that the model was fitted to: pass the same rows")
