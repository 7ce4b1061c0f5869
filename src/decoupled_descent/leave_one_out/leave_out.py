r"""Every row left out of a minimum, for outputs that are linear in the parameters.

One Newton step of the problem without row i, from the minimum with it, moves its outputs to

.. math:: o_i^{(-i)} = o_i + V_i (I - W_i V_i)^{-1} g_i, \qquad V = J H^{-1} J^\top,

g_i and W_i being gradient and Hessian of what row i adds to the sum, and V_i the K × K block of V
that belongs to row i (:mod:`decoupled_descent.leave_one_out.influence`). For squared loss this is
exact, otherwise second order; :func:`refined` adds further Newton steps, with the same factor of H.

A row is left out with all of its weight. Where labels are classes, the other rows of its class get
its weight, so that the shares of the classes stay the same (:class:`ClassShares`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

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
#: A class has lost all of its rows if less than this share of its weight is left.
ALL = 1e-12
#: Losses are expanded for so many numbers at a time, since that takes a dozen arrays.
EXPANDED = 2**16


class Minimum(NamedTuple):
    """A problem at its minimum, and what leaving rows out of it needs."""

    problem: Problem
    outputs: Tensor  # o, shape (n, K)
    bends: Curvature  # the loss to second order there, before weights
    spread: Among  # V

    @property
    def gradients(self) -> Tensor:
        """g_i of all rows, shape (n, K)."""
        return self.problem.weights.unsqueeze(1) * self.bends.slope

    def hessians(self, rows: Tensor) -> Tensor:
        """W_i of some rows, shape (…, K, K)."""
        return self.problem.weights[rows][..., None, None] * self.bends.matrices(rows)

    @property
    def everywhere(self) -> Spread:
        """V between all rows, which a model that is linear in its parameters has."""
        assert isinstance(self.spread, Spread)
        return self.spread


def linear_minimum(problem: Problem, outputs: Tensor) -> Minimum:
    """The minimum of a model that is linear in its parameters, by its outputs, shape (n, K)."""
    bends = problem.expand(outputs)
    return Minimum(problem, outputs, bends, spread(problem, bends))


@dataclass(frozen=True, eq=False)
class ClassShares:
    r"""Weights that keep the shares of the classes when rows are left out, as stratified folds do.

    Leaving a row out makes its class rarer. With balanced classes and no signal every row would
    then be predicted wrong. So the other rows of class c get the weight of the rows G that leave,

    .. math:: w_j 	o (1 + ε_c)\, w_j, \qquad ε_c = rac{w_{G,c}}{w_c - w_{G,c}},

    which moves the outputs of G, to first order and before the rows themselves are left out, by

    .. math:: -t_G, \qquad t_G = \sum_c ε_c igl[(V u_c)_G - V_{GG}\, u_{c,G}igr],

    u_c being the gradients g of the rows of class c and zero elsewhere. A class of which no row is
    left cannot keep its share; its ε is zero.
    """

    classes: Tensor  # of the rows, shape (n,)
    weights: Tensor  # of the rows, shape (n,)
    totals: Tensor  # w_c, shape (C,)
    pulls: Tensor  # V u_c, shape (K, n, C)

    @classmethod
    def at(cls, minimum: Minimum) -> ClassShares | None:
        """The shares of the classes at a minimum; None if labels are not classes."""
        problem, gradients = minimum.problem, minimum.gradients
        classes = problem.classes
        if classes is None:
            return None
        count = max(2, gradients.shape[1])
        member = one_hot(classes, count).to(gradients)
        (totals,) = problem.rows.total(problem.weights @ member)
        pulls = minimum.spread.times(gradients.T.unsqueeze(2) * member)
        return cls(classes, problem.weights, totals, pulls)

    def raises(self, rows: Tensor) -> Tensor:
        """ε_c of each class for groups of rows (m, s) that leave, shape (m, C)."""
        member = one_hot(self.classes[rows], len(self.totals)).to(self.weights)
        leaving = (self.weights[rows].unsqueeze(2) * member).sum(1)
        left = self.totals - leaving
        return torch.where(left > ALL * self.totals, leaving / left, 0.0)

    def shifts(self, rows: Tensor, block: Tensor, gradients: Tensor) -> Tensor:
        """t_G of groups of rows (m, s), shape (m, sK, 1), for V_GG and the gradients of all."""
        raises = self.raises(rows)
        own = raises.gather(1, self.classes[rows]).unsqueeze(2) * gradients[rows]  # (m, s, K)
        pulls = torch.einsum("kmsc,mc->msk", self.pulls[:, rows], raises)
        return pulls.flatten(1).unsqueeze(2) - block @ own.flatten(1).unsqueeze(2)

    def raised(self, rows: Tensor) -> Tensor:
        """1 + ε as every row gets it when each of some rows leaves, shape (n, s)."""
        own = self.raises(rows.unsqueeze(1)).gather(1, self.classes[rows].unsqueeze(1)).squeeze(1)
        return 1 + own * (self.classes.unsqueeze(1) == self.classes[rows])

    def weights_without(self, row: int) -> Tensor:
        """The weights of all rows without one of them, shape (n,)."""
        alone = torch.tensor([row], device=self.classes.device)
        weights = self.weights * self.raised(alone).squeeze(1)
        weights[row] = 0.0
        return weights


class LeftOut(NamedTuple):
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


def leave_out(at: Minimum, shares: ClassShares | None = None) -> LeftOut:
    """Leave out each row, or all rows of a group together, by one Newton step.

    Outputs move by V_GG d_G − t_G, with d_G = (I − W_G V_GG)⁻¹ (g_G − W_G t_G). Without ``shares``,
    t is zero, and leaving rows out changes the shares of the classes.
    """
    gradients = at.gradients
    found, moves = at.outputs.clone(), torch.empty_like(at.outputs)
    for rows, block, system in _reactions(at):
        own = gradients[rows]
        if shares is not None:
            shift = shares.shifts(rows, block, gradients).reshape(own.shape)
            own = own - torch.einsum("msab,msb->msa", at.hessians(rows), shift)
            found[rows] -= shift
        solved = torch.linalg.solve(system, own.flatten(1).unsqueeze(2))
        moves[rows] = solved.reshape(*rows.shape, -1)
        found[rows] += (block @ solved).reshape(*rows.shape, -1)
    none = torch.empty(0, dtype=torch.long, device=found.device)
    return LeftOut(found, moves, (found - at.outputs).abs().amax(1), none)


def _reactions(at: Minimum) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Groups of s rows, V among the rows of each and I − W V: (m, s), (m, sK, sK), (m, sK, sK).

    Single rows come first, together, then the groups of several, one by one.
    """
    for rows, block in group_blocks(at):
        size = block.shape[1] * block.shape[2]
        pulled = torch.einsum("gsab,gsbtc->gsatc", at.hessians(rows), block)
        identity = torch.eye(size, dtype=block.dtype, device=block.device)
        yield rows, block.reshape(-1, size, size), identity - pulled.reshape(-1, size, size)


def group_blocks(at: Minimum) -> Iterator[tuple[Tensor, Tensor]]:
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


def refined(
    at: Minimum, first: LeftOut, rows: Tensor, shares: ClassShares | None = None, sweeps: int = 2
) -> LeftOut:
    r"""Further Newton steps of the problems without each of some rows, with the same factor of H.

    The first step moves *all* rows' outputs, by u_j = V_ji (d_i + ε g_i) − ε (V u_c)_j with the
    raise ε of the weights of row i's class c (:class:`ClassShares`), which is 0 without shares. The
    gradient of the problem without row i is then JᵀR with R_i = 0 and

    .. math:: R_j = (1 + ε_j)\,\bigl(g_j(o_j + u_j) - g_j\bigr) - W_j u_j .

    The next step moves the outputs by −V R, corrected for the missing row as above.
    Iterating this is a Newton method with a fixed Hessian: no new factor, K n² numbers per sweep.
    Where it does not converge, the first step is kept and the row is called doubtful.
    """
    found, moves, change = first.outputs.clone(), first.moves.clone(), first.change.clone()
    doubtful, around, outputs = [], at.everywhere, at.outputs
    n, count = outputs.shape
    identity = torch.eye(count, dtype=outputs.dtype, device=outputs.device)
    for part in torch.split(rows, max(1, NUMBERS // (count * n))):
        moved = start = _first_moves(at, first, part, shares)  # (K, n, s)
        for sweep in range(sweeps):
            here = torch.arange(len(part), device=part.device)
            rest = _remainder(at, moved, None if shares is None else shares.raised(part))
            rest[:, part, here] = 0.0
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


def _first_moves(at: Minimum, first: LeftOut, rows: Tensor, shares: ClassShares | None) -> Tensor:
    """How the outputs of all rows move when each of some rows is left out, shape (K, n, s)."""
    if shares is None:
        return at.everywhere.columns(first.moves[rows], rows)
    classes = shares.classes[rows]
    raises = shares.raises(rows.unsqueeze(1)).gather(1, classes.unsqueeze(1)).squeeze(1)
    moves = first.moves[rows] + raises.unsqueeze(1) * at.gradients[rows]
    return at.everywhere.columns(moves, rows) - raises * shares.pulls[:, :, classes]


def _remainder(at: Minimum, moved: Tensor, raised: Tensor | None) -> Tensor:
    """R = w_j (r_j (g(o_j + u) − g) − W u) for moves u, both (K, n, s), and raises r, (n, s)."""
    rest = torch.empty_like(moved)
    count, n, s = moved.shape
    for span in spans(n, max(1, EXPANDED // (count * s))):
        by = moved[:, span]
        change = at.problem.slopes(at.outputs[span].T.unsqueeze(2) + by, span)
        change -= at.bends.slope[span].T.unsqueeze(2)
        if raised is not None:
            change *= raised[span]
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
