r"""Losses to second order in their outputs: for Newton's method and for learning rates."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.objective.losses import Loss

#: Number of pieces of the window over which a loss with kinks is averaged.
PIECES = 16


class Curvature(NamedTuple):
    r"""A loss to second order at the outputs of n rows: W_i = diag(b_i) − c_i c_iᵀ is ∂²ℓ/∂o²."""

    value: Tensor  # ℓ(o_i, y_i), shape (n,)
    slope: Tensor  # ∂ℓ/∂o, shape (n, K)
    diagonal: Tensor  # b, shape (n, K)
    rank_one: Tensor | None = None  # c, shape (n, K), unless W_i is diagonal
    full: Tensor | None = None  # W_i itself, shape (n, K, K), where it has no such form

    def matrices(self, rows: slice | Tensor = slice(None)) -> Tensor:
        """W_i of some rows, all by default, shape (…, K, K)."""
        if self.full is not None:
            return self.full[rows]
        diagonal = torch.diag_embed(self.diagonal[rows])
        arms = None if self.rank_one is None else self.rank_one[rows]
        return diagonal if arms is None else diagonal - arms.unsqueeze(-1) * arms.unsqueeze(-2)

    def times(self, values: Tensor, rows: slice) -> Tensor:
        """W_i times values of some rows, shape (K, b, s)."""
        if self.full is not None:
            return torch.einsum("nab,bns->ans", self.full[rows], values)
        product = self.diagonal[rows].T.unsqueeze(2) * values
        if self.rank_one is not None:
            arms = self.rank_one[rows].T.unsqueeze(2)
            product -= arms * (arms * values).sum(0)
        return product


def second_order(loss: Loss, outputs: Tensor, y: Tensor, smoothing: float = 0.0) -> Curvature:
    r"""Expand a loss at outputs of shape (n, K), or (n,) for a loss that takes them so.

    With ``smoothing`` δ, the loss is averaged over outputs u − δ … u + δ, which turns kinks into
    parabolas: the absolute loss becomes Huber's. Values and slopes are means over the window, and
    ℓ'' is (ℓ'(u + δ) − ℓ'(u − δ))/2δ.

    Example:
        >>> from decoupled_descent.objective.losses import get_loss
        >>> bends = second_order(get_loss("absolute"), torch.tensor([[0.0]]), torch.zeros(1), 0.5)
        >>> bends.slope, bends.diagonal
        (tensor([[0.]]), tensor([[2.]]))
    """
    if smoothing:
        return _windowed(loss, outputs, y, smoothing)
    if loss.expand is not None:
        expansion = loss.expansion(outputs.reshape(len(outputs), -1).T, y)
        arms = None if expansion.rank_one is None else expansion.rank_one.T
        return Curvature(expansion.value, expansion.slope.T, expansion.diagonal.T, arms)
    with torch.enable_grad():
        outputs = outputs.detach().requires_grad_()
        value = loss.of(outputs, y)
        (slope,) = torch.autograd.grad(value.sum(), outputs, create_graph=True)
        slope = slope.reshape(len(outputs), -1)
        parts = list(slope.sum(0)) if slope.requires_grad else []
        bends = [torch.autograd.grad(part, outputs, retain_graph=True)[0] for part in parts]
    full = torch.stack([bend.reshape(slope.shape) for bend in bends], 1) if bends else None
    diagonal = torch.zeros_like(slope) if full is None else full.diagonal(dim1=1, dim2=2)
    coupled = full is not None and not torch.equal(torch.diag_embed(diagonal), full)
    return Curvature(value.detach(), slope.detach(), diagonal, None, full if coupled else None)


def _windowed(loss: Loss, outputs: Tensor, y: Tensor, width: float) -> Curvature:
    """Averages over u_k − δ … u_k + δ, for each output k by itself.

    Slopes and their derivatives are differences of the loss and its slopes at the ends. Values are
    means over two tangents in each of ``PIECES`` pieces, exact for piecewise linear losses.
    """

    def expand(k: int, shift: float) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            u = outputs.detach().clone()
            u[:, k] += shift
            value = loss.of(u.requires_grad_(), y)
            return value.detach(), torch.autograd.grad(value.sum(), u)[0][:, k]

    points = torch.linspace(-width, width, PIECES + 1, dtype=torch.float64).tolist()
    means, slopes, bends = [], [], []
    for k in range(outputs.shape[1]):
        expansions = [expand(k, point) for point in points]
        values, tangents = (torch.stack(parts) for parts in zip(*expansions, strict=True))
        means.append(_between_tangents(values, tangents, 2 * width / PIECES).mean(0))
        slopes.append((values[-1] - values[0]) / (2 * width))
        bends.append(((tangents[-1] - tangents[0]) / (2 * width)).clamp_min(0))
    centre = loss.of(outputs, y).detach()
    value = centre + (torch.stack(means) - centre).sum(0)
    return Curvature(value, torch.stack(slopes, 1), torch.stack(bends, 1))


def _between_tangents(values: Tensor, slopes: Tensor, step: float) -> Tensor:
    """Mean over each piece of the tangent at its left end, then that at its right end."""
    left, right = values[:-1], values[1:]
    first, second = slopes[:-1], slopes[1:]
    bend = second - first
    flat = bend.abs() <= 1e-12 * (first.abs() + second.abs())
    meet = (left + step * second - right) / torch.where(flat, 1.0, bend)  # where they cross
    meet = torch.where(flat, 0.5 * step, meet).clamp(0, step)
    rest = step - meet
    area = meet * (left + 0.5 * meet * first) + rest * (right - 0.5 * rest * second)
    return area / step


def curvature(loss: Loss, outputs: Tensor, y: Tensor) -> float:
    r"""Mean over rows and outputs of \|∂²ℓ(u_i, y_i)/∂u_ik²\|."""
    second = second_order(loss, outputs, y)
    own = second.diagonal if second.rank_one is None else second.diagonal - second.rank_one.square()
    return float(own.abs().mean())
