r"""Products with the noise Z of rows that are used again and again.

Z is drawn only as far as a method uses it. The product Zθ or Zᵀĥ is known for directions that were
used before; for new directions it is fresh Gaussian noise. This is exact for finite n and d.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from decoupled_descent.theory.gaussian import Normals
from decoupled_descent.theory.populations import Population

#: A direction is new if more than this share of its length is outside the span of the known ones.
NEW = 1e-11


class Basis:
    """Orthonormal vectors for a weighted inner product, a growing number of them."""

    def __init__(self, weights: Tensor, size: int) -> None:
        self.weights, self.count = weights, 0
        self._vectors = torch.empty(size, len(weights), dtype=torch.float64)

    @property
    def vectors(self) -> Tensor:
        """The vectors so far, shape (count, N)."""
        return self._vectors[: self.count]

    def coefficients(self, rows: Tensor) -> Tensor:
        """Inner products of rows with the vectors, shape (L, count)."""
        return (rows * self.weights) @ self.vectors.T

    def rest(self, rows: Tensor) -> Tensor:
        """The part of rows outside the span; computed twice, against rounding errors."""
        for _ in range(2):
            rows = rows - self.coefficients(rows) @ self.vectors
        return rows

    def add(self, rows: Tensor) -> Tensor:
        """Add the directions in which rows leave the span; return them, shape (at most L, N)."""
        before = self.count
        for row, rest in zip(rows, self.rest(rows), strict=True):
            added = self._vectors[before : self.count]
            for _ in range(2):
                rest = rest - added @ (self.weights * rest) @ added
            length = float((self.weights @ rest.square()).sqrt())
            if length > NEW * float((self.weights @ row.square()).sqrt()):
                self._vectors[self.count] = rest / length
                self.count += 1
        return self._vectors[before : self.count]


class ReusedNoise:
    r"""Products with Z, an n × d matrix of independent N(0, 1/d) entries, for d = ∞.

    With ⟨u, u'⟩ the weighted mean over paths, (x, x') = xᵀx'/d, orthonormal v_a with known
    y_a = Z v_a and orthonormal u_b with known w_b = Zᵀu_b, a new direction has

    .. math:: Zv = \textstyle\sum_b u_b\,(w_b, v)/\alpha + z, \qquad
              Z^\top u = \textstyle\sum_a v_a\,\alpha\langle y_a, u\rangle + \sqrt\alpha\,e

    with fresh normals z, orthogonal to all u_b, and a fresh unit vector e. The normals are also
    made orthogonal to each other and to functions of the mode and the response, as they are in the
    limit. So linear functions of them have no sampling error.
    """

    def __init__(
        self,
        population: Population,
        normals: Normals,
        ratio: float,
        coordinates: Tensor,
        rank: int,
    ) -> None:
        paths, weights = len(population.weights), population.weights
        self.ratio, self.normals, self.used = ratio, normals, 0
        side = _side_information(population)
        frame = len(side) + 2 * rank
        if 2 * frame > paths:
            raise ValueError(
                f"paths={paths} are too few for this many steps, units and modes; use at least "
                f"{1 << (2 * frame - 1).bit_length()}"
            )
        self.right = Basis(coordinates, rank)
        self.left, self.frame = Basis(weights, rank), Basis(weights, frame)
        self.forward = torch.empty(rank, paths, dtype=torch.float64)  # y_a
        self.backward = torch.zeros(rank, len(coordinates), dtype=torch.float64)  # w_b
        self.frame.add(side)

    def multiply(self, rows: Tensor) -> Tensor:
        """Return (Zxᵀ)ᵀ for rows x in coordinates, shape (L, M)."""
        new = self.right.add(rows)
        coefficients = (new * self.right.weights) @ self.backward[: self.left.count].T / self.ratio
        images = coefficients @ self.left.vectors + self._fresh(len(new))
        self.forward[self.right.count - len(new) : self.right.count] = images
        return self.right.coefficients(rows) @ self.forward[: self.right.count]

    def multiply_transposed(self, rows: Tensor, fresh: Tensor) -> Tensor:
        """Return Zᵀu for functions u of the paths, rows (L, M), in coordinates.

        ``fresh`` has unit vectors orthogonal to all that was seen, one for every row.
        """
        new = self.left.add(rows)
        self.frame.add(new)
        coefficients = (new * self.left.weights) @ self.forward[: self.right.count].T * self.ratio
        images = coefficients @ self.right.vectors + math.sqrt(self.ratio) * fresh[: len(new)]
        self.backward[self.left.count - len(new) : self.left.count] = images
        return self.left.coefficients(rows) @ self.backward[: self.left.count]

    def _fresh(self, count: int) -> Tensor:
        """Normals orthogonal to everything that was seen on the paths, shape (count, M)."""
        drawn = [self.normals.mirrored(self.used + k) for k in range(count)]
        self.used += count
        if not count:
            return self.frame.vectors[:0]
        added = self.frame.add(torch.stack(drawn))
        assert len(added) == count
        return added


def _side_information(population: Population) -> Tensor:
    """Indicators of the modes, and the responses within each, shape (2 J, M)."""
    members = population.modes == torch.arange(population.total).unsqueeze(1)
    responses = members * population.responses
    return torch.cat([members.double(), responses])
