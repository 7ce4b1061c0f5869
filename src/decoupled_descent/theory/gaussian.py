r"""Gaussian expectations: quadrature rules, and sampled paths from a growing covariance."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from scipy.special import roots_hermitenorm
from torch import Tensor

#: Added to the diagonal of a Gram matrix, as a share of each block's variance. It is larger than
#: rounding errors, which regression on a smooth history amplifies, and too small to matter
#: otherwise.
JITTER = 1e-13
#: A direction with a smaller share of an iterate's variance than this gets no separate normal.
NEGLIGIBLE_VARIANCE = 1e-10
#: Nodes of a product rule may be left out up to this total weight.
NEGLIGIBLE_MASS = 1e-13
#: Number of leading directions with Sobol points. Later ones have hardly any variance and get
#: pseudo-random points.
SOBOL_DIRECTIONS = 128


@functools.lru_cache(maxsize=32)
def hermite_rule(order: int) -> tuple[Tensor, Tensor]:
    r"""Return nodes and weights of a Gauss–Hermite rule, exact up to degree 2·order − 1.

    .. math:: E[f(Z)] \approx \sum_q w_q f(z_q), \qquad Z \sim N(0, 1)
    """
    if order < 1:
        raise ValueError(f"order={order} must be at least 1")
    nodes, weights = roots_hermitenorm(order)
    return torch.from_numpy(nodes), torch.from_numpy(weights / weights.sum())


def product_rule(width: int, order: int) -> tuple[Tensor, Tensor]:
    """Return nodes (Q, L) and weights (Q,) of a product rule for N(0, I_L), Q at most order^L.

    For L > 1 most nodes are left out: those with a total weight below 1e-13.
    """
    nodes, weights = hermite_rule(order)
    grid = torch.cartesian_prod(*[nodes] * width).reshape(-1, width)
    masses = torch.cartesian_prod(*[weights] * width).reshape(-1, width).prod(1)
    if width == 1:
        return grid, masses
    ranked, order_of = masses.sort()
    kept = order_of[ranked.cumsum(0) > NEGLIGIBLE_MASS].sort().values
    return grid[kept], masses[kept] / masses[kept].sum()


def hermite_basis(nodes: Tensor, count: int) -> Tensor:
    r"""Return orthonormal Hermite polynomials He_k(z)/√(k!) for k < count, shape (Q, count)."""
    columns = [torch.ones_like(nodes), nodes]
    for k in range(1, count - 1):
        columns.append((nodes * columns[k] - math.sqrt(k) * columns[k - 1]) / math.sqrt(k + 1))
    return torch.stack(columns[:count], 1)


def psd_root(matrix: Tensor) -> Tensor:
    """Return the symmetric root of a positive semi-definite matrix, which may be singular."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    root: Tensor = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    return root


class BlockFactor:
    r"""Cholesky factor of a growing Gram matrix Γ, one block row at a time.

    .. math:: B_t = \sum_{s \le t} A_{t,s} z_s, \qquad A A^\top = \Gamma + \text{jitter}

    After a few steps of smooth dynamics a new block is almost a combination of the earlier ones
    (and for repeated iterates it is): Γ is nearly singular. Every block therefore gets a share
    ``JITTER`` of its variance on top, which keeps the triangle solvable.
    """

    def __init__(self, width: int, blocks: int) -> None:
        self.width, self.size = width, 0
        self._triangle = torch.zeros(blocks * width, blocks * width, dtype=torch.float64)

    @property
    def triangle(self) -> Tensor:
        """A so far, lower triangular, shape (t L, t L)."""
        return self._triangle[: self.size, : self.size]

    def extend(self, row: Tensor) -> Tensor:
        """Add a block with Cov(B_t, (B_1, …, B_t)), shape (L, t L); return A_t, of that shape."""
        past, own = row[:, : self.size], row[:, self.size :]
        explained = torch.linalg.solve_triangular(self.triangle, past.T, upper=False).T
        jitter = JITTER * max(float(own.diagonal().max()), 1e-200)
        values, vectors = torch.linalg.eigh(own - explained @ explained.T)
        # only rounding makes eigenvalues negative
        innovation = (vectors * (values + jitter).clamp(min=0.1 * jitter)) @ vectors.T
        now = slice(self.size, self.size + self.width)
        self._triangle[now, : self.size] = explained
        self._triangle[now, now] = torch.linalg.cholesky(innovation)
        self.size += self.width
        return self._triangle[now, : self.size]


class Paths:
    """Samples of combinations of Gaussian blocks with a growing Gram matrix.

    The combinations wanted, one per step, are similar. An orthonormal basis of their span is kept,
    one normal per direction, and grows only by new directions: for smooth dynamics far fewer than
    t·L.
    """

    def __init__(self, width: int, blocks: int, normals: Normals) -> None:
        self.factor, self.normals = BlockFactor(width, blocks), normals
        self._basis = torch.zeros(0, blocks * width, dtype=torch.float64)

    @property
    def rank(self) -> int:
        """How many normals were needed so far."""
        return len(self._basis)

    def combine(self, own: Tensor, gram: Tensor) -> Tensor:
        """Add a block, and sample a linear combination of all blocks so far, shape (L, M).

        The combination and the last block row of the Gram matrix have shape (L, t L).
        """
        self.factor.extend(gram)
        wanted = own @ self.factor.triangle
        basis = self._basis[:, : self.factor.size]
        coefficients = wanted @ basis.T
        rest = wanted - coefficients @ basis
        rest -= (rest @ basis.T) @ basis  # a second time, against rounding errors
        values, vectors = torch.linalg.eigh(rest @ rest.T)
        fresh = values > NEGLIGIBLE_VARIANCE * float(wanted.square().sum(1).max())
        spread, axes = values[fresh].sqrt(), vectors[:, fresh]
        directions = torch.zeros(len(spread), self._basis.shape[1], dtype=torch.float64)
        directions[:, : self.factor.size] = (axes / spread).T @ rest
        self._basis = torch.cat([self._basis, directions])
        return torch.cat([coefficients, axes * spread], 1) @ self.normals.columns(self.rank)


class Normals:
    """Standard normals for M weighted paths, direction by direction.

    Scrambled Sobol points and their mirror images, orthonormalised: all odd moments vanish and
    all second moments are those of N(0, I) exactly, so that expectations of affine and of
    quadratic functions carry no sampling error. Every seed is an independent randomisation; M is a
    power of two. ``auxiliary`` further Sobol coordinates are not mirrored, and ``generator`` draws
    everything else.
    """

    def __init__(self, paths: int, directions: int, seed: int, auxiliary: int = 0) -> None:
        from scipy.stats import qmc  # slow to import, and seldom needed

        if paths < 4 or paths & (paths - 1):
            raise ValueError(f"paths={paths} must be a power of two, at least 4")
        half = paths // 2
        directions = min(directions, SOBOL_DIRECTIONS)
        sobol = qmc.Sobol(auxiliary + directions, scramble=True, rng=np.random.default_rng(seed))
        points = torch.from_numpy(sobol.random_base2(half.bit_length() - 1)).T
        points = points.clamp(2.0**-33, 1 - 2.0**-33)  # ndtri stays finite at both ends
        self.auxiliary = points[:auxiliary]
        self.weights = torch.full((paths,), 1 / paths, dtype=torch.float64)
        self.generator = torch.Generator().manual_seed(seed)
        self._raw = list(torch.special.ndtri(points[auxiliary:]))
        self._columns = torch.empty(directions, paths, dtype=torch.float64)
        self._ready = 0

    def columns(self, count: int) -> Tensor:
        """Return the normals of the first ``count`` directions, shape (count, M)."""
        while self._ready < count:
            self._append()
        return self._columns[:count]

    def sort(self, weights: Tensor) -> None:
        """Order the paths by the first auxiliary coordinate, before any column is made.

        The weights, shape (M,), are those of the new order, the same for mirror images.
        """
        order = torch.argsort(self.auxiliary[0])
        self.auxiliary, self.weights = self.auxiliary[:, order], weights
        self._raw = [column[order] for column in self._raw]

    def mirrored(self, k: int) -> Tensor:
        """Return the normals of direction k and their mirror images, as drawn, shape (M,)."""
        if k < len(self._raw):
            drawn = self._raw[k]
        else:
            half = len(self.weights) // 2
            drawn = torch.randn(half, generator=self.generator, dtype=torch.float64)
        return torch.cat([drawn, -drawn])

    def _append(self) -> None:
        """Make one more column, and orthonormalise it against the earlier ones."""
        k, half = self._ready, len(self.weights) // 2
        column = self.mirrored(k)
        earlier = self._columns[:k]
        if k < half // 2:  # with more columns there are too few paths to orthogonalise well
            column -= (earlier @ (self.weights * column)) @ earlier
            column /= (self.weights @ column.square()).sqrt()
        if k == len(self._columns):
            self._columns = torch.cat([self._columns, torch.empty_like(self._columns[:8])])
        self._columns[k] = column
        self._ready += 1
