r"""Kernel functions on scaled rows, from distances and products that all kernels share.

Notation: r² is the squared Euclidean distance of two rows divided by its mean over pairs of
training rows, r₁ the same for the L1 distance, and p their inner product divided by the mean
squared norm. A kernel of scale s = 1 therefore has the width of the data, in any dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.rows.tensors import as_tensor

#: Squared distances below this share of the squared norms are rounding: the rows are the same.
SAME = 1e-14
#: Eigenvalues and asymmetries below this share of the largest are rounding.
ROUNDING = 1e-8

OwnKernel = Callable[[Tensor, Tensor], Any]


class Units(NamedTuple):
    """Means over pairs of training rows: the squared distance, and the L1 distance."""

    squared: float
    l1: float

    @classmethod
    def of(cls, A: Tensor, weights: Tensor) -> Units:
        r"""Measure scaled rows A, shape (n, d), of positive weight.

        The mean squared distance is 2 Σ_j var_j. The mean absolute difference of a column is
        2 ∫F(1 − F) with its distribution function F, by sorting.
        """
        share = weights / weights.sum()
        squared = l1 = 0.0
        for part in torch.split(A, 64, 1):  # sorting all columns takes several copies of A
            squared += 2 * float((share @ (part - share @ part).square_()).sum())
            values, order = part.sort(0)
            below = share[order].cumsum(0)[:-1]
            l1 += 2 * float((below * (1 - below) * values.diff(dim=0)).sum())
        return cls(squared, l1)


class Geometry:
    """Distances and products between rows A and rows B, each computed once, when first used.

    Args:
        A: Scaled rows, shape (a, d).
        B: Scaled rows, shape (b, d).
        units: The scales that distances and products are divided by.

    Example:
        >>> A = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
        >>> geometry = Geometry(A, A, Units.of(A, torch.ones(2).double()))
        >>> KERNELS["rbf"](geometry, 1.0)  # half of the pairs have distance 0, so r² = 2 or 0
        tensor([[1.0000, 0.3679], [0.3679, 1.0000]], dtype=torch.float64)
    """

    def __init__(self, A: Tensor, B: Tensor, units: Units) -> None:
        self.A, self.B, self.units = A, B, units

    @cached_property
    def products(self) -> Tensor:
        """p: inner products over the mean squared norm."""
        return (self.A @ self.B.T).mul_(2 / self.units.squared)

    @cached_property
    def norms(self) -> tuple[Tensor, Tensor]:
        """Squared norms of the rows of A and of B over the mean squared norm."""
        factor = 2 / self.units.squared
        return self.A.square().sum(1) * factor, self.B.square().sum(1) * factor

    @cached_property
    def squared(self) -> Tensor:
        """r²: squared distances over their mean; exactly 0 between equal rows."""
        a, b = self.norms
        size = a[:, None] + b
        squared = torch.sub(size, self.products, alpha=2)
        return squared.masked_fill_(squared < SAME * size, 0).mul_(0.5)

    @cached_property
    def distances(self) -> Tensor:
        """The distances r over the root of their mean square."""
        return self.squared.sqrt()

    @cached_property
    def l1(self) -> Tensor:
        """r₁: L1 distances over their mean."""
        distances: Tensor = torch.cdist(self.A, self.B, p=1.0)
        return distances.div_(self.units.l1)


def linear(g: Geometry, scale: float = 1.0) -> Tensor:  # noqa: ARG001
    """The product p; the scale has no effect."""
    return g.products


def rbf(g: Geometry, scale: float) -> Tensor:
    """exp(−r²/(2s²))."""
    return torch.exp(g.squared / (-2 * scale**2))


def matern(g: Geometry, scale: float) -> Tensor:
    """(1 + t) exp(−t) with t = √3 r/s: the Matérn kernel of smoothness 3/2."""
    t = g.distances * (math.sqrt(3) / scale)
    return torch.exp(-t).mul_(t.add_(1))


def laplace(g: Geometry, scale: float) -> Tensor:
    """exp(−r/s)."""
    return torch.exp(g.distances / -scale)


def laplace1(g: Geometry, scale: float) -> Tensor:
    """exp(−r₁/s): a product over columns, with kinks parallel to the axes, as in trees."""
    return torch.exp(g.l1 / -scale)


def poly2(g: Geometry, scale: float) -> Tensor:
    """((s² + p)/(s² + 1))²: all products of two columns, and the columns themselves."""
    return ((g.products + scale**2) / (scale**2 + 1)).square_()


def arccos(g: Geometry, scale: float) -> Tensor:
    """‖a‖‖b‖ (sin φ + (π − φ) cos φ)/π for rows (x, s) at angle φ.

    It is the kernel of an infinitely wide layer of ReLU units with random weights and biases.
    """
    a, b = ((norm + scale**2).sqrt() for norm in g.norms)
    size = a[:, None] * b
    cosine = ((g.products + scale**2) / size).clamp_(-1, 1)
    sine = (1 - cosine.square()).sqrt_()
    return sine.add_((math.pi - torch.arccos(cosine)).mul_(cosine)).mul_(size / math.pi)


#: Kernels by name; each is called with a geometry and a scale.
KERNELS: dict[str, Callable[[Geometry, float], Tensor]] = {
    kernel.__name__: kernel for kernel in (linear, rbf, matern, laplace, laplace1, poly2, arccos)
}
#: Kernels that a scale does not change.
UNSCALED = ("linear",)


def own_kernel(kernel: OwnKernel, A: Tensor, B: Tensor) -> Tensor:
    """Call a kernel function of the user's own and check the shape and the entries it returns."""
    name = kernel_name(kernel)
    result = kernel(A, B)
    matrix = as_tensor(f"the result of kernel {name}", result).double()
    if matrix.shape != (len(A), len(B)):
        raise ValueError(
            f"kernel {name} returned shape {tuple(matrix.shape)} for {len(A)} and {len(B)} rows; "
            f"it must return ({len(A)}, {len(B)})"
        )
    if not bool(torch.isfinite(matrix).all()):
        count = int((~torch.isfinite(matrix)).sum())
        raise ValueError(f"kernel {name} returned {count} entries that are NaN or infinite")
    return matrix


def check_symmetric(kernel: OwnKernel, matrix: Tensor) -> None:
    """Raise ``ValueError`` if a kernel matrix of rows with themselves is not symmetric."""
    largest = float(matrix.abs().max())
    difference = float((matrix - matrix.T).abs().max())
    if difference > ROUNDING * largest:
        raise ValueError(
            f"kernel {kernel_name(kernel)} is not symmetric: k(a, b) and k(b, a) differ by "
            f"{difference:.2g}, the largest entry is {largest:.2g}"
        )


def kernel_name(kernel: Any) -> str:
    """Name of a kernel function, for messages."""
    return str(getattr(kernel, "__name__", type(kernel).__name__))
