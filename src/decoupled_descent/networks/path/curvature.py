r"""Systems of equations with the Gauss–Newton matrix A = BᵀB + ν I, and with rows left out of it.

B stacks the rows √w_j C_jᵀ J_j, with C_j C_jᵀ = W_j. The smaller of two systems is solved: P × P,
or nK × nK. The latter is the dual, for which

.. math:: A^{-1} v = (v - B^\top S^{-1} B v) / \nu, \qquad S = B B^\top + \nu I .
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor


class Members(NamedTuple):
    """Which rows of B belong to each group that is left out, padded to the same number."""

    places: Tensor  # shape (m, r), rows of B
    there: Tensor  # shape (m, r), False where ``places`` only fills up


class FactoredMatrix(ABC):
    """The matrix A, factorised."""

    @abstractmethod
    def solve(self, vector: Tensor) -> Tensor:
        """A⁻¹ v for one vector, shape (P,)."""

    @abstractmethod
    def solve_without(self, vectors: Tensor, members: Members) -> Tensor:
        r"""A₋ᵢ⁻¹ v_i for each group i and its own v_i, shape (m, P).

        .. math:: A_{-i}^{-1} = A^{-1} + A^{-1} B_i^\top (I - B_i A^{-1} B_i^\top)^{-1} B_i A^{-1}
        """

    @abstractmethod
    def leverages(self, members: Members) -> Tensor:
        """B_i A⁻¹ B_iᵀ of each group, in float64, shape (m, r, r)."""


class Dual(FactoredMatrix):
    """By the nK × nK matrix S, which is factorised in float64."""

    def __init__(self, rows: Tensor, products: Tensor, nu: float) -> None:
        self.rows, self.nu = rows, nu
        system = products.clone()
        system.diagonal().add_(nu)
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky(system))

    def solve(self, vector: Tensor) -> Tensor:
        """A⁻¹ v."""
        weights = self.inverse @ (self.rows @ vector).double()
        return (vector - weights.to(vector) @ self.rows) / self.nu

    def solve_without(self, vectors: Tensor, members: Members) -> Tensor:
        """A₋ᵢ⁻¹ v_i: the rows of group i are struck out of S, as I − B_i A⁻¹ B_iᵀ = ν (S⁻¹)_ii."""
        products = (self.rows @ vectors.T).double()  # B v_i in column i
        weights = self.inverse @ products
        index, there = members
        own = weights.T.gather(1, index) * there
        blocks = _pairs(self.inverse, index)
        factor = torch.linalg.solve(_filled(blocks, there), own.unsqueeze(2)).squeeze(2)
        scale = 1 / self.nu
        weights = weights.T - self._struck(index, factor * there)
        return vectors.addmm(weights.to(vectors), self.rows, beta=scale, alpha=-scale)

    def leverages(self, members: Members) -> Tensor:
        """I − ν (S⁻¹)_ii; zero where a block only fills up."""
        index, there = members
        blocks = torch.eye(index.shape[1]).to(self.inverse) - self.nu * _pairs(self.inverse, index)
        return blocks * (there.unsqueeze(2) & there.unsqueeze(1))

    def _struck(self, index: Tensor, factor: Tensor) -> Tensor:
        """S⁻¹ times a vector for each group that is zero but at its own rows, shape (m, nK)."""
        if index.numel() <= 2 * len(self.inverse):  # else groups are padded to a large one
            return torch.bmm(factor.unsqueeze(1), self.inverse[index]).squeeze(1)
        full = factor.new_zeros(len(index), len(self.inverse)).scatter_add_(1, index, factor)
        return full @ self.inverse


class Primal(FactoredMatrix):
    """By A itself, in float64."""

    def __init__(self, matrix: Tensor, rows: Tensor, nu: float) -> None:
        system = matrix.clone()
        system.diagonal().add_(nu)
        self.factor, self.rows = torch.linalg.cholesky(system), rows

    def solve(self, vector: Tensor) -> Tensor:
        """A⁻¹ v."""
        return self._solve(vector.unsqueeze(0))[0].to(vector)

    def _solve(self, vectors: Tensor) -> Tensor:
        result: Tensor = torch.cholesky_solve(vectors.double().T, self.factor).T
        return result

    def solve_without(self, vectors: Tensor, members: Members) -> Tensor:
        """A₋ᵢ⁻¹ v_i by Sherman–Morrison–Woodbury, a few groups at a time."""
        parts = []
        for span, own, spread, leverage in self._of_groups(members):
            solved, there = self._solve(vectors[span]), members.there[span]
            influenced = (own @ solved.unsqueeze(2)) * there.unsqueeze(2)
            blocks = torch.eye(own.shape[1]).to(own) - leverage
            factor = torch.linalg.solve(blocks, influenced)
            parts.append((solved + (spread.mT @ factor).squeeze(2)).to(vectors))
        return torch.cat(parts)

    def leverages(self, members: Members) -> Tensor:
        """B_i A⁻¹ B_iᵀ, a few groups at a time."""
        return torch.cat([leverage for *_, leverage in self._of_groups(members)])

    def _of_groups(self, members: Members) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
        """B_i, B_i A⁻¹ and B_i A⁻¹ B_iᵀ of some groups after others."""
        chunk = max(1, 2**22 // (members.places.shape[1] * self.rows.shape[1]))
        for first in range(0, len(members.places), chunk):
            span = slice(first, first + chunk)
            own = self.rows[members.places[span]].double() * members.there[span].unsqueeze(2)
            spread = self._solve(own.flatten(0, 1)).reshape(own.shape)
            yield span, own, spread, own @ spread.mT


def _pairs(matrix: Tensor, index: Tensor) -> Tensor:
    """The block of each group, shape (m, r, r)."""
    return matrix[index.unsqueeze(2), index.unsqueeze(1)]


def _filled(blocks: Tensor, there: Tensor) -> Tensor:
    """Put the identity where a block only fills up."""
    pairs = there.unsqueeze(2) & there.unsqueeze(1)
    identity = torch.eye(there.shape[1]).to(blocks)
    return torch.where(pairs, blocks, identity)


class Parts(NamedTuple):
    """What is needed to factorise A for any ν."""

    rows: Tensor  # B
    products: Tensor  # BBᵀ or BᵀB, in float64
    dual: bool
    scale: float  # the sum of squares of B

    def with_damping(self, nu: float) -> FactoredMatrix:
        """A for this ν."""
        return (Dual if self.dual else Primal)(*self._ordered(), nu)

    def _ordered(self) -> tuple[Tensor, Tensor]:
        return (self.rows, self.products) if self.dual else (self.products, self.rows)


def assemble(blocks: Iterator[Tensor], dual: bool) -> Parts:
    """Make the products of B, whose rows come in blocks of shape (b, K, P)."""
    rows = torch.cat([block.flatten(0, 1) for block in blocks])
    products = (rows @ rows.T if dual else rows.T @ rows).double()
    return Parts(rows, products, dual, float(products.diagonal().sum()))
