r"""Approximate inverses of the Hessian of a Newton step, for its conjugate gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.linear_algebra import cholesky, pieces
from decoupled_descent.leave_one_out.minimum import distinct, is_dual
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective.second_order import Curvature

#: This many leading features are preconditioned jointly; features are sorted, largest first.
LEAD = 512
#: The same for softmax. There the terms between classes slow conjugate gradients down, more than
#: those between features: on 400 rows and 40 classes 64 features took as many steps as 400, in a
#: 20th of the time.
SOFTMAX_LEAD = 64
#: For softmax, the preconditioner leaves out rows whose curvature in a class, times the row's
#: kernel, is below this. On average a third of the rows is left with ten classes. Conjugate
#: gradients take a few more steps, and a Newton step takes half the time.
SMALL = 0.3

#: An approximate H⁻¹ of parameters (θ, b), shape (K, d + 1).
Precondition = Callable[[Tensor], Tensor]


def precondition(problem: Problem, curvature: Curvature) -> Precondition:
    """H⁻¹, exactly or roughly, by whichever matrices are smaller."""
    dual = is_dual(problem.rows) and curvature.full is None
    return (KernelPreconditioner if dual else LeadingFeatures)(problem, curvature)


class LeadingFeatures:
    """An approximate H⁻¹, class by class: a block for the first features, a diagonal otherwise.

    For softmax, P D⁻¹ P with P = I − 11ᵀ/K is the pseudo-inverse of D − ppᵀ.
    """

    def __init__(self, problem: Problem, curvature: Curvature) -> None:
        rows, ridge = problem.rows, problem.ridge
        self.coupled = curvature.rank_one is not None
        self.size = size = min(SOFTMAX_LEAD if self.coupled else LEAD, rows.d)
        weighted = distinct(rows, problem.weighted_diagonal(curvature))
        count = len(weighted)
        lead = weighted.new_zeros(count, size, size)
        diagonal = weighted.new_zeros(count, rows.d - size)
        for span, X in pieces(rows):
            top, weights = X[:, :size], weighted[:, span]
            diagonal.addmm_(weights, X[:, size:].square())
            for own, row in zip(lead, weights, strict=True):
                own.addmm_(top.T, row.unsqueeze(1) * top)
        lead, diagonal, level = rows.total(lead, diagonal, weighted.sum(1, keepdim=True))
        self.diagonal = torch.cat([diagonal + ridge, level + 1e-6 * float(rows.n)], 1)
        lead.diagonal(dim1=1, dim2=2).add_(ridge)
        self.lead = torch.stack([torch.cholesky_inverse(cholesky(own)) for own in lead])

    def __call__(self, beta: Tensor) -> Tensor:
        """H⁻¹ of parameters, roughly."""
        beta = beta - beta.mean(0) if self.coupled else beta
        top = beta[:, : self.size].unsqueeze(2)
        lead = (self.lead @ top).squeeze(2)
        solved = torch.cat([lead, beta[:, self.size :] / self.diagonal], 1)
        return solved - solved.mean(0) if self.coupled else solved


class KernelPreconditioner:
    r"""H⁻¹ by n × n matrices, without rows of little curvature.

    With the kernel G = ΦΦᵀ/λ + 11ᵀ/ε and W = D − DR(RᵀDR)⁻¹RᵀD,

    .. math:: H^{-1} = H_0^{-1} - H_0^{-1}\tilde\Phi^\top (W^{-1} + G)^{-1} \tilde\Phi H_0^{-1},
       \qquad (W^{-1} + G)^{-1} = E - E R\,(\textstyle\sum_k E_k)^{-1} R^\top E,

    H₀ = diag(λ, ε), E_k = (D_k⁻¹ + G)⁻¹ and R the sum over outputs. Losses that are a sum over
    outputs have the first term only. For softmax, entries of D with D_ik G_ii < ``SMALL`` are set
    to zero. E_k then has no more rows than class k needs.
    """

    def __init__(self, problem: Problem, curvature: Curvature) -> None:
        rows, ridge, weighted = problem.rows, problem.ridge, problem.weighted_diagonal(curvature)
        self.X = rows.X
        tiny = 1e-6 * float(rows.n) if problem.intercept else math.inf
        self.penalty = rows.like.new_tensor([ridge] * rows.d + [tiny])
        gram = rows.products / ridge
        sizes = weighted * gram.diagonal()
        coupled = curvature.rank_one is not None
        small = sizes.amax(1, keepdim=True).clamp_max(SMALL if coupled else 0.0)
        gram += 1 / tiny
        self.parts = [
            _Inverse(own.nonzero().squeeze(1), row, gram, coupled)
            for own, row in zip(sizes >= small, distinct(rows, weighted), strict=False)
        ]
        self.parts *= len(weighted) // len(self.parts)
        self.joint = _joint(self.parts, len(gram)) if coupled else None

    def __call__(self, beta: Tensor) -> Tensor:
        """H⁻¹ of parameters."""
        beta = beta / self.penalty
        outputs = beta[:, :-1] @ self.X.T + beta[:, -1:]  # (K, n)
        pulled = torch.zeros_like(outputs)
        for own, row, part in zip(pulled, outputs, self.parts, strict=True):
            own[part.index] = part.times(row[part.index])
        if self.joint is not None:
            shared = torch.cholesky_solve(pulled.sum(0).unsqueeze(1), self.joint).squeeze(1)
            for own, part in zip(pulled, self.parts, strict=True):
                own[part.index] -= part.times(shared[part.index])
        back = torch.cat([pulled @ self.X, pulled.sum(1, keepdim=True)], 1)
        return beta - back / self.penalty


class _Inverse:
    """E_k of some rows: by a Cholesky factor of I + D^½ G D^½, or the matrix itself.

    The matrix is for many products, and for a sum over outputs.
    """

    def __init__(self, index: Tensor, curvature: Tensor, gram: Tensor, dense: bool) -> None:
        self.index, self.root = index, curvature[index].sqrt()
        few = len(index) < len(gram)
        inner = gram[index.unsqueeze(1), index].mul_(self.root) if few else gram * self.root
        inner.mul_(self.root.unsqueeze(1)).diagonal().add_(1.0)
        self.dense, self.matrix = dense, cholesky(inner)  # the factor, or E_k
        if dense:
            inverse = torch.cholesky_inverse(self.matrix)
            self.matrix = inverse.mul_(self.root.unsqueeze(1)).mul_(self.root)

    def times(self, values: Tensor) -> Tensor:
        """E_k of values of these rows, shape (s,)."""
        if self.dense:
            return self.matrix @ values
        solved = torch.cholesky_solve((self.root * values).unsqueeze(1), self.matrix)
        return self.root * solved.squeeze(1)


def _joint(parts: Sequence[_Inverse], n: int) -> Tensor:
    """The factor of Σ_k E_k; rows that are in no E_k do not matter."""
    total = parts[0].root.new_zeros(n, n)
    for part in parts:
        total[part.index.unsqueeze(1), part.index] += part.matrix
    total.diagonal()[total.diagonal() == 0] = 1.0
    return cholesky(total)
