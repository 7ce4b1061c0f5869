r"""V = J H⁻¹ Jᵀ at a minimum: how the outputs of all rows move with the gradient of one.

Outputs are o = Φβ + b with features Φ (n, r), and H is the Hessian of Σ_i w_i ℓ(o_i, y_i) + ½ λ‖β‖²
with intercepts b that are not penalised. Hessians of rows are W_i = diag(b_i) − c_i c_iᵀ: that of
squared, logistic and softmax losses, and of any loss of a single output. For others H itself is
inverted. Without c the Hessian has no terms between outputs, and V has one part S_k per output:

.. math:: S_k = \tilde\Phi\,(\tilde\Phi^\top \mathrm{diag}(w b_k)\,\tilde\Phi + \lambda)^{-1}
   \tilde\Phi^\top, \qquad \tilde\Phi = (\Phi, 1) .

With c there is an exact form without nK × nK matrices (Rasmussen and Williams, *Gaussian Processes
for Machine Learning*, algorithm 3.3):

.. math:: V = S + S\,\Pi\,(I - \Pi^\top S\,\Pi)^{-1}\,\Pi^\top S, \qquad
   S = \mathrm{blockdiag}(S_1, …, S_K), \quad \Pi = (\mathrm{diag}\,c_1; …; \mathrm{diag}\,c_K) .

It takes n × n matrices. For many rows H itself, of size K(r + 1), is the smaller one. Without an
intercept, Φ̃ is Φ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.one_output import (
    Dense,
    KernelPart,
    Part,
    RidgePart,
    cholesky,
    pieces,
)
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective.second_order import Curvature
from decoupled_descent.rows.blocks import Rows

#: Curvatures of rows, before weights, are at least this, which counts as zero in float64.
TINY = 1e-10
#: With more features than this share of the rows, the n × n form of S is the cheaper one.
DUAL = 0.6
#: Up to this many rows n × n matrices are made.
SQUARE = 3000


class Among(ABC):
    """V among rows that are left out together. Values of n rows are (K, n, s): outputs come first.

    Attributes:
        blocks: V_ii, shape (n, K, K).
    """

    blocks: Tensor

    @abstractmethod
    def times(self, values: Tensor) -> Tensor:
        """V u, shape (K, n, s), for u of that shape."""

    @abstractmethod
    def between(self, rows: Tensor) -> Tensor:
        """V among some rows, shape (s, K, s, K)."""


class Spread(Among):
    """V between all rows, and the products with it."""

    @abstractmethod
    def columns(self, moves: Tensor, rows: Tensor) -> Tensor:
        """V_ji d_i for all rows j and the given rows i, shape (K, n, s), for d of shape (s, K)."""

    @abstractmethod
    def pairs(self, left: Tensor, right: Tensor, rows: Tensor) -> Tensor:
        """u_iᵀ V_ij d_j among some rows, shape (s, s), for u and d of shape (s, K)."""

    @abstractmethod
    def at(self, values: Tensor, rows: Tensor) -> Tensor:
        """The i-th row of V times the i-th column of u, shape (s, K), for u of shape (K, n, s)."""


def spread(problem: Problem, bends: Curvature) -> Spread:
    """V for the curvature of single rows before weights; the last one is kept with the rows."""
    key = (problem.ridge, problem.intercept, problem.weights, *bends[2:])
    found: Spread = problem.rows.recall("spread", key, lambda: _made(problem, bends))
    return found


def _made(problem: Problem, bends: Curvature) -> Spread:
    rows, ridge, intercept = problem.rows, problem.ridge, problem.intercept
    many = rows.n > SQUARE or not rows.in_memory
    if bends.full is not None or (bends.rank_one is not None and many):
        return CoupledRidge(problem, bends)
    diagonal = problem.weights * bends.diagonal.T.clamp_min(TINY)
    gram = rows.products if is_dual(rows) else None
    parts: list[Part] = [
        RidgePart(rows, own, ridge, intercept)
        if gram is None
        else KernelPart(gram, own, ridge, intercept)
        for own in unlike(rows, diagonal)
    ]
    parts *= len(diagonal) // len(parts)
    if bends.rank_one is None:
        return Separate(parts)
    return Coupled(parts, problem.weights.sqrt().unsqueeze(1) * bends.rank_one, intercept)


def unlike(rows: Rows, curvature: Tensor) -> Tensor:
    """Curvatures (K, n) in which outputs differ: one row if all outputs have the same."""
    differ = (curvature != curvature[:1]).sum()
    return curvature if int(rows.total(differ)[0]) else curvature[:1]


def is_dual(rows: Rows) -> bool:
    """Whether n × n matrices are cheaper than r × r ones."""
    return rows.in_memory and DUAL * rows.n < rows.d and rows.n <= SQUARE


class Separate(Spread):
    """No terms between outputs: V_ij = diag(S_1[i, j], …, S_K[i, j])."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        found = {part: part.diagonal() for part in set(parts)}
        self.blocks = torch.diag_embed(torch.stack([found[part] for part in parts], 1))

    def columns(self, moves: Tensor, rows: Tensor) -> Tensor:
        if len(self.parts) == 1:
            return self.parts[0].columns(rows).mul_(moves[:, 0]).unsqueeze(0)
        found = {part: part.columns(rows) for part in set(self.parts)}
        pairs = zip(self.parts, moves.T, strict=True)
        return torch.stack([found[part] * move for part, move in pairs])

    def times(self, values: Tensor) -> Tensor:
        if len(self.parts) == 1:
            return self.parts[0].times(values[0]).unsqueeze(0)
        pairs = zip(self.parts, values, strict=True)
        return torch.stack([part.times(value) for part, value in pairs])

    def at(self, values: Tensor, rows: Tensor) -> Tensor:
        pairs = zip(self.parts, values, strict=True)
        return torch.stack([part.at(value, rows) for part, value in pairs], 1)

    def between(self, rows: Tensor) -> Tensor:
        found = self.blocks.new_zeros(len(rows), len(self.parts), len(rows), len(self.parts))
        for k, part in enumerate(self.parts):
            found[:, k, :, k] = part.between(rows)
        return found

    def pairs(self, left: Tensor, right: Tensor, rows: Tensor) -> Tensor:
        return _total(
            u.unsqueeze(1) * part.between(rows) * d
            for part, u, d in zip(self.parts, left.T, right.T, strict=True)
        )


class Coupled(Separate):
    """Softmax and the like, by n × n matrices: V = S + QᵀQ."""

    def __init__(self, parts: Sequence[Part], arms: Tensor, intercept: bool = True) -> None:
        own = [part.dense() for part in parts]
        super().__init__([Dense(matrix) for matrix in own])
        n, count = arms.shape
        core = torch.eye(n, dtype=arms.dtype, device=arms.device)
        if intercept:  # softmax ignores a common intercept, so that I − ΠᵀSΠ is singular there
            blind = arms.sum(1)
            core += torch.outer(blind, blind) / (blind @ blind)
        for arm, matrix in zip(arms.T, own, strict=True):
            core -= arm.unsqueeze(1) * matrix * arm
        factor = cholesky(core)
        self.joint = arms.new_empty(count, n, n)  # Q
        for k, (arm, matrix) in enumerate(zip(arms.T, own, strict=True)):
            pulled = arm.unsqueeze(1) * matrix
            self.joint[k] = torch.linalg.solve_triangular(factor, pulled, upper=False)
        for k, one in enumerate(self.joint):
            self.blocks[:, k] += torch.stack([(one * other).sum(0) for other in self.joint], 1)

    def _pulled(self, moves: Tensor, rows: Tensor) -> Tensor:
        """Q_i d_i of some rows, shape (n, s)."""
        pairs = zip(self.joint, moves.T, strict=True)
        return _total(q[:, rows] * d for q, d in pairs)

    def columns(self, moves: Tensor, rows: Tensor) -> Tensor:
        return super().columns(moves, rows).add_(self.joint.mT @ self._pulled(moves, rows))

    def _shared(self, values: Tensor) -> Tensor:
        """Q u, shape (n, s)."""
        return _total(q @ u for q, u in zip(self.joint, values, strict=True))

    def times(self, values: Tensor) -> Tensor:
        return super().times(values).add_(self.joint.mT @ self._shared(values))

    def at(self, values: Tensor, rows: Tensor) -> Tensor:
        shared = self._shared(values)
        own = torch.stack([(q[:, rows] * shared).sum(0) for q in self.joint], 1)
        return super().at(values, rows) + own

    def between(self, rows: Tensor) -> Tensor:
        joint = self.joint[:, :, rows].permute(1, 2, 0).flatten(1)  # (n, sK)
        found = super().between(rows)
        return found + (joint.T @ joint).reshape(found.shape)

    def pairs(self, left: Tensor, right: Tensor, rows: Tensor) -> Tensor:
        shared = self._pulled(left, rows).T @ self._pulled(right, rows)
        return super().pairs(left, right, rows) + shared


class CoupledRidge(Spread):
    """Softmax and the like for many rows, and any W_i: H⁻¹ itself, of size K(r + 1)."""

    def __init__(self, problem: Problem, bends: Curvature) -> None:
        rows, weights = problem.rows, problem.weights
        self.rows, self.one = rows, float(problem.intercept)
        r, count = rows.d, bends.diagonal.shape[1]
        size = r + 1
        hessian = rows.like.new_zeros(count, size, count, size)
        for span, features in pieces(rows):
            phi, bent = self._extended(features), bends.matrices(span)
            for k in range(count):
                for m in range(k, count):
                    bend = weights[span] * bent[:, k, m]
                    hessian[k, :, m] += phi.T @ (bend.unsqueeze(1) * phi)
        hessian, sums = rows.total(hessian, weights.sum())
        total = float(sums)
        if bends.rank_one is not None:  # softmax ignores a common shift of all outputs
            hessian[:, r, :, r] += total / count**2
        for k in range(count):
            hessian[k, :r, k, :r].diagonal().add_(problem.ridge)
            hessian[k, r, k, r] += 1e-12 * total if bends.full is None else 1e-9 * total
            for m in range(k):
                hessian[k, :, m] = hessian[m, :, k].T
        flat = hessian.reshape(count * size, count * size)
        self.inverse = torch.cholesky_inverse(cholesky(flat)).reshape(count, size, count, size)
        self.blocks = rows.like.new_empty(rows.here, count, count)
        for span, features in pieces(rows):
            phi = self._extended(features)
            for k in range(count):
                for m in range(k, count):
                    found = ((phi @ self.inverse[k, :, m]) * phi).sum(1)
                    self.blocks[span, k, m] = self.blocks[span, m, k] = found

    def _extended(self, features: Tensor) -> Tensor:
        return torch.cat([features, torch.full_like(features[:, :1], self.one)], 1)

    def _spread(self, moved: Tensor) -> Tensor:
        """Outputs that parameters (K, r + 1, s) move, shape (K, n, s)."""
        count, _, s = moved.shape
        flat = moved[:, :-1].transpose(1, 2).reshape(count * s, -1)
        outputs = self.rows.forward(flat).reshape(count, s, -1).transpose(1, 2)
        return outputs + moved[:, -1:]

    def columns(self, moves: Tensor, rows: Tensor) -> Tensor:
        pulled = moves.T.unsqueeze(1) * self._extended(self.rows.take(rows)).T  # (K, r + 1, s)
        return self._spread(torch.einsum("kpmq,mqs->kps", self.inverse, pulled))

    def _pulled(self, values: Tensor) -> Tensor:
        """H⁻¹Jᵀ of values (K, n, s): the parameters that they move, shape (K, r + 1, s)."""
        count, n, s = values.shape
        flat = self.rows.backward(values.transpose(1, 2).reshape(count * s, n))
        (sums,) = self.rows.total(values.sum(1, keepdim=True))
        back = flat.reshape(count, s, -1).transpose(1, 2)
        return torch.einsum("kpmq,mqs->kps", self.inverse, torch.cat([back, self.one * sums], 1))

    def times(self, values: Tensor) -> Tensor:
        return self._spread(self._pulled(values))

    def at(self, values: Tensor, rows: Tensor) -> Tensor:
        own = self._extended(self.rows.take(rows))
        return torch.einsum("sp,kps->sk", own, self._pulled(values))

    def between(self, rows: Tensor) -> Tensor:
        phi = self._extended(self.rows.gather(rows))
        return torch.einsum("ip,kpmq,jq->ikjm", phi, self.inverse, phi)

    def pairs(self, left: Tensor, right: Tensor, rows: Tensor) -> Tensor:
        phi = self._extended(self.rows.gather(rows)).unsqueeze(1)
        sides = [(side.unsqueeze(2) * phi).flatten(1) for side in (left, right)]
        size = sides[0].shape[1]
        return sides[0] @ self.inverse.reshape(size, size) @ sides[1].T


def _total(values: Iterator[Tensor]) -> Tensor:
    first = next(values)
    for value in values:
        first = first + value
    return first
