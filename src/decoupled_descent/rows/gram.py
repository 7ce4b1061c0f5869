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
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

#: From this many rows per column on, a step works in the eigenbasis of XᵀX, where every ridge is a
#: diagonal: a quarter more arithmetic at most, and all ridges share the same three matrices.
TALL = 2


class LeaveOneOut(NamedTuple):
    r"""The ridge-preconditioned direction, scaled, and what leaving a row out makes of it.

    The scale is c = mean ‖x_i‖² / mean p_i, with which the direction tends to Xᵀq as λ → ∞. Either
    the direction is c qᵀXA⁻¹ directly; or, with XᵀX = VΛVᵀ, its coefficients along V are
    qᵀ(XV) ⊙ c/(Λ + μ).
    """

    rows: Tensor  # X A⁻¹ c, or X V, shape (n, d): what qᵀ is multiplied by
    scale: Tensor | None  # c/(Λ + μ), shape (d,); None in the first form
    basis: Tensor | None  # Vᵀ, shape (d, d), which takes coefficients to θ; None in the first form
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
    ``vectors`` of XᵀX, (d, d), or of XXᵀ, (n, n), when n < d.

    Example:
        >>> gram = Gram(torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
        >>> gram.leverages(0.8)  # μ = 0.8 · 10/2 = 4
        tensor([0.6923, 0.2000, 0.0000], dtype=torch.float64)
    """

    def __init__(self, X: Tensor) -> None:
        self._X = X
        self.wide = X.shape[0] < X.shape[1]
        rows = X.double()
        eigenvalues, self.vectors = torch.linalg.eigh(rows @ rows.T if self.wide else rows.T @ rows)
        self.eigenvalues = eigenvalues.clamp_min(0)
        self._known: dict[float, LeaveOneOut] = {}
        if not float(self.eigenvalues[-1]) > 0:
            raise ValueError("X is zero everywhere; there is nothing to learn from")

    def shift(self, ridge: float) -> float:
        """Return μ = λ ‖X‖²_F / d."""
        return ridge * float(self.eigenvalues.sum()) / self._X.shape[1]

    def leverages(self, ridge: float) -> Tensor:
        """p_i = x_iᵀ A⁻¹ x_i, the share of a row in its own fitted value, (n,), float64."""
        inverse = 1 / (self.eigenvalues + self.shift(ridge))
        shares = self.eigenvalues * inverse if self.wide else inverse
        return torch.mv(self._rotated_squares, shares)

    @cached_property
    def _rotated_squares(self) -> Tensor:
        """Squares of the rows' coordinates along the eigenvectors, which all ridges share."""
        return self.coordinates().square()

    def coordinates(self) -> Tensor:
        """Return the rows' coordinates along the eigenvectors, (n, min(n, d)), each up to scale."""
        rotated: Tensor = self.vectors if self.wide else self._X.double() @ self.vectors
        return rotated

    def freedom(self, ridge: float) -> float:
        """Σp, the degrees of freedom of a ridge regression on these rows: min(n, d) at most."""
        return float((self.eigenvalues / (self.eigenvalues + self.shift(ridge))).sum())

    def leave_one_out(self, ridge: float) -> LeaveOneOut:
        """The preconditioned direction for one ridge; infinity leaves X as it is."""
        if ridge not in self._known:
            self._known[ridge] = self._build(ridge)
        return self._known[ridge]

    def _build(self, ridge: float) -> LeaveOneOut:
        n, d = self._X.shape
        norms = self._X.double().square().sum(1)
        if math.isinf(ridge):
            like = norms.to(self._X.dtype)
            one = torch.ones_like(like)
            return LeaveOneOut(self._X, None, None, like, one, like / like.mean())
        leverages = self.leverages(ridge)
        c = float(norms.mean() / leverages.mean())
        own = (c * leverages, 1 / (1 - leverages), leverages / leverages.mean())
        per_row = [values.to(self._X.dtype) for values in own]
        if n >= TALL * d:
            scale = (c / (self.eigenvalues + self.shift(ridge))).to(self._X)
            rotated, basis = self._rotation
            return LeaveOneOut(rotated, scale, basis, *per_row)
        inverse = (self.vectors * (c / (self.eigenvalues + self.shift(ridge)))) @ self.vectors.T
        rows = self._X.double()  # cX A⁻¹ = c(XXᵀ + μI)⁻¹ X
        rows = inverse @ rows if self.wide else rows @ inverse
        return LeaveOneOut(rows.to(self._X), None, None, *per_row)

    @cached_property
    def _rotation(self) -> tuple[Tensor, Tensor]:
        """X V, shape (n, d), and Vᵀ, shape (d, d), in the dtype of X; all ridges share them."""
        return self.coordinates().to(self._X).contiguous(), self.vectors.T.to(self._X).contiguous()
