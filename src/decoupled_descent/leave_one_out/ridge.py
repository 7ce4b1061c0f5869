r"""The influence of rows on one output of a ridge regression, by an r × r factor.

.. math:: S = \tilde\Phi\,(\tilde\Phi^\top \mathrm{diag}(w b)\,\tilde\Phi + \lambda)^{-1}
   \tilde\Phi^\top, \qquad \tilde\Phi = (\Phi, 1),

with an intercept that is not penalised, the curvature b of the loss in this output, row by row, and
the weights w of the rows. Without an intercept, Φ̃ is Φ.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.influence import Influence
from decoupled_descent.leave_one_out.linear_algebra import cholesky, pieces
from decoupled_descent.rows.blocks import Rows


class RidgeInfluence(Influence):
    """S from an r × r factor: nothing of size n × n, and no copy of the features.

    Args:
        rows: Φ.
        diagonal: w b, shape (n,), positive.
        ridge: λ.
        intercept: Whether there is one.
    """

    def __init__(self, rows: Rows, diagonal: Tensor, ridge: float, intercept: bool = True) -> None:
        self.rows = rows
        total = float(rows.total(diagonal.sum())[0])
        self.level = 1 / total if intercept else 0.0  # what the intercept adds to S
        moment = rows.backward(diagonal.unsqueeze(0))[0]
        self.centre = self.level * moment  # centred features have no cross terms with the intercept
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

    def _backward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """L⁻¹ of centred features times values (n, s), and the sums of these."""
        (sums,) = self.rows.total(values.sum(0))
        moments = self.rows.backward(values.T).T - torch.outer(self.centre, sums)
        return torch.linalg.solve_triangular(self.factor, moments, upper=False), sums

    def _forward(self, half: Tensor, onto: Tensor | None = None) -> Tensor:
        """Centred features of all rows, or of some, times L⁻ᵀ of something, shape (n, s)."""
        solved = torch.linalg.solve_triangular(self.factor.T, half, upper=True)
        if onto is None:
            return self.rows.forward(solved.T.contiguous()).T.sub_(self.centre @ solved)
        some: Tensor = self.rows.gather(onto) @ solved
        return some.sub_(self.centre @ solved)

    @cached_property
    def blocks(self) -> Tensor:
        """S_ii, shape (n, 1, 1)."""
        parts = [self._half(features).square().sum(0) for _, features in pieces(self.rows)]
        return (torch.cat(parts) + self.level).reshape(-1, 1, 1)

    def __matmul__(self, values: Tensor) -> Tensor:
        half, sums = self._backward(values[0])
        return self._forward(half).add_(self.level * sums).unsqueeze(0)

    def columns(self, rows: Tensor, values: Tensor, onto: Tensor | None = None) -> Tensor:
        """V_ji u_i of some rows i; see :meth:`Influence.columns`."""
        columns = self._forward(self._half(self.rows.take(rows)), onto).add_(self.level)
        return columns.mul_(values[:, 0]).unsqueeze(0)

    def at(self, rows: Tensor, values: Tensor) -> Tensor:
        """(V u)_i of single rows; see :meth:`Influence.at`."""
        half, sums = self._backward(values[0])
        own = (self._half(self.rows.take(rows)) * half).sum(0)
        return own.add_(self.level * sums).unsqueeze(1)

    def between(self, rows: Tensor) -> Tensor:
        """V_ij for some rows; see :meth:`Influence.between`."""
        half = self._half(self.rows.gather(rows))
        return (half.T @ half + self.level)[:, None, :, None]

    def dense(self) -> Tensor:
        """S itself, shape (n, n)."""
        half = self._half(self.rows.X)
        return half.T @ half + self.level
