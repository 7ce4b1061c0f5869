r"""What Newton's method minimises: a ridge-penalised loss on given rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from decoupled_descent.objective import BoundObjective
from decoupled_descent.objective.losses import Loss
from decoupled_descent.objective.second_order import Curvature, second_order
from decoupled_descent.rows.blocks import Rows


@dataclass(frozen=True, eq=False)
class Problem:
    """What is minimised: Σ_i w_i ℓ(o_i, y_i) + ½ λ‖β‖² on given rows.

    Attributes:
        rows: Features, labels, weights and groups.
        bound: Gives the loss.
        ridge: λ.
        smoothing: δ of the window over which a loss with kinks is averaged; 0 for none.
        weighting: Replaces the weights of the rows.
    """

    rows: Rows
    bound: BoundObjective
    ridge: float
    smoothing: float = 0.0
    weighting: Tensor | None = None

    @cached_property
    def weights(self) -> Tensor:
        """w, shape (n,)."""
        weights = self.rows.weights if self.weighting is None else self.weighting
        return self.rows.like.new_ones(self.rows.here) if weights is None else weights

    @cached_property
    def total(self) -> float:
        """Σ_i w_i."""
        return float(self.rows.total(self.weights.sum())[0])

    @property
    def quadratic(self) -> bool:
        """Whether the loss is quadratic, so that one Newton step reaches the minimum."""
        return self.bound.objective.loss.quadratic

    @cached_property
    def loss(self) -> Loss:
        """The loss as a function of outputs (n, K), even if the head's outputs are (n,)."""
        objective, like = self.bound.objective, self.rows.like
        loss, h = objective.loss, like.new_zeros(2, self.bound.width)
        with torch.no_grad():
            probe = objective.pure_head(h, objective.parameters(like))
        if loss.builtin or probe.ndim == 2:
            return loss
        return loss._replace(value=lambda outputs, y: loss.value(outputs.squeeze(1), y))

    def losses(self, outputs: Tensor) -> Tensor:
        """ℓ(o_i, y_i) without smoothing, shape (n,), for outputs of shape (n, K)."""
        return self.loss.of(outputs, self.rows.y)

    @cached_property
    def classes(self) -> Tensor | None:
        """The class of each row, shape (n,); None if labels are not classes in every process."""
        classes = self.bound.objective.loss.classes(self.rows.y)
        missing = torch.tensor(float(classes is None), dtype=torch.float64)
        return None if float(self.rows.total(missing)[0]) else classes

    @cached_property
    def intercept(self) -> bool:
        """Whether the head adds a trainable constant to the outputs."""
        return bool(self.bound.parameters())

    def weighted_diagonal(self, curvature: Curvature) -> Tensor:
        """The diagonals of w_i W_i, shape (K, n)."""
        return (self.weights * curvature.diagonal.T).clamp_min(0)

    def expand(self, outputs: Tensor) -> Curvature:
        """The loss to second order at outputs of shape (n, K), before weights."""
        return second_order(self.loss, outputs, self.rows.y, self.smoothing)

    def slopes(self, outputs: Tensor, span: slice) -> Tensor:
        """∂ℓ/∂o at outputs of shape (K, b, s): s versions of b consecutive rows."""
        count, b, size = outputs.shape
        y = self.rows.y[span].repeat_interleave(size, 0)
        flat = outputs.reshape(count, b * size).T
        curvature = second_order(self.loss, flat, y, self.smoothing)
        return curvature.slope.T.reshape(count, b, size)
