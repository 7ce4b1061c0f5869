r"""Gaussian expectations: quadrature rules, and sampled paths from a growing covariance."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from scipy.special import roots_hermitenorm
from scipy.stats import qmc
from torch import Tensor
from torch.nn.functional import pad

#: Innovations below this share of a block's variance are left out. Regressing on smooth histories
#: multiplies rounding by up to its inverse, so nothing below √ε could be told from noise.
RANK_TOLERANCE = 1e-8
#: Nodes of a product rule may be left out up to this total weight.
NEGLIGIBLE_MASS = 1e-13
#: Leading directions that get Sobol points; later ones explain next to nothing and get plain ones.
SOBOL_DIRECTIONS = 48


@functools.lru_cache(maxsize=32)
def hermite_rule(order: int) -> tuple[Tensor, Tensor]:
    r"""Gauss–Hermite rule for the standard normal law, exact up to degree 2·order − 1.

    .. math:: E[f(Z)] \approx \sum_q w_q f(z_q), \qquad Z \sim N(0, 1)

    Args:
        order: The number of nodes.

    Returns:
        Nodes and weights, shape (order,).

    Example:
        >>> nodes, weights = hermite_rule(5)
        >>> round(float(weights @ nodes**4), 12)
        3.0
    """
    if order < 1:
        raise ValueError(f"order={order} must be at least 1")
    nodes, weights = roots_hermitenorm(order)
    return torch.from_numpy(nodes), torch.from_numpy(weights / weights.sum())


def product_rule(width: int, order: int) -> tuple[Tensor, Tensor]:
    """Tensor-product Gauss–Hermite rule for N(0, I_L), without the corners that weigh nothing.

    For L > 1 nodes that together weigh less than 1e-13 are left out: most of them.

    Args:
        width: L.
        order: Nodes per coordinate.

    Returns:
        Nodes of shape (Q, L) and weights of shape (Q,), Q at most order^L.

    Example:
        >>> nodes, weights = product_rule(2, 3)
        >>> torch.allclose(nodes.T @ (weights.unsqueeze(1) * nodes), torch.eye(2).double())
        True
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
    r"""Orthonormal Hermite polynomials He_k(z)/√(k!), k < count.

    Args:
        nodes: z, shape (Q,).
        count: How many.

    Returns:
        Their values, shape (Q, count).

    Example:
        >>> hermite_basis(torch.tensor([2.0]), 3)
        tensor([[1.0000, 2.0000, 2.1213]])
    """
    columns = [torch.ones_like(nodes), nodes]
    for k in range(1, count - 1):
        columns.append((nodes * columns[k] - math.sqrt(k) * columns[k - 1]) / math.sqrt(k + 1))
    return torch.stack(columns[:count], 1)


def psd_root(matrix: Tensor) -> Tensor:
    """Symmetric square root of a positive semi-definite matrix, which may be singular.

    Args:
        matrix: Ω, shape (L, L); negative eigenvalues are rounding and become zero.

    Returns:
        The root, shape (L, L).

    Example:
        >>> psd_root(torch.tensor([[4.0, 0.0], [0.0, 0.0]]))
        tensor([[2., 0.],
                [0., 0.]])
    """
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    root: Tensor = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    return root


class BlockFactor:
    r"""Writes Gaussian blocks B_0, B_1, … in independent normals, one block row of Γ at a time.

    .. math:: B_t = \sum_{k \le K_t} A_{t,k} z_k, \qquad A A^\top = \Gamma

    Each block brings at most L new normals: those of its innovation, the part that the blocks
    before it do not explain. Smooth dynamics explain themselves almost entirely after a few steps
    (and repeated iterates do so exactly), so directions whose innovation is rounding are left out:
    Γ may be singular, and K_t stays far below t·L. The directions kept are the pivots of a
    Cholesky factor; solving with that triangle, rather than with its inverse, keeps A Aᵀ = Γ to
    rounding however ill-conditioned Γ is.

    Args:
        width: L.

    Example:
        >>> factor = BlockFactor(1)
        >>> first = factor.extend(torch.tensor([[4.0]], dtype=torch.float64))
        >>> factor.extend(torch.tensor([[2.0, 5.0]], dtype=torch.float64))
        tensor([[1., 2.]], dtype=torch.float64)
        >>> factor.extend(torch.tensor([[2.0, 5.0, 5.0]], dtype=torch.float64)), factor.rank
        (tensor([[1., 2.]], dtype=torch.float64), 2)
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.coefficients = torch.zeros(0, 0, dtype=torch.float64)  # A, (t L, K)
        self.pivots = torch.zeros(0, 0, dtype=torch.float64)  # directions kept, (t L, K)
        self.triangle = torch.zeros(0, 0, dtype=torch.float64)  # Cholesky factor, (K, K)

    @property
    def rank(self) -> int:
        """K: how many normals there are so far."""
        return len(self.triangle)

    def extend(self, row: Tensor) -> Tensor:
        """Add one block.

        Args:
            row: Cov(B_t, (B_0, …, B_t)), shape (L, (t + 1) L).

        Returns:
            A_t, shape (L, K_t).
        """
        past, own = row[:, : -self.width], row[:, -self.width :]
        explained = torch.linalg.solve_triangular(
            self.triangle, (past @ self.pivots).T, upper=False
        ).T
        innovation = own - explained @ explained.T
        values, vectors = torch.linalg.eigh((innovation + innovation.T) / 2)
        fresh = values > RANK_TOLERANCE * max(float(own.diagonal().max()), 1e-300)
        spread, axes = values[fresh].sqrt(), vectors[:, fresh]
        coefficients = torch.cat([explained, axes * spread], 1)
        self.coefficients = _corner(self.coefficients, coefficients)
        self.pivots = _corner(self.pivots, pad(axes, (self.rank, 0)))
        self.triangle = _corner(
            self.triangle, torch.cat([axes.T @ explained, torch.diag(spread)], 1)
        )
        return coefficients


def _corner(matrix: Tensor, rows: Tensor) -> Tensor:
    """Append rows that may be wider than the matrix, filling up with zeros."""
    return torch.cat([pad(matrix, (0, rows.shape[1] - matrix.shape[1])), rows])


class Normals:
    r"""Standard normals for M weighted paths, direction by direction.

    Scrambled Sobol points and their mirror images, orthonormalised: all odd moments vanish and
    all second moments are those of N(0, I) exactly, so that expectations of affine and of
    quadratic functions carry no sampling error. Every seed is an independent randomisation.

    Args:
        paths: M, a power of two, at least 4.
        directions: How many directions get Sobol points.
        seed: Of this randomisation.
        auxiliary: Extra Sobol coordinates for other uses, not mirrored.

    Example:
        >>> normals = Normals(64, directions=2, seed=0)
        >>> z = normals.columns(3)
        >>> torch.allclose(z @ z.T / 64, torch.eye(3).double()), float(z.sum().abs()) < 1e-12
        (True, True)
    """

    def __init__(self, paths: int, directions: int, seed: int, auxiliary: int = 0) -> None:
        if paths < 4 or paths & (paths - 1):
            raise ValueError(f"paths={paths} must be a power of two, at least 4")
        half = paths // 2
        directions = min(directions, SOBOL_DIRECTIONS)
        sobol = qmc.Sobol(auxiliary + directions, scramble=True, rng=np.random.default_rng(seed))
        points = torch.from_numpy(sobol.random_base2(half.bit_length() - 1)).T
        points = points.clamp(2.0**-33, 1 - 2.0**-33)  # ndtri stays finite at both ends
        self.auxiliary = points[:auxiliary]
        self.weights = torch.full((paths,), 1 / paths, dtype=torch.float64)
        self._generator = torch.Generator().manual_seed(seed)
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

        Args:
            weights: Of the paths in their new order, the same for mirror images; shape (M,).
        """
        order = torch.argsort(self.auxiliary[0])
        self.auxiliary, self.weights = self.auxiliary[:, order], weights
        self._raw = [column[order] for column in self._raw]

    def _append(self) -> None:
        """Make one more column: mirror it, and orthonormalise it against the earlier ones."""
        k, half = self._ready, len(self.weights) // 2
        if k < len(self._raw):
            drawn = self._raw[k]
        else:
            drawn = torch.randn(half, generator=self._generator, dtype=torch.float64)
        column = torch.cat([drawn, -drawn])
        earlier = self._columns[:k]
        if k < half // 2:  # beyond, there are too few paths to orthogonalise without distortion
            column -= (earlier @ (self.weights * column)) @ earlier
            column /= (self.weights @ column.square()).sqrt()
        if k == len(self._columns):
            self._columns = torch.cat([self._columns, torch.empty_like(self._columns[:8])])
        self._columns[k] = column
        self._ready += 1
