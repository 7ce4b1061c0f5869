r"""How much the error rises when the values of one column are shuffled among the rows.

Every row is predicted by the model that was fitted without it (or without its group), once with its
own values and once with shuffled ones. Leaving row i out moves the coefficients of a member of the
mixture by Δ, with H Δ = J_iᵀ d_i (:mod:`decoupled_descent.leave_one_out.leave_out`), so that

.. math:: \lambda\,\Delta = \Phi^\top (e_i d_i - W u), \qquad u = V_{\cdot i}\, d_i,

where W is the curvature of the rows, and V is computed by
:mod:`decoupled_descent.leave_one_out.influence`. No model is trained again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.app.cli.baselines import losses_of
from decoupled_descent.app.cli.tables import Prepared
from decoupled_descent.leave_one_out.leave_out import leave_out
from decoupled_descent.leave_one_out.minimum import linear_minimum
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective import Objective, heads
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.estimators.mixture import Member
from decoupled_descent.tables.search.fits import smoothed_predictions

Floats = NDArray[np.float64]

#: The most rows that are predicted with shuffled values, and the most columns that are shuffled.
MOST_ROWS, MOST_COLUMNS = 300, 60
#: Of more columns, those are shuffled that change the predictions of this many rows the most …
SCREENED_ROWS = 20
#: … unless there are more than this, because the time grows with the square of the columns.
MOST_SCREENED = 1000
#: The largest members of the mixture are used, until they have this share of its weight.
SHARE = 0.9
#: The most numbers of one temporary matrix while rows are left out.
MOST_NUMBERS = 2**20


def importance(prepared: Prepared, estimator: Any) -> list[tuple[str, float]]:
    """Return columns of the table with the relative rise of the error, largest first.

    All features that were made from one column are shuffled together. The rows are the same for
    every column, so that the rises can be compared. Of wide tables only the columns that change
    predictions the most are shuffled. The list is empty if :func:`why_not` has a reason.
    """
    columns = prepared.columns.columns
    if len(columns) < 2 or why_not(prepared):
        return []
    spans = spans_of(prepared)
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.permutation(len(prepared.y))[:MOST_ROWS])
    left_out = LeftOutModels(prepared, estimator, chosen)
    X, y = prepared.X[chosen], prepared.y[chosen]
    order, rises = rng.permutation(len(y)), []
    before = float(losses_of(estimator, left_out.predict(X), y).mean())
    for k in most_used(estimator, X, order, spans):
        shuffled = X.copy()
        shuffled[:, spans[k]] = X[order, spans[k]]
        error = float(losses_of(estimator, left_out.predict(shuffled), y).mean())
        rises.append((columns[k].name, error / max(before, 1e-300) - 1))
    return sorted(rises, key=lambda one: -one[1])


def why_not(prepared: Prepared) -> str:
    """Why importances are not computed; an empty text if they are."""
    if prepared.sample is not None or prepared.rows is not None:
        return "This was not computed, because it needs all rows in memory."
    if len(prepared.columns.columns) > MOST_SCREENED:
        return f"This was not computed, because there are more than {MOST_SCREENED:,} columns."
    return ""


def spans_of(prepared: Prepared) -> list[slice]:
    """The columns of X that were made from each column of the table."""
    counts = [len(column.outputs) for column in prepared.columns.columns]
    ends = np.cumsum([0, *counts]).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]


def most_used(estimator: Any, X: Floats, order: NDArray[np.intp], spans: list[slice]) -> list[int]:
    """The numbers of the columns that change the model's predictions the most, if shuffled."""
    if len(spans) <= MOST_COLUMNS:
        return list(range(len(spans)))
    some = X[:SCREENED_ROWS]
    before = estimator.model_.predict(some)
    changes = []
    for span in spans:
        shuffled = some.copy()
        shuffled[:, span] = X[order[: len(some)], span]
        changes.append(float(np.abs(estimator.model_.predict(shuffled) - before).mean()))
    largest = np.argsort(-np.array(changes), kind="stable")[:MOST_COLUMNS]
    return sorted(largest.tolist())


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
