r"""The Gram matrix of the rows, decomposed once, and its ridge inverses with each row left out.

With μ = λ‖X‖²_F/d and A = XᵀX + μI, a ridge-preconditioned direction is q ↦ A⁻¹Xᵀq. Leaving row i
out changes A by a rank-one term, so that (Sherman–Morrison)

.. math::
   x_i^\top (A - x_i x_i^\top)^{-1} (X^\top q - x_i q_i) = \frac{(Pq)_i - p_i q_i}{1 - p_i},
   \qquad P = X A^{-1} X^\top, \quad p_i = P_{ii} :

the effect on row i of a direction computed without row i, for all rows at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.rows.products import backward, forward, stacked
from decoupled_descent.rows.tensors import TOO_LARGE

if TYPE_CHECKING:
    from decoupled_descent.rows.blocks import Rows

#: Runs with at most this many different ridges use one matrix per ridge. With more of them, two
#: products with the eigenvectors, which all ridges share, read less memory.
FEW_RIDGES = 2
#: If n and d differ by less than this factor, the matrix of a ridge is XA⁻¹, which is of the size
#: of X: a step makes two products of that size. Otherwise it is A⁻¹, or (XXᵀ + μI)⁻¹ if n < d, and
#: a step makes one more product, with a matrix of at most half the size of X. Either is small
#: compared with what the decomposition takes for itself.
SQUARE = 2
#: The matrix of a ridge is computed in float64, this many numbers at a time.
NUMBERS = 2**18


class RidgeLeaveOneOut(NamedTuple):
    r"""What is needed to leave each row out of a ridge-preconditioned direction.

    The direction c A⁻¹Xᵀq has the scale c = mean ‖x_i‖² / mean p_i, with which it tends to Xᵀq as
    λ → ∞.
    """

    leverages: Tensor  # c p, shape (n,)
    weights: Tensor  # 1/(1 − p), shape (n,)
    shares: Tensor  # p over its mean, shape (n,)

    def response(self, q: Tensor, received: Tensor) -> Tensor:
        """C (Pq − p ⊙ q)/(1 − p), shape (L, n), from the fitted values cPq of a direction."""
        return torch.addcmul(received, q, self.leverages, value=-1).mul_(self.weights)


class Gram:
    r"""Eigenvalues and eigenvectors of XᵀX or XXᵀ, whichever is smaller, in float64.

    The ridge bounds the condition number of A by 1 + d/λ, so nothing is lost by squaring X. Every
    ridge reuses the same decomposition; an infinite one needs none. XᵀX takes one pass over rows
    that are not in memory, XXᵀ as many passes as there are blocks. With XᵀX = VΛVᵀ and XXᵀ = UΛUᵀ,

    .. math:: c\,A^{-1}X^\top q = V \tfrac{c}{Λ + μ} V^\top X^\top q
                                  = X^\top U \tfrac{c}{Λ + μ} U^\top q .

    Example:
        >>> from decoupled_descent.rows.blocks import Rows
        >>> rows = Rows(torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), torch.zeros(3))
        >>> Gram(rows).leverages(0.8)  # μ = 0.8 · 10/2 = 4
        tensor([0.6923, 0.2000, 0.0000], dtype=torch.float64)
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.wide = rows.n < rows.d
        self._announced: set[float] = set()
        self._leverages: dict[float, Tensor] = {}
        self._known: dict[float, RidgeLeaveOneOut] = {}
        self._matrices: dict[float, Tensor] = {}

    @cached_property
    def _decomposed(self) -> tuple[Tensor, Tensor]:
        """The eigenvalues and the eigenvectors, found when first asked for."""
        rows = self._rows
        if self.wide and not rows.all_here:
            raise ValueError(
                f"X has {rows.n} rows in all and {rows.d} columns; with fewer rows than columns "
                "the orthogonal method needs them in one process"
            )
        products = self._outer() if self.wide else self._inner()
        _check_squares(products.trace())
        eigenvalues, vectors = torch.linalg.eigh(products)
        return eigenvalues.clamp_min(0), vectors

    @property
    def eigenvalues(self) -> Tensor:
        """Those of XᵀX or XXᵀ, min(n, d) of them, ascending."""
        return self._decomposed[0]

    @property
    def vectors(self) -> Tensor:
        """Eigenvectors of XᵀX, shape (d, d), or of XXᵀ, (n, n), when n < d."""
        return self._decomposed[1]

    def _inner(self) -> Tensor:
        """XᵀX."""
        like = self._rows.like
        products = like.new_zeros(self._rows.d, self._rows.d, dtype=torch.float64)
        for _, part in self._rows.doubles():
            products.addmm_(part.T, part)
        return self._rows.total(products)[0]

    def _outer(self) -> Tensor:
        """XXᵀ."""
        like = self._rows.like
        products = like.new_zeros(self._rows.n, self._rows.n, dtype=torch.float64)
        for above, part in self._rows.doubles():
            for below, other in self._rows.doubles():
                if below.start >= above.start:
                    products[above, below] = part @ other.T
        return products.triu_() + products.triu(1).T

    def shift(self, ridge: float) -> float:
        """Return μ = λ ‖X‖²_F / d."""
        return ridge * float(self.eigenvalues.sum()) / self._rows.d

    def announce(self, ridge: float) -> None:
        """Announce a ridge that will be used, and check the rows.

        One pass then finds the leverages of all announced ridges.
        """
        if math.isinf(ridge):
            self.leave_one_out(ridge)
            return
        _ = self._decomposed
        self._announced.add(ridge)

    def leverages(self, ridge: float) -> Tensor:
        """p_i = x_iᵀ A⁻¹ x_i, the share of a row in its own fitted value, (n,), float64."""
        if ridge not in self._leverages:
            new = sorted(({ridge} | self._announced) - self._leverages.keys())
            self._leverages |= zip(new, self._find_leverages(new), strict=True)
        return self._leverages[ridge]

    def _find_leverages(self, ridges: Sequence[float]) -> list[Tensor]:
        inverses = [1 / (self.eigenvalues + self.shift(ridge)) for ridge in ridges]
        if self.wide:
            squares = self.vectors.square()
            return [torch.mv(squares, self.eigenvalues * inverse) for inverse in inverses]
        # one tensor for all: small ones, kept between large ones, would fragment the heap
        leverages = self.eigenvalues.new_empty(len(ridges), self._rows.here)
        for span, part in self._rows.doubles():
            squares = (part @ self.vectors).square_()
            for values, inverse in zip(leverages, inverses, strict=True):
                torch.mv(squares, inverse, out=values[span])
        return list(leverages)

    def coordinates(self, which: Tensor) -> Tensor:
        """Return the rows' coordinates along some eigenvectors, (n, s), each up to scale."""
        vectors: Tensor = self.vectors[:, which]
        return (
            vectors
            if self.wide
            else torch.cat([part @ vectors for _, part in self._rows.doubles()])
        )

    def freedom(self, ridge: float) -> float:
        """Σp, the degrees of freedom of a ridge regression on these rows: min(n, d) at most."""
        return float((self.eigenvalues / (self.eigenvalues + self.shift(ridge))).sum())

    def leave_one_out(self, ridge: float) -> RidgeLeaveOneOut:
        """What leaving rows out needs for one ridge; an infinite one leaves X as it is."""
        if ridge not in self._known:
            if math.isinf(ridge):  # needs no decomposition
                norms = self._rows.squares
                mean = self._rows.mean(norms)
                _check_squares(mean)
                own = (norms, torch.ones_like(norms), norms / mean)
            else:
                p, n = self.leverages(ridge), self._rows.n
                own = (self._factor(ridge) * p, 1 / (1 - p), p * (n / self.freedom(ridge)))
            self._known[ridge] = RidgeLeaveOneOut(*(values.to(self._rows.like) for values in own))
        return self._known[ridge]

    def directions(self, asked: Mapping[float, Tensor]) -> dict[float, Tensor]:
        """C qᵀXA⁻¹, shape (L, d), for each finite ridge and its q of shape (L, n).

        The products with X are made together for all ridges. The other products depend on the
        number of ridges.
        """
        separate = len(asked) <= FEW_RIDGES
        if separate and self._is_square:
            return {ridge: backward(q, self._matrix(ridge)) for ridge, q in asked.items()}
        sizes = [len(q) for q in asked.values()]
        left = stacked(asked.values())
        if not self.wide:
            left = self._rows.backward(left)
        if separate:
            parts = zip(torch.split(left, sizes), asked, strict=True)
            directions = stacked(forward(part, self._matrix(ridge)) for part, ridge in parts)
        else:
            scales = [self._scale(ridge).to(left).expand(len(q), -1) for ridge, q in asked.items()]
            directions = forward(backward(left, self._basis).mul_(stacked(scales)), self._basis)
        if self.wide:
            directions = self._rows.backward(directions)
        return dict(zip(asked, torch.split(directions, sizes), strict=True))

    @property
    def _is_square(self) -> bool:
        n, d = self._rows.n, self._rows.d
        return self._rows.in_memory and max(n, d) < SQUARE * min(n, d)

    def _factor(self, ridge: float) -> float:
        """C = mean ‖x_i‖² / mean p_i."""
        return float(self.eigenvalues.sum()) / self.freedom(ridge)

    def _scale(self, ridge: float) -> Tensor:
        """C/(Λ + μ)."""
        scale: Tensor = self._factor(ridge) / (self.eigenvalues + self.shift(ridge))
        return scale

    def _matrix(self, ridge: float) -> Tensor:
        """The matrix of one ridge, in the dtype of X; the last few are kept."""
        if ridge not in self._matrices:
            if len(self._matrices) >= FEW_RIDGES:
                self._matrices.pop(next(iter(self._matrices)))
            inverse = (self.vectors * self._scale(ridge)) @ self.vectors.T
            kept = self._times_rows(inverse) if self._is_square else inverse.to(self._rows.like)
            self._matrices[ridge] = kept
        return self._matrices[ridge]

    def _times_rows(self, inverse: Tensor) -> Tensor:
        """C X A⁻¹ = c (XXᵀ + μI)⁻¹ X, shape (n, d)."""
        X = self._rows.X
        scaled = torch.empty_like(X, memory_format=torch.contiguous_format)
        source, result = (X.T, scaled.T) if self.wide else (X, scaled)
        size = max(1, NUMBERS // len(inverse))
        for part, to in zip(*(torch.split(each, size) for each in (source, result)), strict=True):
            to.copy_(part.double() @ inverse)
        return scaled

    @cached_property
    def _basis(self) -> Tensor:
        """The eigenvectors in the dtype of X, which all ridges share."""
        vectors: Tensor = self.vectors.to(self._rows.like)
        return vectors.contiguous()


def _check_squares(total: Tensor) -> None:
    """Raise ``ValueError`` if the squares of all entries of X add up to zero or to infinity."""
    if not bool(torch.isfinite(total)):
        raise ValueError(TOO_LARGE)
    if not float(total) > 0:
        raise ValueError("X is zero everywhere; there is nothing to learn from")
