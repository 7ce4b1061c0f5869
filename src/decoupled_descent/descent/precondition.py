r"""Approximate inverses of the Hessian of a Newton step, for its conjugate gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from decoupled_descent.descent.one_output import cholesky, pieces
from decoupled_descent.descent.spread import is_dual
from decoupled_descent.objective.second_order import Curvature
from decoupled_descent.rows.blocks import Rows

#: So many leading features are preconditioned jointly; features are sorted, largest first.
LEAD = 512
#: With classes that meet in a softmax, so many: what slows conjugate gradients down is how classes
#: meet. On 400 rows and 40 classes 64 features took as many steps as 400, in a 20th of the time.
MEETING_LEAD = 64
#: An output's curvature in a row counts as zero in the preconditioner if its product with the
#: row's kernel is below this. Conjugate gradients make up for it, in a few more steps: with ten
#: classes a third of the rows is left on average, and the time of a step is halved.
SMALL = 0.3

#: An approximate H⁻¹ of parameters θ (K, d) and intercepts (K,).
Precondition = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def precondition(
    rows: Rows, ridge: float, curvature: Tensor, bends: Curvature, intercept: bool
) -> Precondition:
    """H⁻¹, exactly or roughly, by whichever matrices are smaller.

    Args:
        rows: The features.
        ridge: λ.
        curvature: The diagonals of w_i W_i, shape (K, n).
        bends: The loss to second order, before weights.
        intercept: Whether intercepts are trained.
    """
    kind = Dual if is_dual(rows) and bends.full is None else Leading
    return kind(rows, ridge, curvature, bends, intercept)


class Leading:
    """An approximate H⁻¹, class by class: a block for the first features, a diagonal otherwise.

    For softmax, P D⁻¹ P with P = I − 11ᵀ/K is the pseudo-inverse of D − ppᵀ.
    """

    def __init__(
        self, rows: Rows, ridge: float, curvature: Tensor, bends: Curvature, intercept: bool
    ) -> None:
        self.coupled = bends.rank_one is not None
        self.size = size = min(MEETING_LEAD if self.coupled else LEAD, rows.d)
        count = len(curvature)
        lead = curvature.new_zeros(count, size, size)
        diagonal = curvature.new_zeros(count, rows.d - size)
        for span, X in pieces(rows):
            top, bent = X[:, :size], curvature[:, span]
            diagonal.addmm_(bent, X[:, size:].square())
            for own, row in zip(lead, bent, strict=True):
                own.addmm_(top.T, row.unsqueeze(1) * top)
        lead, diagonal, level = rows.total(lead, diagonal, curvature.sum(1))
        self.diagonal, self.shift_diagonal = diagonal + ridge, level + 1e-6 * float(rows.n)
        lead.diagonal(dim1=1, dim2=2).add_(ridge)
        self.lead = torch.stack([torch.cholesky_inverse(cholesky(own)) for own in lead])

    def __call__(self, theta: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """H⁻¹ of parameters (K, d) and intercepts (K,), roughly."""
        theta = theta - theta.mean(0) if self.coupled else theta
        lead = torch.bmm(self.lead, theta[:, : self.size].unsqueeze(2)).squeeze(2)
        found = torch.cat([lead, theta[:, self.size :] / self.diagonal], 1)
        shift = shift / self.shift_diagonal
        if self.coupled:
            return found - found.mean(0), shift - shift.mean()
        return found, shift


class Dual:
    r"""H⁻¹ by matrices among rows, with rows of little curvature left out.

    With the kernel G = ΦΦᵀ/λ + 11ᵀ/ε and W = D − DR(RᵀDR)⁻¹RᵀD (the blocks of :mod:`spread`),

    .. math:: H^{-1} = H_0^{-1} - H_0^{-1}\tilde\Phi^\top (W^{-1} + G)^{-1} \tilde\Phi H_0^{-1},
       \qquad (W^{-1} + G)^{-1} = E - E R\,(\textstyle\sum_k E_k)^{-1} R^\top E,

    H₀ = diag(λ, ε), E_k = (D_k⁻¹ + G)⁻¹ and R the sum over outputs. Losses that are a sum over
    outputs have the first term only. Entries of D with D_ik G_ii < ``SMALL`` are set to zero. E_k
    then has no more rows than class k needs.
    """

    def __init__(
        self, rows: Rows, ridge: float, curvature: Tensor, bends: Curvature, intercept: bool
    ) -> None:
        self.X, self.ridge = rows.X, ridge
        self.tiny = 1e-6 * float(rows.n) if intercept else math.inf
        gram = rows.products / ridge
        sizes = curvature * gram.diagonal()
        small = sizes.amax(1, keepdim=True).clamp_max(0.0 if bends.rank_one is None else SMALL)
        chosen = [row.nonzero().squeeze(1) for row in sizes >= small]
        gram += 1 / self.tiny
        kind = _Factor if bends.rank_one is None else _Inverse
        self.parts = [
            kind(index, row[index].sqrt(), gram)
            for index, row in zip(chosen, curvature, strict=True)
        ]
        self.joint = None if bends.rank_one is None else _joint(self.parts, len(gram))

    def __call__(self, theta: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """H⁻¹ of parameters (K, d) and intercepts (K,)."""
        theta, shift = theta / self.ridge, shift / self.tiny
        outputs = theta @ self.X.T + shift.unsqueeze(1)  # (K, n)
        pulled = torch.zeros_like(outputs)
        for own, row, part in zip(pulled, outputs, self.parts, strict=True):
            own[part.index] = part.times(row[part.index])
        if self.joint is not None:
            shared = torch.cholesky_solve(pulled.sum(0).unsqueeze(1), self.joint).squeeze(1)
            for own, part in zip(pulled, self.parts, strict=True):
                own[part.index] -= part.times(shared[part.index])
        return theta - pulled @ self.X / self.ridge, shift - pulled.sum(1) / self.tiny


class _Factor:
    """E_k among some rows, by a Cholesky factor of I + D^½ G D^½."""

    def __init__(self, index: Tensor, root: Tensor, gram: Tensor) -> None:
        self.index, self.root = index, root
        few = len(index) < len(gram)
        inner = gram[index.unsqueeze(1), index].mul_(root) if few else gram * root
        inner.mul_(root.unsqueeze(1)).diagonal().add_(1.0)
        self.factor = cholesky(inner)

    def times(self, values: Tensor) -> Tensor:
        """E_k of values of these rows, shape (s,)."""
        solved = torch.cholesky_solve((self.root * values).unsqueeze(1), self.factor)
        return self.root * solved.squeeze(1)

    def matrix(self) -> Tensor:
        """E_k, shape (s, s)."""
        inverse = torch.cholesky_inverse(self.factor)
        return inverse.mul_(self.root.unsqueeze(1)).mul_(self.root)


class _Inverse(_Factor):
    """The same with the matrix itself: for many products, and for a sum over outputs."""

    def __init__(self, index: Tensor, root: Tensor, gram: Tensor) -> None:
        super().__init__(index, root, gram)
        self.dense = super().matrix()
        del self.factor

    def times(self, values: Tensor) -> Tensor:
        return self.dense @ values

    def matrix(self) -> Tensor:
        return self.dense


def _joint(parts: Sequence[_Factor], n: int) -> Tensor:
    """The factor of Σ_k E_k; rows that are in no E_k do not matter."""
    total = parts[0].root.new_zeros(n, n)
    for part in parts:
        total[part.index.unsqueeze(1), part.index] += part.matrix()
    total.diagonal()[total.diagonal() == 0] = 1.0
    return cholesky(total)
