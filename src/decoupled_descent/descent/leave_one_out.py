r"""Every row left out of a minimum, for outputs that are linear in the parameters.

One Newton step of the problem without row i, from the minimum with it, moves its outputs to

.. math:: o_i^{(-i)} = o_i + V_i (I - W_i V_i)^{-1} g_i, \qquad V = J H^{-1} J^\top,

g_i and W_i being gradient and Hessian of what row i adds to the sum, and V_i the K × K block of V
that belongs to row i (:mod:`decoupled_descent.descent.spread`). For squared loss this is exact,
otherwise second order; :func:`refined` adds further Newton steps, with the same factor of H.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.spread import Spread
from decoupled_descent.objective.second_order import Curvature

#: ∂ℓ/∂o at outputs of shape (K, b, s): s versions of b consecutive rows, and which rows these are.
Slopes = Callable[[Tensor, slice], Tensor]
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


def leave_out(outputs: Tensor, bends: Curvature, blocks: Tensor, removed: Tensor) -> LeftOut:
    """Reduce the weight of each row by ``removed``, one row at a time, by one Newton step."""
    gradient = removed.unsqueeze(1) * bends.slope
    reaction = _reaction(bends, blocks, removed)
    moves = torch.linalg.solve(reaction, gradient.unsqueeze(2))
    change = (blocks @ moves).squeeze(2)
    none = torch.empty(0, dtype=torch.long, device=outputs.device)
    return LeftOut(outputs + change, moves.squeeze(2), change.abs().amax(1), none)


def _reaction(bends: Curvature, blocks: Tensor, removed: Tensor) -> Tensor:
    """I − W_i V_i, shape (n, K, K)."""
    hessians = removed.reshape(-1, 1, 1) * bends.matrices()
    identity = torch.eye(blocks.shape[1], dtype=blocks.dtype, device=blocks.device)
    return identity - hessians @ blocks


def leave_groups_out(
    outputs: Tensor, bends: Curvature, spread: Spread, weights: Tensor, groups: Tensor
) -> LeftOut:
    """Leave out all rows of a group together, by one Newton step with larger blocks."""
    gradient = weights.unsqueeze(1) * bends.slope
    found, moves = outputs.clone(), torch.zeros_like(outputs)
    for rows, block, system in _group_reactions(bends, spread, weights, groups):
        solved = torch.linalg.solve(system, gradient[rows].flatten(1).unsqueeze(2))
        moves[rows] = solved.reshape(*rows.shape, -1)
        found[rows] += (block @ solved).reshape(*rows.shape, -1)
    none = torch.empty(0, dtype=torch.long, device=outputs.device)
    return LeftOut(found, moves, (found - outputs).abs().amax(1), none)


def _group_reactions(
    bends: Curvature, spread: Spread, weights: Tensor, groups: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Groups of s rows, V among the rows of each and I − W V: (m, s), (m, sK, sK), (m, sK, sK).

    All groups of a single row come first, together, then the others one by one.
    """
    sizes = torch.bincount(groups)
    several = torch.split(groups.argsort(stable=True), sizes.tolist())
    alone = (sizes[groups] == 1).nonzero()
    if len(alone):
        rows = alone.squeeze(1)
        yield alone, spread.blocks[rows], _reaction(bends, spread.blocks, weights)[rows]
    for rows in several:
        if len(rows) > 1:
            block = spread.between(rows)
            size = block.shape[0] * block.shape[1]
            hessians = weights[rows].reshape(-1, 1, 1) * bends.matrices(rows)
            pulled = torch.einsum("iab,ibjc->iajc", hessians, block).reshape(1, size, size)
            identity = torch.eye(size, dtype=block.dtype, device=block.device)
            yield rows.unsqueeze(0), block.reshape(1, size, size), identity - pulled


def refined(
    outputs: Tensor,
    slopes: Slopes,
    bends: Curvature,
    spread: Spread,
    weights: Tensor,
    removed: Tensor,
    first: LeftOut,
    rows: Tensor,
    sweeps: int = 2,
) -> LeftOut:
    r"""Further Newton steps of the problems without each of some rows, with the same factor of H.

    The first step moves *all* rows' outputs, by u_j = V_ji d_i with d_i = (I − W_i V_i)⁻¹ g_i. The
    gradient of the problem without row i is then JᵀR with R_j = g_j(o_j + u_j) − g_j − W_j u_j and
    R_i = 0. The next step moves the outputs by −V R, corrected for the missing row as above.
    Iterating this is a Newton method with a fixed Hessian: no new factor, K n² numbers per sweep.
    Where it does not converge, the first step is kept and the row is called doubtful.
    """
    found, moves, change = first.outputs.clone(), first.moves.clone(), first.change.clone()
    doubtful = []
    reaction = _reaction(bends, spread.blocks, removed)
    hessians, kept = removed.reshape(-1, 1, 1) * bends.matrices(), 1 - removed / weights
    count, n = outputs.shape[1], len(outputs)
    for part in torch.split(rows, max(1, NUMBERS // (count * n))):
        moved = start = spread.columns(first.moves[part], part)  # (K, n, s)
        for sweep in range(sweeps):
            here = torch.arange(len(part), device=part.device)
            rest = _remainder(slopes, bends, weights, outputs, moved)
            rest[:, part, here] *= kept[part]
            at = spread.at(rest, part)  # (s, K)
            pulled = torch.einsum("sab,sb->sa", hessians[part], at).unsqueeze(2)
            back = torch.linalg.solve(reaction[part], pulled).squeeze(2)
            step = at + torch.einsum("sab,sb->sa", spread.blocks[part], back)
            total = start[:, part, here].T - step
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
                pushed = spread.times(rest)
                moved = torch.sub(start, pushed, out=pushed).sub_(spread.columns(back, part))
        doubtful.append(part)
    return LeftOut(found, moves, change, torch.cat(doubtful))


def _remainder(
    slopes: Slopes, bends: Curvature, weights: Tensor, outputs: Tensor, moved: Tensor
) -> Tensor:
    """w_j (g(o_j + u) − g − W u), shape (K, n, s), for moves u of shape (K, n, s)."""
    rest = torch.empty_like(moved)
    count, n, s = moved.shape
    size = max(1, EXPANDED // (count * s))
    for start in range(0, n, size):
        span = slice(start, min(start + size, n))
        by = moved[:, span]
        change = slopes(outputs[span].T.unsqueeze(2) + by, span)
        change -= bends.slope[span].T.unsqueeze(2)
        if bends.full is not None:
            change -= torch.einsum("nab,bns->ans", bends.full[span], by)
        else:
            change -= bends.diagonal[span].T.unsqueeze(2) * by
        if bends.rank_one is not None:
            arms = bends.rank_one[span].T.unsqueeze(2)
            change += arms * (arms * by).sum(0)
        rest[:, span] = weights[span].reshape(1, -1, 1) * change
    return rest


def reacted(
    values: Tensor,
    bends: Curvature,
    spread: Spread,
    removed: Tensor,
    groups: Tensor | None = None,
) -> Tensor:
    """(I − W_i V_i)⁻¹ times values of shape (n, K); with groups, the blocks are those of groups.

    A shift of the outputs at the minimum shifts the left-out ones by (I − V_i W_i)⁻¹ times it; this
    is the transpose, which turns gradients at left-out outputs into gradients at the minimum.
    """
    if groups is None:
        reaction = _reaction(bends, spread.blocks, removed)
        solved: Tensor = torch.linalg.solve(reaction, values.unsqueeze(2))
        return solved.squeeze(2)
    found = torch.empty_like(values)
    for rows, _, system in _group_reactions(bends, spread, removed, groups):
        solved = torch.linalg.solve(system, values[rows].flatten(1).unsqueeze(2))
        found[rows] = solved.reshape(*rows.shape, -1)
    return found


def shifted(
    shifts: Tensor,
    bends: Curvature,
    spread: Spread,
    removed: Tensor,
    groups: Tensor | None = None,
) -> Tensor:
    """How left-out outputs move with shifts of all outputs, both of shape (K, n, s).

    They move by (I − V_i W_i)⁻¹ times the shift of row i; with groups, the blocks are those of
    groups.
    """
    if groups is None:
        reaction = _reaction(bends, spread.blocks, removed).transpose(1, 2)
        alone: Tensor = torch.linalg.solve(reaction, shifts.transpose(0, 1))
        return alone.transpose(0, 1)
    found = torch.empty_like(shifts)
    for rows, _, system in _group_reactions(bends, spread, removed, groups):
        part = shifts[:, rows].permute(1, 2, 0, 3)  # (m, s, K, shifts)
        solved = torch.linalg.solve(system.mT, part.flatten(1, 2))
        found[:, rows] = solved.reshape(part.shape).permute(2, 0, 1, 3)
    return found


def pair_covariance(
    left: Tensor, moves: Tensor, spread: Spread, rows: Tensor, groups: Tensor | None = None
) -> float:
    r"""Mean over pairs of rows, or groups, of how their left-out losses vary together.

    Row j is in the training set of the model that predicts row i, and the reverse. To first order
    row j lowers the left-out loss of row i by B_ij,

    .. math:: B_{ij} = u_i^\top V_{ij}\, d_j, \qquad u_i = (I - W_i V_i)^{-1} g(o_i^{(-i)}),

    with d_j the moves of :func:`leave_out`; for groups, B is summed over their rows. The row and
    column means of B are removed. The rest is the part that sd²/n does not include: Cov(ℓ_i, ℓ_j) =
    E[B_ij B_ji].

    ``left`` is u, by :func:`reacted`. The mean is over the given rows, which are whole groups.
    """
    pairs = spread.pairs(left[rows], moves[rows], rows)
    if groups is not None:
        labels, codes = torch.unique(groups[rows], return_inverse=True)
        member = torch.nn.functional.one_hot(codes, len(labels)).to(pairs)
        pairs = member.T @ pairs @ member
    pairs.fill_diagonal_(0)
    centred = pairs - pairs.mean(0) - pairs.mean(1, keepdim=True) + pairs.mean()
    centred.fill_diagonal_(0)
    size = len(pairs)
    return max(0.0, float((centred * centred.T).sum())) / (size * (size - 1))
