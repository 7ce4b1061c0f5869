r"""Every row left out of a minimum, for outputs that are linear in the parameters.

One Newton step of the problem without row i, from the minimum with it, moves its outputs to

.. math:: o_i^{(-i)} = o_i + V_i (I - W_i V_i)^{-1} g_i, \qquad V = J H^{-1} J^\top,

g_i and W_i being gradient and Hessian of what row i adds to the sum, and V_i the K × K block of V
that belongs to row i (:mod:`decoupled_descent.leave_one_out.influence`). For squared loss this is
exact, otherwise second order; :func:`refine` adds further Newton steps, with the same factor of H.

A row is left out with all of its weight. Where labels are classes, the other rows of its class get
its weight, so that the shares of the classes stay the same
(:mod:`decoupled_descent.leave_one_out.class_shares`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from decoupled_descent.leave_one_out.class_shares import ClassShares
from decoupled_descent.leave_one_out.influence import Influence
from decoupled_descent.leave_one_out.minimum import Minimum
from decoupled_descent.leave_one_out.systems import systems
from decoupled_descent.rows.sources import spans

#: The tolerance of further Newton steps: those of a row have converged if the last one moved its
#: outputs by less than this share of the first. With 0.1 the error of ten digits was 8 % lower,
#: with 0.01 it is the same to 0.4 %.
TOLERANCE = 0.01
#: The same when there are no more steps.
LAST_TOLERANCE = 0.1
#: The most numbers K · n · s of an array while s rows are refined. Six such arrays are needed.
NUMBERS = 2**21
#: Losses are expanded for this many numbers at a time, since that takes a dozen arrays.
EXPANDED = 2**16


class LeaveOneOut(NamedTuple):
    """Outputs with rows left out.

    Attributes:
        outputs: o^(−i), shape (n, K).
        moves: d_i = (I − W_i V_i)⁻¹ (g_i − W_i t_i), shape (n, K): leaving row i out moves any
            output o(x) by J(x) H⁻¹ J_iᵀ times this, and by what the shares of the classes add.
        change: How far each row's outputs moved, the largest over outputs, shape (n,).
        doubtful: Rows whose further Newton steps do not converge, by index: there the linearisation
            fails, and a refit without the row is needed.
    """

    outputs: Tensor
    moves: Tensor
    change: Tensor
    doubtful: Tensor


def leave_out(minimum: Minimum, shares: ClassShares | None = None) -> LeaveOneOut:
    """Leave out each row, or all rows of a group together, by one Newton step.

    Outputs move by V_GG d_G − t_G, with d_G = (I − W_G V_GG)⁻¹ (g_G − W_G t_G). Without ``shares``,
    t is zero, and leaving rows out changes the shares of the classes.
    """
    gradients = minimum.gradients
    outputs, moves = minimum.outputs.clone(), torch.empty_like(minimum.outputs)
    for system in systems(minimum):
        rows = system.rows
        own = gradients[rows]
        if shares is not None:
            shift = shares.shifts(rows, system.times, gradients).reshape(own.shape)
            own = own - torch.einsum("msab,msb->msa", minimum.hessians(rows), shift)
            outputs[rows] -= shift
        solved = system.solve(own.flatten(1).unsqueeze(2))
        moves[rows] = solved.reshape(*rows.shape, -1)
        outputs[rows] += system.times(solved).reshape(*rows.shape, -1)
    none = torch.empty(0, dtype=torch.long, device=outputs.device)
    return LeaveOneOut(outputs, moves, (outputs - minimum.outputs).abs().amax(1), none)


def refine(
    minimum: Minimum,
    first: LeaveOneOut,
    rows: Tensor,
    shares: ClassShares | None = None,
    sweeps: int = 2,
) -> LeaveOneOut:
    r"""Further Newton steps of the problems without each of some rows, with the same factor of H.

    The first step moves *all* rows' outputs, by u_j = V_ji (d_i + ε g_i) − ε (V u_c)_j with the
    raise ε of the weights of row i's class c (:class:`ClassShares`), which is 0 without shares. The
    gradient of the problem without row i is then JᵀR with R_i = 0 and

    .. math:: R_j = (1 + ε_j)\,\bigl(g_j(o_j + u_j) - g_j\bigr) - W_j u_j .

    The next step moves the outputs by −V R, corrected for the missing row as above.
    Iterating this is a Newton method with a fixed Hessian: no new factor, K n² numbers per sweep.
    Where it does not converge, the first step is kept and the row is called doubtful.
    """
    outputs, moves, change = first.outputs.clone(), first.moves.clone(), first.change.clone()
    V, doubtful = minimum.influence.rough(), []
    n, count = outputs.shape
    identity = torch.eye(count, dtype=outputs.dtype, device=outputs.device)
    for part in torch.split(rows, max(1, NUMBERS // (count * n))):
        moved = start = _first_moves(minimum, V, first, part, shares)  # (K, n, s)
        for sweep in range(sweeps):
            here = torch.arange(len(part), device=part.device)
            rest = _remainder(minimum, moved, None if shares is None else shares.factors(part))
            rest[:, part, here] = 0.0
            own = V.at(part, rest).unsqueeze(2)  # (s, K, 1)
            hessians, blocks = minimum.hessians(part), V.blocks[part]
            back = torch.linalg.solve(identity - hessians @ blocks, hessians @ own)
            total = start[:, part, here].T - (own + blocks @ back).squeeze(2)
            back = back.squeeze(2)
            further = (total - moved[:, part, here].T).abs().amax(1)
            last = sweep == sweeps - 1
            done = further <= (LAST_TOLERANCE if last else TOLERANCE) * first.change[part]
            converged = part[done]
            outputs[converged] = minimum.outputs[converged] + total[done]
            moves[converged] = first.moves[converged] - back[done]
            change[converged] = total[done].abs().amax(1)
            part, start, rest, back = (
                part[~done], start[..., ~done], rest[..., ~done], back[~done],
            )  # fmt: skip
            if not len(part):
                break
            if not last:
                rest[:, part, torch.arange(len(part), device=part.device)] = back.T
                moved = start - V @ rest
        doubtful.append(part)
    return LeaveOneOut(outputs, moves, change, torch.cat(doubtful))


def _first_moves(
    minimum: Minimum,
    V: Influence,
    first: LeaveOneOut,
    rows: Tensor,
    shares: ClassShares | None,
) -> Tensor:
    """How the outputs of all rows move when each of some rows is left out, shape (K, n, s)."""
    if shares is None:
        return V.columns(rows, first.moves[rows])
    raises = shares.own_raises(rows)
    moves = first.moves[rows] + raises.unsqueeze(1) * minimum.gradients[rows]
    pulls = shares.pulls[:, :, shares.classes[rows]]
    return V.columns(rows, moves) - raises * pulls


def _remainder(minimum: Minimum, moved: Tensor, factors: Tensor | None) -> Tensor:
    """R = w_j (f_j (g(o_j + u) − g) − W u) for moves u (K, n, s) and factors f (n, s)."""
    rest = torch.empty_like(moved)
    count, n, s = moved.shape
    problem, curvature = minimum.problem, minimum.curvature
    for span in spans(n, max(1, EXPANDED // (count * s))):
        by = moved[:, span]
        change = problem.slopes(minimum.outputs[span].T.unsqueeze(2) + by, span)
        change -= curvature.slope[span].T.unsqueeze(2)
        if factors is not None:
            change *= factors[span]
        change -= curvature.times(by, span)
        rest[:, span] = problem.weights[span].unsqueeze(1) * change
    return rest


def pull_back(minimum: Minimum, values: Tensor) -> Tensor:
    """(I − W_i V_i)⁻¹ times values of shape (n, K); with groups, the blocks are those of groups.

    A shift of the outputs at the minimum shifts the left-out ones by (I − V_i W_i)⁻¹ times it; this
    is the transpose, which turns gradients at left-out outputs into gradients at the minimum.
    """
    result = torch.empty_like(values)
    for system in systems(minimum):
        solved = system.solve(values[system.rows].flatten(1).unsqueeze(2))
        result[system.rows] = solved.reshape(*system.rows.shape, -1)
    return result


def push_forward(minimum: Minimum, shifts: Tensor) -> Tensor:
    """How left-out outputs move with shifts of all outputs, both of shape (K, n, s).

    They move by (I − V_i W_i)⁻¹ times the shift of row i; with groups, the blocks are those of
    groups.
    """
    result = torch.empty_like(shifts)
    for system in systems(minimum):
        rows = system.rows
        part = shifts[:, rows].permute(1, 2, 0, 3)  # (m, s, K, shifts)
        solved = system.solve_transposed(part.flatten(1, 2))
        result[:, rows] = solved.reshape(part.shape).permute(2, 0, 1, 3)
    return result


def moves_without_folds(minimum: Minimum, folds: Tensor) -> Tensor:
    r"""How left-out outputs at a minimum move if a fold of rows is left out too, (folds, n, K).

    Leaving out fold S moves the outputs of row i by V_iS d_S, and its left-out outputs by

    .. math:: (I - V_i W_i)^{-1} V_{iS}\, d_S, \qquad d_S = (I - W_S V_{SS})^{-1} g_S .

    V_i is that of all rows: the effect of the labels of the fold is removed, and the model is
    otherwise that of all rows but i.

    Args:
        minimum: The minimum.
        folds: The fold of each row, from 0 on, shape (n,); groups are in one fold.

    Returns:
        The moves, for rows outside the fold.
    """
    problem = minimum.problem
    in_folds = replace(problem, rows=problem.rows.with_groups(folds))
    moves = leave_out(minimum._replace(problem=in_folds)).moves
    by_fold = moves.new_zeros(*moves.T.shape, int(folds.max()) + 1)
    by_fold[:, torch.arange(len(moves)), folds] = moves.T
    return push_forward(minimum, minimum.influence @ by_fold).permute(2, 1, 0)


def loss_covariance(minimum: Minimum, some: Tensor) -> float:
    """Mean covariance at a minimum of two entries of ``rows.averaged``, over some rows."""
    rows, weights, result = minimum.problem.rows, minimum.problem.weights, leave_out(minimum)
    count = rows.n if rows.groups is None else int(rows.groups.max()) + 1
    shares = weights / weights.mean() * (count / rows.n)
    slopes = shares.unsqueeze(1) * minimum.problem.expand(result.outputs).slope
    return pair_covariance(minimum, pull_back(minimum, slopes), result.moves, some)


def pair_covariance(minimum: Minimum, left: Tensor, moves: Tensor, rows: Tensor) -> float:
    r"""Mean over pairs of rows, or groups, of how their left-out losses vary together.

    Row j is in the training set of the model that predicts row i, and the reverse. To first order
    row j lowers the left-out loss of row i by B_ij,

    .. math:: B_{ij} = u_i^\top V_{ij}\, d_j, \qquad u_i = (I - W_i V_i)^{-1} g(o_i^{(-i)}),

    with d_j the moves of :func:`leave_out`; for groups, B is summed over their rows. The row and
    column means of B are removed. The rest is the part that sd²/n does not include: Cov(ℓ_i, ℓ_j) =
    E[B_ij B_ji].

    ``left`` is u, by :func:`pull_back`. The mean is over the given rows, which are whole groups.
    """
    groups = minimum.problem.rows.groups
    pairs = minimum.influence.bilinear(rows, left[rows], moves[rows])
    if groups is not None:
        labels, codes = torch.unique(groups[rows], return_inverse=True)
        member = one_hot(codes, len(labels)).to(pairs)
        pairs = member.T @ pairs @ member
    pairs.fill_diagonal_(0)
    centred = pairs - pairs.mean(0) - pairs.mean(1, keepdim=True) + pairs.mean()
    centred.fill_diagonal_(0)
    size = len(pairs)
    return max(0.0, float((centred * centred.T).sum())) / (size * (size - 1))
