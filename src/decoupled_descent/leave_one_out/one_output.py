r"""S = Φ̃(Φ̃ᵀ diag(w b) Φ̃ + λ)⁻¹Φ̃ᵀ of one output: how fitted values move with the rows' gradients.

Φ̃ = (Φ, 1) are the features and an intercept that is not penalised, b the curvature of the loss in
this output, row by row, and w the weights of the rows.
:mod:`decoupled_descent.leave_one_out.influence` puts several outputs together.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.freed_memory import return_freed_memory
from decoupled_descent.rows.inputs import piece_size
from decoupled_descent.rows.tensors import TOO_LARGE

#: Rows are processed in pieces of this length.
CHUNK = 8192


class Part(ABC):
    """S of one output."""

    @abstractmethod
    def diagonal(self) -> Tensor:
        """S_ii, shape (n,)."""

    @abstractmethod
    def columns(self, rows: Tensor) -> Tensor:
        """S_ji for all rows j, shape (n, s)."""

    @abstractmethod
    def times(self, values: Tensor) -> Tensor:
        """S u, shape (n, s)."""

    @abstractmethod
    def dense(self) -> Tensor:
        """S, shape (n, n)."""

    @abstractmethod
    def at(self, values: Tensor, rows: Tensor) -> Tensor:
        """The i-th of some rows of S times the i-th column of u (n, s), shape (s,)."""

    def between(self, rows: Tensor) -> Tensor:
        """S among some rows, shape (s, s)."""
        return self.columns(rows)[rows]


class RidgePart(Part):
    """S from an r × r factor: nothing of size n × n, and no copy of the features."""

    def __init__(self, rows: Rows, diagonal: Tensor, ridge: float, intercept: bool = True) -> None:
        self.rows = rows
        total = float(rows.total(diagonal.sum())[0])
        self.level = 1 / total if intercept else 0.0  # what the intercept adds to S
        pulled = rows.backward(diagonal.unsqueeze(0))[0]
        self.centre = self.level * pulled  # centred features have no cross terms with the intercept
        hessian = rows.like.new_zeros(rows.d, rows.d)
        for span, features in pieces(rows):
            centred = features - self.centre
            hessian.addmm_(centred.T, diagonal[span].unsqueeze(1) * centred)
        (hessian,) = rows.total(hessian)
        hessian.diagonal().add_(ridge)
        self.factor = cholesky(hessian)

    def _half(self, features: Tensor) -> Tensor:
        """L⁻¹ of centred features, shape (r, s)."""
        centred = (features - self.centre).T
        half: Tensor = torch.linalg.solve_triangular(self.factor, centred, upper=False)
        return half

    def _spread(self, half: Tensor) -> Tensor:
        """Centred features times L⁻ᵀ of something, shape (n, s)."""
        solved = torch.linalg.solve_triangular(self.factor.T, half, upper=True)
        return self.rows.forward(solved.T.contiguous()).T.sub_(self.centre @ solved)

    def diagonal(self) -> Tensor:
        parts = [self._half(features).square().sum(0) for _, features in pieces(self.rows)]
        return torch.cat(parts) + self.level

    def columns(self, rows: Tensor) -> Tensor:
        return self._spread(self._half(self.rows.take(rows))).add_(self.level)

    def _pulled(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """L⁻¹ of centred features times values (n, s), and the sums of these."""
        (sums,) = self.rows.total(values.sum(0))
        pulled = self.rows.backward(values.T).T - torch.outer(self.centre, sums)
        return torch.linalg.solve_triangular(self.factor, pulled, upper=False), sums

    def times(self, values: Tensor) -> Tensor:
        half, sums = self._pulled(values)
        return self._spread(half).add_(self.level * sums)

    def at(self, values: Tensor, rows: Tensor) -> Tensor:
        half, sums = self._pulled(values)
        return (self._half(self.rows.take(rows)) * half).sum(0).add_(self.level * sums)

    def dense(self) -> Tensor:
        half = self._half(self.rows.X)
        return half.T @ half + self.level

    def between(self, rows: Tensor) -> Tensor:
        half = self._half(self.rows.gather(rows))
        return half.T @ half + self.level


class Dense(Part):
    """S itself."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix

    def diagonal(self) -> Tensor:
        return self.matrix.diagonal()

    def columns(self, rows: Tensor) -> Tensor:
        return self.matrix[:, rows]

    def times(self, values: Tensor) -> Tensor:
        return self.matrix @ values

    def at(self, values: Tensor, rows: Tensor) -> Tensor:
        return (self.matrix[:, rows] * values).sum(0)

    def dense(self) -> Tensor:
        return self.matrix


class KernelPart(Dense):
    """S from an n × n factor, for at least about as many features as rows."""

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
            pulled = inverse @ root
            inverse.addr_(pulled, pulled, alpha=-1 / float(root @ pulled))
        super().__init__(inverse.neg_().div_(root.unsqueeze(1)).div_(root))
        self.matrix.diagonal().add_(1 / diagonal)


def pieces(rows: Rows) -> Iterator[tuple[slice, Tensor]]:
    """Yield the rows of this process in pieces of at most ``CHUNK``, each with its place."""
    return rows.pieces(min(CHUNK, piece_size(rows.d)))


def cholesky(matrix: Tensor) -> Tensor:
    """Cholesky factor; if there is none, the diagonal is increased by as little as possible."""
    factor: Tensor
    return_freed_memory(matrix.nbytes)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    jitter = 1e-12 * float(matrix.diagonal().mean())
    if not 0 < jitter < math.inf:  # no jitter would ever be enough
        raise ValueError(TOO_LARGE)
    while int(failed):
        shifted = matrix.clone()
        shifted.diagonal().add_(jitter)
        factor, failed = torch.linalg.cholesky_ex(shifted)
        jitter *= 10
    return factor
