r"""The Gram matrix of the rows, decomposed once, and its ridge inverses with each row left out.

With μ = λ‖X‖²_F/d and A = XᵀX + μI, a ridge-preconditioned direction is q ↦ A⁻¹Xᵀq. Leaving row i
out changes A by a rank-one term, so that (Sherman–Morrison)

.. math::
   x_i^\top (A - x_i x_i^\top)^{-1} (X^\top q - x_i q_i) = \frac{(Pq)_i - p_i q_i}{1 - p_i},
   \qquad P = X A^{-1} X^\top, \quad p_i = P_{ii} :

what row i receives from a direction computed without it, for all rows at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from decoupled_descent.rows.blocks import Rows

#: With fewer rows per column than this, and X up to so many bytes, XA⁻¹ is kept as a matrix: a step
#: then makes two products instead of four. Otherwise the products with the eigenvectors are cheap
#: compared with those with X, or a second matrix of the size of X would be too large.
TALL = 2
COPIED_BYTES = 16 * 2**20
#: Rows are turned into float64 so many numbers at a time.
NUMBERS = 2**18


class LeaveOneOut(NamedTuple):
    r"""The ridge-preconditioned direction, scaled, and what leaving a row out makes of it.

    The scale is c = mean ‖x_i‖² / mean p_i, with which the direction tends to Xᵀq as λ → ∞. With
    XᵀX = VΛVᵀ and XXᵀ = UΛUᵀ it is

    .. math:: c\,A^{-1}X^\top q = V \tfrac{c}{Λ + μ} V^\top X^\top q
                                  = X^\top U \tfrac{c}{Λ + μ} U^\top q .
    """

    rows: Tensor | None  # c X A⁻¹, shape (n, d), where it is kept; then qᵀ times it is all
    basis: Tensor | None  # V, or U if n < d; None for an infinite ridge
    scale: Tensor | None  # c/(Λ + μ)
    leverages: Tensor  # c p, shape (n,)
    weights: Tensor  # 1/(1 − p), shape (n,)
    shares: Tensor  # p over its mean, shape (n,)

    def response(self, q: Tensor, received: Tensor) -> Tensor:
        """C (Pq − p ⊙ q)/(1 − p), shape (L, n), from the fitted values cPq of a direction."""
        return torch.addcmul(received, q, self.leverages, value=-1).mul_(self.weights)


class Gram:
    """Eigenvalues and eigenvectors of XᵀX or XXᵀ, whichever is smaller, in float64.

    The ridge bounds the condition number of A by 1 + d/λ, so nothing is lost by squaring X. Every
    ridge reuses the same decomposition: ``eigenvalues``, min(n, d) of them, ascending, and
    ``vectors`` of XᵀX, (d, d), or of XXᵀ, (n, n), when n < d. XᵀX takes one pass over rows that
    are not in memory, XXᵀ as many passes as there are blocks.

    Example:
        >>> from decoupled_descent.rows.blocks import Rows
        >>> rows = Rows(torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), torch.zeros(3))
        >>> Gram(rows).leverages(0.8)  # μ = 0.8 · 10/2 = 4
        tensor([0.6923, 0.2000, 0.0000], dtype=torch.float64)
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.wide = rows.n < rows.d
        if self.wide and rows.processes is not None:
            raise ValueError(
                f"X has {rows.n} rows in all and {rows.d} columns; with fewer rows than columns "
                "the orthogonal method needs them in one process"
            )
        eigenvalues, self.vectors = torch.linalg.eigh(self._outer() if self.wide else self._inner())
        self.eigenvalues = eigenvalues.clamp_min(0)
        self._known: dict[float, LeaveOneOut] = {}
        if not float(self.eigenvalues[-1]) > 0:
            raise ValueError("X is zero everywhere; there is nothing to learn from")

    def _chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Some rows at a time, in float64."""
        size = max(1, NUMBERS // self._rows.d)
        for block in self._rows.blocks():
            for start in range(0, len(block.X), size):
                part = block.X[start : start + size].double()
                first = block.span.start + start
                yield slice(first, first + len(part)), part

    def _inner(self) -> Tensor:
        """XᵀX."""
        like = self._rows.like
        found = like.new_zeros(self._rows.d, self._rows.d, dtype=torch.float64)
        for _, part in self._chunks():
            found.addmm_(part.T, part)
        return self._rows.total(found)[0]

    def _outer(self) -> Tensor:
        """XXᵀ."""
        like = self._rows.like
        found = like.new_zeros(self._rows.n, self._rows.n, dtype=torch.float64)
        for above, part in self._chunks():
            for below, other in self._chunks():
                if below.start >= above.start:
                    found[above, below] = part @ other.T
        return found.triu_() + found.triu(1).T

    def shift(self, ridge: float) -> float:
        """Return μ = λ ‖X‖²_F / d."""
        return ridge * float(self.eigenvalues.sum()) / self._rows.d

    def leverages(self, ridge: float) -> Tensor:
        """p_i = x_iᵀ A⁻¹ x_i, the share of a row in its own fitted value, (n,), float64."""
        inverse = 1 / (self.eigenvalues + self.shift(ridge))
        if self.wide:
            return torch.mv(self.vectors.square(), self.eigenvalues * inverse)
        if self._rows.in_memory:  # all ridges share them; read once more otherwise
            kept = self._rotated_squares
            return torch.mv(kept, inverse.to(kept)).double()
        return torch.cat([torch.mv(squares, inverse) for squares in self._squares()])

    def _squares(self) -> Iterator[Tensor]:
        """Squares of the rows' coordinates along the eigenvectors, some rows at a time."""
        return ((part @ self.vectors).square_() for _, part in self._chunks())

    @cached_property
    def _rotated_squares(self) -> Tensor:
        """All of them, (n, d), which all ridges share; of the size of X where there are many."""
        rows = self._rows
        dtype = rows.like.dtype if rows.n >= TALL * rows.d else torch.float64
        found, start = rows.like.new_empty(rows.n, rows.d, dtype=dtype), 0
        for squares in self._squares():
            found[start : start + len(squares)] = squares
            start += len(squares)
        return found

    def coordinates(self, which: Tensor) -> Tensor:
        """Return the rows' coordinates along some eigenvectors, (n, s), each up to scale."""
        vectors: Tensor = self.vectors[:, which]
        return vectors if self.wide else torch.cat([part @ vectors for _, part in self._chunks()])

    def freedom(self, ridge: float) -> float:
        """Σp, the degrees of freedom of a ridge regression on these rows: min(n, d) at most."""
        return float((self.eigenvalues / (self.eigenvalues + self.shift(ridge))).sum())

    def leave_one_out(self, ridge: float) -> LeaveOneOut:
        """The preconditioned direction for one ridge; infinity leaves X as it is."""
        if ridge not in self._known:
            self._known[ridge] = self._build(ridge)
        return self._known[ridge]

    def _build(self, ridge: float) -> LeaveOneOut:
        like, norms = self._rows.like, self._rows.squares
        if math.isinf(ridge):
            own = (norms, torch.ones_like(norms), norms / self._rows.mean(norms))
            return LeaveOneOut(None, None, None, *(values.to(like) for values in own))
        leverages = self.leverages(ridge)
        norm, mean = self._rows.mean(torch.stack([norms, leverages]))
        c = float(norm / mean)
        own = (c * leverages, 1 / (1 - leverages), leverages / mean)
        per_row = [values.to(like) for values in own]
        scale = c / (self.eigenvalues + self.shift(ridge))
        if self._is_copied:
            return LeaveOneOut(self._copy(scale), None, None, *per_row)
        return LeaveOneOut(None, self._basis, scale.to(like), *per_row)

    @property
    def _is_copied(self) -> bool:
        rows = self._rows
        small = rows.n * rows.d * rows.like.element_size() <= COPIED_BYTES
        return rows.in_memory and small and rows.n < TALL * rows.d

    def _copy(self, scale: Tensor) -> Tensor:
        """C X A⁻¹ = c (XXᵀ + μI)⁻¹ X, shape (n, d)."""
        inverse = (self.vectors * scale) @ self.vectors.T
        rows = self._rows.X.double()
        found: Tensor = inverse @ rows if self.wide else rows @ inverse
        return found.to(self._rows.like)

    @cached_property
    def _basis(self) -> Tensor:
        """The eigenvectors in the dtype of X, which all ridges share."""
        vectors: Tensor = self.vectors.to(self._rows.like)
        return vectors.contiguous()
