r"""Every row left out of a minimum, for outputs that are linear in the parameters.

One Newton step of the problem without row i, from the minimum with it, moves its outputs to

.. math:: o_i^{(-i)} = o_i + V_i (I - W_i V_i)^{-1} g_i, \qquad V = J H^{-1} J^\top,

g_i and W_i being gradient and Hessian of what row i adds to the sum, and V_i the K × K block of V
that belongs to row i (:mod:`decoupled_descent.leave_one_out.influence`). For squared loss this is
exact, otherwise second order; :func:`refined` adds further Newton steps, with the same factor of H.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.influence import Among, Spread, spread
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective.second_order import Curvature
from decoupled_descent.rows.sources import spans

#: Further Newton steps have converged when the last moved outputs by less than this share of the
#: first.
RESTLESS = 0.1
#: A row needs no other step if one moved its outputs by less than this share. With 0.1 the error of
#: ten digits was 8 % lower, with 0.01 it is the same to 0.4 %.
CALM = 0.01
#: The most numbers K · n · s of an array while s rows are refined. Six such arrays are needed.
NUMBERS = 2**19
#: Losses are expanded for so many numbers at a time, since that takes a dozen arrays.
EXPANDED = 2**16


class Minimum(NamedTuple):
    """A problem at its minimum, and what leaving rows out of it needs."""

    problem: Problem
    outputs: Tensor  # o, shape (n, K)
    bends: Curvature  # the loss to second order there, before weights
    spread: Among  # V

    @property
    def removed(self) -> Tensor:
        """The weight that leaves with each row, shape (n,); in groups, all of it."""
        problem = self.problem
        return problem.removed if problem.rows.groups is None else problem.weights

    def hessians(self, rows: Tensor) -> Tensor:
        """W_i of what leaves with some rows, shape (…, K, K)."""
        return self.removed[rows][..., None, None] * self.bends.matrices(rows)

    @property
    def everywhere(self) -> Spread:
        """V between all rows, which a model that is linear in its parameters has."""
        assert isinstance(self.spread, Spread)
        return self.spread


def linear_minimum(problem: Problem, outputs: Tensor) -> Minimum:
    """The minimum of a model that is linear in its parameters, by its outputs, shape (n, K)."""
    bends = problem.expand(outputs)
    return Minimum(problem, outputs, bends, spread(problem, bends))


class LeftOut(NamedTuple):
    """Outputs with rows left out.

    Attributes:
        outputs: o^(−i), shape (n, K).
        moves: (I − W_i V_i)⁻¹ g_i, shape (n, K): leaving row i out moves any output o(x) by
            J(x) H⁻¹ J_iᵀ times this.
        change: How far each row's outputs moved, the largest over outputs, shape (n,).
        doubtful: Rows whose further Newton steps do not converge, by index: there the linearisation
            fails, and a refit without the row is needed.
    """

    outputs: Tensor
    moves: Tensor
    change: Tensor
    doubtful: Tensor


def leave_out(at: Minimum) -> LeftOut:
    """Leave out each row, or all rows of a group together, by one Newton step."""
    gradient = at.removed.unsqueeze(1) * at.bends.slope
    found, moves = at.outputs.clone(), torch.empty_like(at.outputs)
    for rows, block, system in _reactions(at):
        solved = torch.linalg.solve(system, gradient[rows].flatten(1).unsqueeze(2))
        moves[rows] = solved.reshape(*rows.shape, -1)
        found[rows] += (block @ solved).reshape(*rows.shape, -1)
    none = torch.empty(0, dtype=torch.long, device=found.device)
    return LeftOut(found, moves, (found - at.outputs).abs().amax(1), none)


def _reactions(at: Minimum) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Groups of s rows, V among the rows of each and I − W V: (m, s), (m, sK, sK), (m, sK, sK).

    Single rows come first, together, then the groups of several, one by one.
    """
    for rows, block in _groups(at):
        size = block.shape[1] * block.shape[2]
        pulled = torch.einsum("gsab,gsbtc->gsatc", at.hessians(rows), block)
        identity = torch.eye(size, dtype=block.dtype, device=block.device)
        yield rows, block.reshape(-1, size, size), identity - pulled.reshape(-1, size, size)


def _groups(at: Minimum) -> Iterator[tuple[Tensor, Tensor]]:
    """Groups of s rows, (m, s), and V among the rows of each, (m, s, K, s, K)."""
    groups, blocks = at.problem.rows.groups, at.spread.blocks[:, None, :, None]
    if groups is None:
        yield torch.arange(len(blocks), device=blocks.device).unsqueeze(1), blocks
        return
    sizes = torch.bincount(groups)
    alone = (sizes[groups] == 1).nonzero()
    if len(alone):
        yield alone, blocks[alone.squeeze(1)]
    for rows in torch.split(groups.argsort(stable=True), sizes.tolist()):
        if len(rows) > 1:
            yield rows.unsqueeze(0), at.spread.between(rows).unsqueeze(0)


def refined(at: Minimum, first: LeftOut, rows: Tensor, sweeps: int = 2) -> LeftOut:
    r"""Further Newton steps of the problems without each of some rows, with the same factor of H.

    The first step moves *all* rows' outputs, by u_j = V_ji d_i with d_i = (I − W_i V_i)⁻¹ g_i. The
    gradient of the problem without row i is then JᵀR with R_j = g_j(o_j + u_j) − g_j − W_j u_j and
    R_i = 0. The next step moves the outputs by −V R, corrected for the missing row as above.
    Iterating this is a Newton method with a fixed Hessian: no new factor, K n² numbers per sweep.
    Where it does not converge, the first step is kept and the row is called doubtful.
    """
    found, moves, change = first.outputs.clone(), first.moves.clone(), first.change.clone()
    doubtful, around, outputs = [], at.everywhere, at.outputs
    kept = 1 - at.removed / at.problem.weights
    n, count = outputs.shape
    identity = torch.eye(count, dtype=outputs.dtype, device=outputs.device)
    for part in torch.split(rows, max(1, NUMBERS // (count * n))):
        moved = start = around.columns(first.moves[part], part)  # (K, n, s)
        for sweep in range(sweeps):
            here = torch.arange(len(part), device=part.device)
            rest = _remainder(at, moved)
            rest[:, part, here] *= kept[part]
            pulled = around.at(rest, part).unsqueeze(2)  # (s, K, 1)
            hessians, blocks = at.hessians(part), around.blocks[part]
            back = torch.linalg.solve(identity - hessians @ blocks, hessians @ pulled)
            total = start[:, part, here].T - (pulled + blocks @ back).squeeze(2)
            back = back.squeeze(2)
            further = (total - moved[:, part, here].T).abs().amax(1)
            last = sweep == sweeps - 1
            settled = further <= (RESTLESS if last else CALM) * first.change[part]
            calm = part[settled]
            found[calm] = outputs[calm] + total[settled]
            moves[calm] = first.moves[calm] - back[settled]
            change[calm] = total[settled].abs().amax(1)
            part, start, rest, back = (
                part[~settled], start[..., ~settled], rest[..., ~settled], back[~settled],
            )  # fmt: skip
            if not len(part):
                break
            if not last:
                pushed = around.times(rest)
                moved = torch.sub(start, pushed, out=pushed).sub_(around.columns(back, part))
        doubtful.append(part)
    return LeftOut(found, moves, change, torch.cat(doubtful))


def _remainder(at: Minimum, moved: Tensor) -> Tensor:
    """w_j (g(o_j + u) − g − W u), shape (K, n, s), for moves u of shape (K, n, s)."""
    rest = torch.empty_like(moved)
    count, n, s = moved.shape
    for span in spans(n, max(1, EXPANDED // (count * s))):
        by = moved[:, span]
        change = at.problem.slopes(at.outputs[span].T.unsqueeze(2) + by, span)
        change -= at.bends.slope[span].T.unsqueeze(2)
        change -= at.bends.times(by, span)
        rest[:, span] = at.problem.weights[span].unsqueeze(1) * change
    return rest


def reacted(at: Minimum, values: Tensor) -> Tensor:
    """(I − W_i V_i)⁻¹ times values of shape (n, K); with groups, the blocks are those of groups.

    A shift of the outputs at the minimum shifts the left-out ones by (I − V_i W_i)⁻¹ times it; this
    is the transpose, which turns gradients at left-out outputs into gradients at the minimum.
    """
    found = torch.empty_like(values)
    for rows, _, system in _reactions(at):
        solved = torch.linalg.solve(system, values[rows].flatten(1).unsqueeze(2))
        found[rows] = solved.reshape(*rows.shape, -1)
    return found


def shifted(at: Minimum, shifts: Tensor) -> Tensor:
    """How left-out outputs move with shifts of all outputs, both of shape (K, n, s).

    They move by (I − V_i W_i)⁻¹ times the shift of row i; with groups, the blocks are those of
    groups.
    """
    found = torch.empty_like(shifts)
    for rows, _, system in _reactions(at):
        part = shifts[:, rows].permute(1, 2, 0, 3)  # (m, s, K, shifts)
        solved = torch.linalg.solve(system.mT, part.flatten(1, 2))
        found[:, rows] = solved.reshape(part.shape).permute(2, 0, 1, 3)
    return found


def shifts_without(at: Minimum, folds: Tensor) -> Tensor:
    r"""How left-out outputs at a minimum move if a fold of rows is left out too, (folds, n, K).

    Leaving out fold S moves the outputs of row i by V_iS d_S, and its left-out outputs by

    .. math:: (I - V_i W_i)^{-1} V_{iS}\, d_S, \qquad d_S = (I - W_S V_{SS})^{-1} g_S .

    V_i is that of all rows: what the labels of the fold have told the model is taken back, and the
    model is otherwise that of all rows but i.

    Args:
        at: The minimum.
        folds: The fold of each row, from 0 on, shape (n,); groups are in one fold.

    Returns:
        The moves, for rows outside the fold.
    """
    together = replace(at.problem, rows=at.problem.rows.with_groups(folds))
    moves = leave_out(at._replace(problem=together)).moves
    placed = moves.new_zeros(*moves.T.shape, int(folds.max()) + 1)
    placed[:, torch.arange(len(moves)), folds] = moves.T
    return shifted(at, at.everywhere.times(placed)).permute(2, 1, 0)


def paired_losses(at: Minimum, some: Tensor) -> float:
    """Mean covariance at a minimum of two entries of ``rows.averaged``, over some rows."""
    rows, weights, found = at.problem.rows, at.problem.weights, leave_out(at)
    count = rows.n if rows.groups is None else int(rows.groups.max()) + 1
    shares = weights / weights.mean() * (count / rows.n)
    slopes = shares.unsqueeze(1) * at.problem.expand(found.outputs).slope
    return pair_covariance(at, reacted(at, slopes), found.moves, some)


def pair_covariance(at: Minimum, left: Tensor, moves: Tensor, rows: Tensor) -> float:
    r"""Mean over pairs of rows, or groups, of how their left-out losses vary together.

    Row j is in the training set of the model that predicts row i, and the reverse. To first order
    row j lowers the left-out loss of row i by B_ij,

    .. math:: B_{ij} = u_i^\top V_{ij}\, d_j, \qquad u_i = (I - W_i V_i)^{-1} g(o_i^{(-i)}),

    with d_j the moves of :func:`leave_out`; for groups, B is summed over their rows. The row and
    column means of B are removed. The rest is the part that sd²/n does not include: Cov(ℓ_i, ℓ_j) =
    E[B_ij B_ji].

    ``left`` is u, by :func:`reacted`. The mean is over the given rows, which are whole groups.
    """
    pairs, groups = at.everywhere.pairs(left[rows], moves[rows], rows), at.problem.rows.groups
    if groups is not None:
        labels, codes = torch.unique(groups[rows], return_inverse=True)
        member = torch.nn.functional.one_hot(codes, len(labels)).to(pairs)
        pairs = member.T @ pairs @ member
    pairs.fill_diagonal_(0)
    centred = pairs - pairs.mean(0) - pairs.mean(1, keepdim=True) + pairs.mean()
    centred.fill_diagonal_(0)
    size = len(pairs)
    return max(0.0, float((centred * centred.T).sum())) / (size * (size - 1))
