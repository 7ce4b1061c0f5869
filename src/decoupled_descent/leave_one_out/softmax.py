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

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.influence import BlockDiagonal, Influence
from decoupled_descent.leave_one_out.kernel import DenseInfluence
from decoupled_descent.leave_one_out.linear_algebra import cholesky, pieces
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective.second_order import Curvature


class SoftmaxDual(Influence):
    """V = S + QᵀQ, with Q = L⁻¹ΠᵀS and the Cholesky factor L of I − ΠᵀSΠ.

    Args:
        matrices: S_1 … S_K, each of shape (n, n).
        rank_one: c of all rows, each times the root of its weight, shape (n, K).
        intercept: Whether there are intercepts.
    """

    def __init__(
        self, matrices: Sequence[Tensor], rank_one: Tensor, intercept: bool = True
    ) -> None:
        self.diagonal = BlockDiagonal([DenseInfluence(matrix) for matrix in matrices])  # S
        n, count = rank_one.shape
        core = torch.eye(n, dtype=rank_one.dtype, device=rank_one.device)
        if intercept:  # softmax ignores a common intercept, so that I − ΠᵀSΠ is singular there
            blind = rank_one.sum(1)
            core += torch.outer(blind, blind) / (blind @ blind)
        for c, matrix in zip(rank_one.T, matrices, strict=True):
            core -= c.unsqueeze(1) * matrix * c
        factor = cholesky(core)
        self.coupling = rank_one.new_empty(count, n, n)  # Q
        for k, (c, matrix) in enumerate(zip(rank_one.T, matrices, strict=True)):
            scaled = c.unsqueeze(1) * matrix
            self.coupling[k] = torch.linalg.solve_triangular(factor, scaled, upper=False)
        self._blocks = self.diagonal.blocks.clone()
        for k, one in enumerate(self.coupling):
            coupled = [(one * other).sum(0) for other in self.coupling]
            self._blocks[:, k] += torch.stack(coupled, 1)

    @property
    def blocks(self) -> Tensor:
        """The diagonal blocks V_ii, shape (n, K, K)."""
        return self._blocks

    def _coupled(self, values: Tensor) -> Tensor:
        """Q u, shape (n, s), for u of shape (K, n, s)."""
        return _total(q @ u for q, u in zip(self.coupling, values, strict=True))

    def _coupled_rows(self, rows: Tensor, values: Tensor) -> Tensor:
        """Q_i u_i of some rows, shape (n, s), for u of shape (s, K)."""
        pairs = zip(self.coupling, values.T, strict=True)
        return _total(q[:, rows] * u for q, u in pairs)

    def __matmul__(self, values: Tensor) -> Tensor:
        return (self.diagonal @ values).add_(self.coupling.mT @ self._coupled(values))

    def columns(self, rows: Tensor, values: Tensor, onto: Tensor | None = None) -> Tensor:
        """V_ji u_i of some rows i; see :meth:`Influence.columns`."""
        coupling = self.coupling if onto is None else self.coupling[:, :, onto]
        coupled = coupling.mT @ self._coupled_rows(rows, values)
        return self.diagonal.columns(rows, values, onto).add_(coupled)

    def at(self, rows: Tensor, values: Tensor) -> Tensor:
        """(V u)_i of single rows; see :meth:`Influence.at`."""
        coupled = self._coupled(values)
        own = torch.stack([(q[:, rows] * coupled).sum(0) for q in self.coupling], 1)
        return self.diagonal.at(rows, values) + own

    def bilinear(self, rows: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """u_iᵀ V_ij v_j for some rows; see :meth:`Influence.bilinear`."""
        coupled = self._coupled_rows(rows, left).T @ self._coupled_rows(rows, right)
        return self.diagonal.bilinear(rows, left, right) + coupled

    def between(self, rows: Tensor) -> Tensor:
        """V_ij for some rows; see :meth:`Influence.between`."""
        coupling = self.coupling[:, :, rows].permute(1, 2, 0).flatten(1)  # (n, sK)
        blocks = self.diagonal.between(rows)
        return blocks + (coupling.T @ coupling).reshape(blocks.shape)


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


def _total(values: Iterator[Tensor]) -> Tensor:
    """Sum without a stacked copy of the terms."""
    total = next(values)
    for value in values:
        total = total + value
    return total
