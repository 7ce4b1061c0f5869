r"""How much the error rises when the values of one column are shuffled among the rows.

Every row is predicted by the model that was fitted without it (or without its group), once with its
own values and once with shuffled ones. Leaving row i out moves the coefficients of a member of the
mixture by Δ, with H Δ = J_iᵀ d_i (:mod:`decoupled_descent.leave_one_out.leave_out`), so that

.. math:: \lambda\,\Delta = \Phi^\top (e_i d_i - W u), \qquad u = V_{\cdot i}\, d_i,

where W is the curvature of the rows, and V is computed by
:mod:`decoupled_descent.leave_one_out.influence`. No model is trained again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.app.cli.baselines import losses_of
from decoupled_descent.app.cli.tables import Prepared
from decoupled_descent.estimators.mixture import Member
from decoupled_descent.leave_one_out.leave_out import leave_out
from decoupled_descent.leave_one_out.minimum import linear_minimum
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective import Objective, heads
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.selection.fits import smoothed_predictions

Floats = NDArray[np.float64]

#: The most rows that are predicted with shuffled values, and the most columns that are shuffled.
MOST_ROWS, MOST_COLUMNS = 300, 60
#: The largest members of the mixture are used, until they have this share of its weight.
SHARE = 0.9


def importance(prepared: Prepared, estimator: Any) -> list[tuple[str, float]]:
    """Return columns of the table with the relative rise of the error, largest first.

    All features that were made from one column are shuffled together. The rows are the same for
    every column, so that the rises can be compared. The list is empty for wide tables, for
    tables that are read in pieces, and for networks, which have no leave-one-out models.
    """
    columns = prepared.columns.columns
    if not 1 < len(columns) <= MOST_COLUMNS or not estimator.model_.leaves_rows_out:
        return []
    if prepared.sample is not None:  # models without a row need all rows in memory
        return []
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.permutation(len(prepared.y))[:MOST_ROWS])
    left_out = LeftOutModels(prepared, estimator, chosen)
    X, y = prepared.X[chosen], prepared.y[chosen]
    order, rises, start = rng.permutation(len(y)), [], 0
    before = float(losses_of(estimator, left_out.predict(X), y).mean())
    for column in columns:
        stop = start + len(column.outputs)
        shuffled = X.copy()
        shuffled[:, start:stop] = X[order, start:stop]
        error = float(losses_of(estimator, left_out.predict(shuffled), y).mean())
        rises.append((column.name, error / max(before, 1e-300) - 1))
        start = stop
    return sorted(rises, key=lambda one: -one[1])


class LeftOutModels:
    """For each of some rows, the model that was fitted without it and its group."""

    def __init__(self, prepared: Prepared, estimator: Any, chosen: NDArray[np.intp]) -> None:
        self.estimator, self.loss = estimator, estimator.mixture_.loss
        members = list(estimator.mixture_.members)
        kept = np.cumsum([member.share for member in members]) < SHARE
        self.members = members[: int(kept.sum()) + 1]
        self.total = sum(member.share for member in self.members)
        targets, loss, outputs = estimator._encoded(prepared.y)
        objective = Objective(heads.Linear(outputs, intercept=True), loss)
        groups = prepared.groups
        codes = (
            None if groups is None else torch.from_numpy(np.unique(groups, return_inverse=True)[1])
        )
        maps: dict[int, Rows] = {}
        self.parameters = []
        for member in self.members:
            key = id(member.features)
            if key not in maps:
                phi = member.features.transform(prepared.X)
                maps[key] = Rows(phi, targets, groups=codes)
            bound = objective.bind(targets, outputs, maps[key].X)
            problem = Problem(maps[key], bound, member.ridge)
            self.parameters.append(left_out_parameters(problem, member, torch.from_numpy(chosen)))

    def predict(self, X: Floats) -> Floats:
        """Predict row k by the k-th left-out model: probabilities (s, K), or numbers."""
        maps: dict[int, Tensor] = {}
        mixed = torch.zeros(())
        for member, (theta, bias) in zip(self.members, self.parameters, strict=True):
            key = id(member.features)
            if key not in maps:
                maps[key] = member.features.transform(X)
            outputs = torch.einsum("sr,ksr->sk", maps[key], theta) + bias.T
            mixture = smoothed_predictions(self.loss, outputs, self.estimator.mixture_.rows)
            mixed = mixed + member.share / self.total * mixture
        numbers: Floats = mixed.numpy()
        if hasattr(self.estimator, "classes_"):
            return numbers
        shaped: Floats = self.estimator._shaped(numbers)
        return shaped


def left_out_parameters(problem: Problem, member: Member, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients (K, s, r) and intercepts (K, s) of a member without each of some rows."""
    X, groups = problem.rows.X, problem.rows.groups
    outputs = X @ member.theta.T + member.bias
    alone = torch.arange(len(X)) if groups is None else groups
    at = linear_minimum(problem, outputs)
    moves, around = leave_out(at).moves, at.influence
    curvature = problem.weights.reshape(-1, 1, 1) * at.curvature.matrices()
    theta, bias = [], []
    for row in rows:  # the rows of a group are left out together
        leaving = (alone == alone[row]).nonzero().squeeze(1)
        moved = around.columns(leaving, moves[leaving]).sum(2)  # (K, n)
        rest = -torch.einsum("nab,bn->an", curvature, moved)
        rest[:, leaving] += moves[leaving].T
        change = rest @ X / problem.ridge
        theta.append(member.theta + change)
        bias.append(member.bias + (moved - change @ X.T).mean(1))
    return torch.stack(theta, 1), torch.stack(bias, 1)
