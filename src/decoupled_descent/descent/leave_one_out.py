r"""Every row left out of a minimum, for outputs that are linear in the parameters.

The model is o = Φβ + b with features Φ (n, r), at the minimum of Σ_i w_i ℓ(o_i, y_i) + ½ λ‖β‖². One
Newton step of the problem without row i, from the minimum with it, moves the outputs of row i to

.. math:: o_i^{(-i)} = o_i + V_i (I - W_i V_i)^{-1} g_i, \qquad V = J H^{-1} J^\top,

g_i and W_i being gradient and Hessian of what row i adds to the sum, and V_i the K × K block of V
that belongs to row i. For squared loss this is exact, otherwise second order; :func:`refined` adds
further Newton steps for all rows at once, with the same factor of H.

Hessians are W_i = diag(b_i) − c_i c_iᵀ: that of squared, logistic and softmax losses, and of any
loss of a single output. Then V never needs an nK × nK matrix (Rasmussen and Williams, *Gaussian
Processes for Machine Learning*, algorithm 3.3): with S_k = (G⁻¹ + diag(b_k))⁻¹ and G = ΦΦᵀ/λ,

.. math:: V = S + S\,\Pi\,(I - \Pi^\top S\,\Pi)^{-1}\,\Pi^\top S, \qquad
   S = \mathrm{blockdiag}(S_1, …, S_K), \quad \Pi = (\mathrm{diag}\,c_1; …; \mathrm{diag}\,c_K).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.objective.losses import Curvature

#: ∂ℓ/∂o at outputs of shape (K, n, s): s versions of the n rows.
Slopes = Callable[[Tensor], Tensor]

#: The least curvature of a row, where it counts as zero in float64.
TINY = 1e-10
#: With more features than this share of the rows, the n × n form is the cheaper one.
DUAL = 0.6
#: Further Newton steps have come to rest when the last moved outputs by less than this share of the
#: first.
RESTLESS = 0.1
#: Rows are refined this many at a time: K · n · BLOCK numbers are in memory.
BLOCK = 256


class Covariance(NamedTuple):
    r"""V = J H⁻¹ Jᵀ in factored form: V_ij[k, l] = δ_kl S_k[i, j] + Q_k[:, i]·Q_l[:, j].

    Attributes:
        blocks: V_ii, shape (n, K, K).
        own: S_k, shape (n, n), one per output; a single one where all are equal.
        joint: Q_k, shape (n, n), one per output; empty for diagonal Hessians.
    """

    blocks: Tensor
    own: tuple[Tensor, ...]
    joint: tuple[Tensor, ...]

    def between(self, rows: Tensor, others: Tensor) -> Tensor:
        """V between two sets of rows, shape (a, K, b, K)."""
        count = self.blocks.shape[1]
        found = self.blocks.new_zeros(len(rows), count, len(others), count)
        for k in range(count):
            found[:, k, :, k] = self.own[k % len(self.own)][rows][:, others]
            for m, right in enumerate(self.joint):
                found[:, k, :, m] += self.joint[k][:, rows].T @ right[:, others]
        return found

    def times(self, values: Tensor) -> Tensor:
        """V u for u of shape (K, n, s)."""
        found = [self.own[k % len(self.own)] @ u for k, u in enumerate(values)]
        if self.joint:
            shared = torch.stack([q @ u for q, u in zip(self.joint, values, strict=True)]).sum(0)
            found = [own + q.T @ shared for own, q in zip(found, self.joint, strict=True)]
        return torch.stack(found)

    def columns(self, moves: Tensor, rows: Tensor) -> Tensor:
        """V_ji d_i for all j and the given rows i, shape (K, n, s), for d of shape (s, K)."""
        kept = [self.own[k % len(self.own)][:, rows] * d for k, d in enumerate(moves.T)]
        if not self.joint:
            return torch.stack(kept)
        shared = torch.stack([q[:, rows] * d for q, d in zip(self.joint, moves.T, strict=True)])
        total = shared.sum(0)
        return torch.stack([own + q.T @ total for own, q in zip(kept, self.joint, strict=True)])

    def at(self, values: Tensor, rows: Tensor) -> Tensor:
        """Σ_j V_ij u_ji for the given rows i, shape (s, K), for u of shape (K, n, s)."""
        found = [(self.own[k % len(self.own)][:, rows] * u).sum(0) for k, u in enumerate(values)]
        if self.joint:
            shared = torch.stack([q @ u for q, u in zip(self.joint, values, strict=True)]).sum(0)
            found = [
                own + (q[:, rows] * shared).sum(0) for own, q in zip(found, self.joint, strict=True)
            ]
        return torch.stack(found, 1)


def covariance(
    features: Tensor, bends: Curvature, ridge: float, weights: Tensor, gram: Tensor | None = None
) -> Covariance:
    """V at a minimum: one Cholesky factor per output, and one more where outputs are coupled.

    ``bends`` are those of single rows, before weights; ``gram`` is ΦΦᵀ, if it is known already.
    """
    n, r = features.shape
    diagonal = (weights.unsqueeze(1) * bends.diagonal).clamp_min(TINY)
    if gram is None and r > DUAL * n:
        gram = features @ features.T
    equal = bends.rank_one is None and bool((diagonal == diagonal[:, :1]).all())
    own = [_single(features, gram, column, ridge) for column in diagonal.T[: 1 if equal else None]]
    count = diagonal.shape[1]
    spread = torch.stack([own[k % len(own)].diagonal() for k in range(count)], 1)
    if bends.rank_one is None:
        return Covariance(torch.diag_embed(spread), tuple(own), ())
    arms = weights.sqrt().unsqueeze(1) * bends.rank_one
    # Softmax is blind to a common shift of all outputs, along which I − ΠᵀSΠ is singular.
    core = torch.eye(n, dtype=features.dtype, device=features.device) + 1.0 / n
    for arm, part in zip(arms.T, own, strict=True):
        core -= arm.unsqueeze(1) * part * arm
    factor = cholesky(core)
    joint = tuple(
        torch.linalg.solve_triangular(factor, arm.unsqueeze(1) * part, upper=False)
        for arm, part in zip(arms.T, own, strict=True)
    )
    blocks = torch.diag_embed(spread)
    for k in range(count):
        products = torch.stack([(joint[k] * other).sum(0) for other in joint[k:]], 1)
        blocks[:, k, k:] += products
        blocks[:, k + 1 :, k] += products[:, 1:]
    return Covariance(blocks, tuple(own), joint)


def _single(features: Tensor, gram: Tensor | None, diagonal: Tensor, ridge: float) -> Tensor:
    """S = (G⁻¹ + diag(b))⁻¹ of one output, with an intercept that is not penalised."""
    if gram is None:  # with centred features the intercept is a direction of its own
        total = float(diagonal.sum())
        centred = features - (diagonal @ features) / total
        hessian = centred.T @ (diagonal.unsqueeze(1) * centred)
        hessian.diagonal().add_(ridge)
        half = torch.linalg.solve_triangular(cholesky(hessian), centred.T, upper=False)
        found: Tensor = half.T @ half + 1 / total
        return found
    root = diagonal.sqrt()
    system = root.unsqueeze(1) * (gram / ridge) * root
    system.diagonal().add_(1.0)
    inverse = torch.cholesky_inverse(cholesky(system))
    pulled = inverse @ root
    inverse = inverse - torch.outer(pulled, pulled) / float(root @ pulled)
    found = -inverse / root.unsqueeze(1) / root
    found.diagonal().add_(1 / diagonal)
    return found


def cholesky(matrix: Tensor) -> Tensor:
    """Cholesky factor, with the least jitter that makes one possible."""
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(matrix)
    jitter = 1e-12 * float(matrix.diagonal().mean())
    while int(failed):
        shifted = matrix.clone()
        shifted.diagonal().add_(jitter)
        factor, failed = torch.linalg.cholesky_ex(shifted)
        jitter *= 10
    return factor


class LeftOut(NamedTuple):
    """Outputs with rows left out.

    Attributes:
        outputs: o^(−i), shape (n, K).
        moves: (I − W_i V_i)⁻¹ g_i, shape (n, K): leaving row i out moves any output o(x) by
            J(x) H⁻¹ J_iᵀ times this.
        change: How far each row's outputs moved, the largest over outputs, shape (n,).
        doubtful: Rows whose further Newton steps do not come to rest, by index: there the
            linearisation fails, and only a refit without the row can tell.
    """

    outputs: Tensor
    moves: Tensor
    change: Tensor
    doubtful: Tensor


def leave_out(outputs: Tensor, bends: Curvature, blocks: Tensor, removed: Tensor) -> LeftOut:
    """Leave out ``removed`` of the weight of each row, by one Newton step."""
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
    outputs: Tensor, bends: Curvature, spread: Covariance, weights: Tensor, groups: Tensor
) -> LeftOut:
    """Leave all rows of a group out together, by one Newton step: the same with larger blocks."""
    count = outputs.shape[1]
    hessians = weights.reshape(-1, 1, 1) * bends.matrices()
    gradient = weights.unsqueeze(1) * bends.slope
    found, moves = outputs.clone(), torch.zeros_like(outputs)
    for label in torch.unique(groups):
        rows = (groups == label).nonzero().squeeze(1)
        size = len(rows) * count
        block = spread.between(rows, rows)
        pulled = torch.einsum("iab,ibjc->iajc", hessians[rows], block).reshape(size, size)
        system = torch.eye(size, dtype=block.dtype, device=block.device) - pulled
        solved = torch.linalg.solve(system, gradient[rows].reshape(size, 1))
        moves[rows] = solved.reshape(-1, count)
        found[rows] += (block.reshape(size, size) @ solved).reshape(-1, count)
    none = torch.empty(0, dtype=torch.long, device=outputs.device)
    return LeftOut(found, moves, (found - outputs).abs().amax(1), none)


def refined(
    outputs: Tensor,
    slopes: Slopes,
    bends: Curvature,
    spread: Covariance,
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
    Where it does not come to rest, the first step is kept and the row is called doubtful.
    """
    found, moves, change = first.outputs.clone(), first.moves.clone(), first.change.clone()
    doubtful = []
    reaction = _reaction(bends, spread.blocks, removed)
    hessians, kept = removed.reshape(-1, 1, 1) * bends.matrices(), 1 - removed / weights
    for part in torch.split(rows, BLOCK):
        here = torch.arange(len(part), device=part.device)
        start = spread.columns(first.moves[part], part)  # (K, n, s)
        moved = start
        for sweep in range(sweeps):
            rest = _remainder(slopes, bends, weights, outputs, moved)
            rest[:, part, here] *= kept[part]
            last = sweep == sweeps - 1
            pushed = None if last else spread.times(rest)
            at = spread.at(rest, part) if pushed is None else pushed[:, part, here].T  # (s, K)
            pulled = torch.einsum("sab,sb->sa", hessians[part], at).unsqueeze(2)
            back = torch.linalg.solve(reaction[part], pulled).squeeze(2)
            if pushed is not None:
                moved = start - pushed - spread.columns(back, part)
                continue
            step = at + torch.einsum("sab,sb->sa", spread.blocks[part], back)
            total = start[:, part, here].T - step
            rest_of_way = (total - moved[:, part, here].T).abs().amax(1)
            settled = rest_of_way <= RESTLESS * first.change[part]
            calm = part[settled]
            found[calm] = outputs[calm] + total[settled]
            moves[calm] = first.moves[calm] - back[settled]
            change[calm] = total[settled].abs().amax(1)
            doubtful.append(part[~settled])
    return LeftOut(found, moves, change, torch.cat(doubtful))


def _remainder(
    slopes: Slopes, bends: Curvature, weights: Tensor, outputs: Tensor, moved: Tensor
) -> Tensor:
    """w_j (g(o_j + u) − g − W u), shape (K, n, s), for moves u of shape (K, n, s)."""
    change = slopes(outputs.T.unsqueeze(2) + moved) - bends.slope.T.unsqueeze(2)
    change -= bends.diagonal.T.unsqueeze(2) * moved
    if bends.rank_one is not None:
        arms = bends.rank_one.T.unsqueeze(2)
        change += arms * (arms * moved).sum(0)
    return weights.reshape(1, -1, 1) * change
