r"""The mixture without each of some training rows, for any values of their columns.

Leaving row i out moves the coefficients of a Newton fit by Δ, with H Δ = J_iᵀ d_i
(:mod:`decoupled_descent.leave_one_out.leave_out`), so that

.. math:: \lambda\,\Delta = \Phi^\top (e_i d_i - W u), \qquad u = V_{\cdot i}\, d_i,

where W is the curvature of the rows, and V is computed by
:mod:`decoupled_descent.leave_one_out.influence`. Members of other kinds have parts that did not see
the row: trees, or fits without its fold. No model is trained again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.leave_one_out.leave_out import leave_out
from decoupled_descent.leave_one_out.minimum import linear_minimum
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective import Objective, heads
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.analyses.table import AnalysedTable
from decoupled_descent.tables.members.interface import TrainingTable
from decoupled_descent.tables.search.fits import smoothed_predictions

if TYPE_CHECKING:
    from decoupled_descent.tables.estimators.mixture import NewtonMember

Floats = NDArray[np.float64]

#: The most numbers of one temporary matrix while rows are left out.
MOST_NUMBERS = 2**20


class LeftOutModels:
    """For each of some rows, the model that was fitted without it and its group."""

    def __init__(self, table: AnalysedTable, chosen: NDArray[np.intp]) -> None:
        model, some = table.model, torch.from_numpy(chosen)
        mixture = model.mixture_
        self.model, self.mixture = model, mixture
        encoded, weights = model._encoded_rows()
        rows = {"weights": weights.weights, "groups": weights.groups}
        objective = Objective(heads.Linear(encoded.outputs, intercept=True), encoded.loss)
        maps: dict[int, Rows] = {}
        self.parameters = []
        for member in mixture.members:
            key = id(member.features)
            if key not in maps:
                maps[key] = Rows(member.features.transform(table.X), encoded.targets, **rows)
            bound = objective.bind(encoded.targets, encoded.outputs, maps[key].X)
            problem = Problem(maps[key], bound, member.ridge)
            self.parameters.append(left_out_parameters(problem, member, some))
        inner = TrainingTable(
            table.X, encoded.targets, mixture.loss, encoded.outputs, weights.weights,
            weights.groups, model._folds,
        )  # fmt: skip
        self.kept = [one.model.kept_rows(inner, some) for one in mixture.others]

    def predict(self, X: Floats) -> Floats:
        """Predict row k by the k-th left-out model: probabilities (s, K), or numbers."""
        maps: dict[int, Tensor] = {}
        mixed, count = torch.zeros(()), self.mixture.rows
        for member, (theta, bias) in zip(self.mixture.members, self.parameters, strict=True):
            key = id(member.features)
            if key not in maps:
                maps[key] = member.features.transform(X)
            outputs = torch.einsum("sr,ksr->sk", maps[key], theta) + bias.T
            mixed = mixed + member.share * smoothed_predictions(self.mixture.loss, outputs, count)
        for other, kept in zip(self.mixture.others, self.kept, strict=True):
            own = self.mixture.loss.smoothed(other.model.without_own(X, kept), count)
            mixed = mixed + other.share * own
        numbers: Floats = mixed.numpy()
        return numbers if hasattr(self.model, "classes_") else self.model._shaped(numbers)


def left_out_parameters(
    problem: Problem, member: NewtonMember, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """Coefficients (K, s, r) and intercepts (K, s) of a member without each of some rows."""
    X, groups = problem.rows.X, problem.rows.groups
    outputs = X @ member.theta.T + member.bias
    at = linear_minimum(problem, outputs)
    moves = leave_out(at).moves
    curvature = problem.weights.reshape(-1, 1, 1) * at.curvature.matrices()
    theta, bias = [], []
    parts, place = _parts(rows, groups, max(1, MOST_NUMBERS // outputs.numel()))
    for part in parts:
        moved = at.influence.columns(part, moves[part])  # (K, n, s)
        own = torch.zeros_like(moved)
        own[:, part, torch.arange(len(part))] = moves[part].T
        if groups is not None:  # the rows of a group are left out together
            moved, own = moved.sum(2, keepdim=True), own.sum(2, keepdim=True)
        rest = own - torch.einsum("nab,bns->ans", curvature, moved)
        change = torch.einsum("ans,nr->asr", rest, X) / problem.ridge
        theta.append(member.theta.unsqueeze(1) + change)
        bias.append(member.bias.unsqueeze(1) + moved.mean(1) - change @ X.mean(0))
    return torch.cat(theta, 1)[:, place], torch.cat(bias, 1)[:, place]


def _parts(rows: Tensor, groups: Tensor | None, most: int) -> tuple[Sequence[Tensor], Tensor]:
    """Rows to leave out: up to ``most`` rows one by one, or one group; and the place of each."""
    if groups is None:
        return torch.split(rows, most), torch.arange(len(rows))
    different, place = torch.unique(groups[rows], return_inverse=True)
    return [(groups == one).nonzero().squeeze(1) for one in different], place
