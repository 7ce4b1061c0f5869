r"""The influence of rows on the outputs of softmax, whose Hessians are W_i = diag(b_i) − c_i c_iᵀ.

**In the dual**, by n × n matrices: there is an exact form without nK × nK matrices (Rasmussen and
Williams, *Gaussian Processes for Machine Learning*, algorithm 3.3),

.. math:: V = S + S\,\Pi\,(I - \Pi^\top S\,\Pi)^{-1}\,\Pi^\top S, \qquad
   S = \mathrm{blockdiag}(S_1, …, S_K), \quad \Pi = (\mathrm{diag}\,c_1; …; \mathrm{diag}\,c_K),

with S_k as in :mod:`.ridge`, for the curvature b_k of output k alone.

**In the primal**, by H⁻¹ itself, of size K(r + 1): for many rows it is the smaller matrix. It needs
no form of W_i and so serves any loss with terms between outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from functools import cached_property

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.influence import Influence
from decoupled_descent.leave_one_out.linear_algebra import cholesky, pieces
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective.second_order import Curvature

#: The rows of the blocks V_ii are computed in pieces of at most this many rows times outputs.
PIECE = 2**12
#: L⁻¹ΠᵀS is kept if it has no more numbers than this, 256 MiB; else it is made where it is needed.
KEPT = 2**25


class SoftmaxDual(Influence):
    """V = S + S Π C⁻¹ Πᵀ S with C = I − ΠᵀSΠ = LLᵀ: products take S and L, nothing of size nK × nK.

    Args:
        matrices: S_1 … S_K, each of shape (n, n).
        rank_one: c of all rows, each times the root of its weight, shape (n, K).
        intercept: Whether there are intercepts.
    """

    def __init__(
        self, matrices: Iterable[Tensor], rank_one: Tensor, intercept: bool = True
    ) -> None:
        n, count = rank_one.shape
        core = torch.eye(n, dtype=rank_one.dtype, device=rank_one.device)
        if intercept:  # softmax ignores a common intercept, so that I − ΠᵀSΠ is singular there
            blind = rank_one.sum(1)
            core += torch.outer(blind, blind) / (blind @ blind)
        self.matrices = rank_one.new_empty(count, n, n)  # S
        for k, (c, matrix) in enumerate(zip(rank_one.T, matrices, strict=True)):
            self.matrices[k] = matrix
            core.addcmul_(c.unsqueeze(1) * matrix, c, value=-1)
        self.arms = rank_one.T.unsqueeze(2)  # Π, shape (K, n, 1)
        self.factor = cholesky(core)  # L

    @cached_property
    def blocks(self) -> Tensor:
        """The diagonal blocks V_ii, shape (n, K, K)."""
        count, n, _ = self.matrices.shape
        blocks = torch.diag_embed(self.matrices.diagonal(dim1=1, dim2=2).T)
        for some in torch.split(torch.arange(n, device=blocks.device), max(1, PIECE // count)):
            half = self._half(some)
            blocks[some] += half @ half.mT
        return blocks

    @cached_property
    def _halves(self) -> Tensor | None:
        """What belongs to each row, if it may be kept."""
        count, n, _ = self.matrices.shape
        return self._solved(torch.arange(n)) if count * n * n <= KEPT else None

    def _half(self, rows: Tensor) -> Tensor:
        """(L⁻¹ΠᵀS)ᵀ of some rows, shape (s, K, n)."""
        return self._solved(rows) if self._halves is None else self._halves[rows]

    def _solved(self, rows: Tensor) -> Tensor:
        own = self.matrices[:, rows] * self.arms.mT
        half = own.transpose(0, 1).to(self.factor, memory_format=torch.contiguous_format, copy=True)
        flat = half.view(-1, half.shape[2])
        torch.linalg.solve_triangular(self.factor.T, flat, upper=True, left=False, out=flat)
        return half

    def _coupled(self, values: Tensor) -> Tensor:
        """Π C⁻¹ Πᵀ of values (K, n, s)."""
        solved = torch.cholesky_solve((self.arms * values).sum(0).to(self.factor), self.factor)
        return self.arms * solved.to(values)

    def __matmul__(self, values: Tensor) -> Tensor:
        own = values.to(self.matrices)
        return (self.matrices @ (own + self._coupled(self.matrices @ own))).to(values)

    def columns(self, rows: Tensor, values: Tensor, onto: Tensor | None = None) -> Tensor:
        """V_ji u_i of some rows i; see :meth:`Influence.columns`."""
        own = (self.matrices[:, rows] * values.T.unsqueeze(2).to(self.matrices)).mT
        coupled = self._coupled(own)
        if onto is not None:
            return (own[:, onto] + self.matrices[:, onto] @ coupled).to(values)
        return (self.matrices @ coupled).add_(own).to(values)

    def at(self, rows: Tensor, values: Tensor) -> Tensor:
        """(V u)_i of single rows; see :meth:`Influence.at`."""
        own = values.to(self.matrices)
        total = own + self._coupled(self.matrices @ own)
        return torch.einsum("ksn,kns->sk", self.matrices[:, rows], total).to(values)

    def between(self, rows: Tensor) -> Tensor:
        """V_ij for some rows; see :meth:`Influence.between`."""
        half = self._half(rows).flatten(0, 1)  # (sK, n)
        size, count = len(rows), len(self.matrices)
        blocks = (half @ half.T).view(size, count, size, count)
        some = self.matrices[:, rows.unsqueeze(1), rows]
        blocks.diagonal(dim1=1, dim2=3).add_(some.permute(1, 2, 0))
        return blocks

    def within(self, rows: Tensor) -> Callable[[Tensor], Tensor]:
        """Products of V between some rows; see :meth:`Influence.within`."""
        own = self.matrices[:, rows]  # (K, s, n)
        some = own[:, :, rows]

        def times(values: Tensor) -> Tensor:
            by_output = values.transpose(0, 1).to(own)
            coupled = self._coupled(own.mT @ by_output)
            return (some @ by_output).add_(own @ coupled).transpose(0, 1).to(values)

        return times

    def rough(self) -> SoftmaxDual:
        """The same with S in single precision, for products that take half the time.

        C is solved in double precision: it is nearly singular for a common move of all outputs.
        """
        other = copy(self)
        other.blocks = self.blocks  # these stay in double precision
        other.matrices, other.arms = self.matrices.float(), self.arms.float()
        return other


class SoftmaxPrimal(Influence):
    """V = J H⁻¹ Jᵀ with H⁻¹ itself, for any W_i."""

    def __init__(self, problem: Problem, curvature: Curvature) -> None:
        self.rows, self.one = problem.rows, float(problem.intercept)
        flat = self._hessian(problem, curvature)
        count = curvature.diagonal.shape[1]
        size = len(flat) // count
        self.inverse = torch.cholesky_inverse(cholesky(flat)).reshape(count, size, count, size)
        self._blocks = flat.new_empty(self.rows.here, count, count)
        for span, features in pieces(self.rows):
            phi = self._extended(features)
            for k in range(count):
                for m in range(k, count):
                    block = ((phi @ self.inverse[k, :, m]) * phi).sum(1)
                    self._blocks[span, k, m] = self._blocks[span, m, k] = block

    def _hessian(self, problem: Problem, curvature: Curvature) -> Tensor:
        """H, shape (K(r + 1), K(r + 1)), as one matrix."""
        rows, weights = problem.rows, problem.weights
        r, count = rows.d, curvature.diagonal.shape[1]
        hessian = rows.like.new_zeros(count, r + 1, count, r + 1)
        for span, features in pieces(rows):
            phi, matrices = self._extended(features), curvature.matrices(span)
            for k in range(count):
                for m in range(k, count):
                    scale = weights[span] * matrices[:, k, m]
                    hessian[k, :, m] += phi.T @ (scale.unsqueeze(1) * phi)
        hessian, sums = rows.total(hessian, weights.sum())
        total = float(sums)
        if curvature.rank_one is not None:  # softmax ignores a common shift of all outputs
            hessian[:, r, :, r] += total / count**2
        for k in range(count):
            hessian[k, :r, k, :r].diagonal().add_(problem.ridge)
            hessian[k, r, k, r] += 1e-12 * total if curvature.full is None else 1e-9 * total
            for m in range(k):
                hessian[k, :, m] = hessian[m, :, k].T
        return hessian.reshape(count * (r + 1), count * (r + 1))

    def _extended(self, features: Tensor) -> Tensor:
        """Features with a constant for the intercept, which is zero without one."""
        return torch.cat([features, torch.full_like(features[:, :1], self.one)], 1)

    def _solve(self, gradients: Tensor) -> Tensor:
        """H⁻¹ of gradients, both of shape (K, r + 1, s)."""
        return torch.einsum("kpmq,mqs->kps", self.inverse, gradients)

    def _backward(self, values: Tensor) -> Tensor:
        """H⁻¹Jᵀ of values (K, n, s): the parameters that they move, shape (K, r + 1, s)."""
        count, n, s = values.shape
        flat = self.rows.backward(values.transpose(1, 2).reshape(count * s, n))
        (sums,) = self.rows.total(values.sum(1, keepdim=True))
        back = flat.reshape(count, s, -1).transpose(1, 2)
        return self._solve(torch.cat([back, self.one * sums], 1))

    def _forward(self, parameters: Tensor) -> Tensor:
        """Outputs that parameters (K, r + 1, s) move, shape (K, n, s)."""
        count, _, s = parameters.shape
        flat = parameters[:, :-1].transpose(1, 2).reshape(count * s, -1)
        outputs = self.rows.forward(flat).reshape(count, s, -1).transpose(1, 2)
        return outputs + parameters[:, -1:]

    @property
    def blocks(self) -> Tensor:
        """The diagonal blocks V_ii, shape (n, K, K)."""
        return self._blocks

    def __matmul__(self, values: Tensor) -> Tensor:
        return self._forward(self._backward(values))

    def columns(self, rows: Tensor, values: Tensor, onto: Tensor | None = None) -> Tensor:
        """V_ji u_i of some rows i; see :meth:`Influence.columns`."""
        phi = self._extended(self.rows.take(rows)).T
        parameters = self._solve(values.T.unsqueeze(1) * phi)  # (K, r + 1, s)
        if onto is None:
            return self._forward(parameters)
        return self._extended(self.rows.gather(onto)) @ parameters

    def at(self, rows: Tensor, values: Tensor) -> Tensor:
        """(V u)_i of single rows; see :meth:`Influence.at`."""
        own = self._extended(self.rows.take(rows))
        return torch.einsum("sp,kps->sk", own, self._backward(values))

    def between(self, rows: Tensor) -> Tensor:
        """V_ij for some rows; see :meth:`Influence.between`."""
        phi = self._extended(self.rows.gather(rows))
        return torch.einsum("ip,kpmq,jq->ikjm", phi, self.inverse, phi)
