r"""The influence of rows on one output, by an n × n matrix: for at least about as many features.

With the Gram matrix G = ΦΦᵀ and D = diag(w b), the matrix of :mod:`.ridge` is

.. math:: S = D^{-1} - D^{-1/2} (I + D^{1/2} G D^{1/2} / \lambda)^{-1} D^{-1/2},

with a further term for the intercept, which is not penalised.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.influence import Influence
from decoupled_descent.leave_one_out.linear_algebra import cholesky


class DenseInfluence(Influence):
    """S of one output as a matrix, shape (n, n)."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix

    @cached_property
    def blocks(self) -> Tensor:
        """S_ii, shape (n, 1, 1)."""
        return self.matrix.diagonal().reshape(-1, 1, 1)

    def __matmul__(self, values: Tensor) -> Tensor:
        return (self.matrix @ values[0]).unsqueeze(0)

    def columns(self, rows: Tensor, values: Tensor, onto: Tensor | None = None) -> Tensor:
        """V_ji u_i of some rows i; see :meth:`Influence.columns`."""
        matrix = self.matrix[:, rows] if onto is None else self.matrix[onto.unsqueeze(1), rows]
        return matrix.mul_(values[:, 0]).unsqueeze(0)

    def at(self, rows: Tensor, values: Tensor) -> Tensor:
        """(V u)_i of single rows; see :meth:`Influence.at`."""
        return (self.matrix[:, rows] * values[0]).sum(0).unsqueeze(1)

    def between(self, rows: Tensor) -> Tensor:
        """V_ij for some rows; see :meth:`Influence.between`."""
        return self.matrix[rows.unsqueeze(1), rows][:, None, :, None]

    def dense(self) -> Tensor:
        """S itself, shape (n, n)."""
        return self.matrix


class KernelInfluence(DenseInfluence):
    """S from an n × n factor.

    Args:
        gram: ΦΦᵀ, shape (n, n).
        diagonal: w b, shape (n,), positive.
        ridge: λ.
        intercept: Whether there is one.
    """

    def __init__(
        self, gram: Tensor, diagonal: Tensor, ridge: float, intercept: bool = True
    ) -> None:
        root = diagonal.sqrt()
        system = (gram / ridge).mul_(root.unsqueeze(1)).mul_(root)
        system.diagonal().add_(1.0)
        factor = cholesky(system)
        del system
        inverse = torch.cholesky_inverse(factor)
        del factor
        if intercept:  # not penalised
            mean = inverse @ root
            inverse.addr_(mean, mean, alpha=-1 / float(root @ mean))
        super().__init__(inverse.neg_().div_(root.unsqueeze(1)).div_(root))
        self.matrix.diagonal().add_(1 / diagonal)
