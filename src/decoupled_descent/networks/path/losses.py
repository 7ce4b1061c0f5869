"""The losses of rows as functions of their outputs, to second order."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import grad

from decoupled_descent.objective.losses import Loss
from decoupled_descent.objective.second_order import second_order


class Expansion(NamedTuple):
    r"""The losses of rows to second order in their outputs."""

    losses: Tensor  # ℓ_j, shape (n,)
    slopes: Tensor  # g_j = ∇ℓ_j, shape (n, K)
    roots: Tensor  # C_j with C_j C_jᵀ = W_j, shape (n, K, K); W_j = ∇²ℓ_j where that is positive
    exact: bool  # whether W_j is the second derivative of the loss in every row


class LossOfOutputs:
    """A loss, with derivatives by its own formulas where it has them.

    Attributes:
        loss: Gives one value per row.
    """

    loss: Loss

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """ℓ(o_j, y_j), shape (n,), for outputs (n, K)."""
        return self.loss.of(self._shaped(outputs, y), y)

    def _shaped(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Single outputs as (n,), for labels that are."""
        return outputs.squeeze(1) if outputs.shape[1] == 1 and y.ndim == 1 else outputs

    def slopes(self, outputs: Tensor, y: Tensor) -> Tensor:
        """∇ℓ_j, shape (n, K)."""
        if self.loss.builtin and self.loss.expand is not None:
            return self.loss.expansion(outputs.T, y).slope.T
        result: Tensor = grad(lambda o: self.losses(o, y).sum())(outputs)
        return result

    def hessian_times(self, outputs: Tensor, y: Tensor, along: Tensor) -> Tensor:
        """∇²ℓ_j v_j, shape (n, K), by two reverse passes: some losses have no forward one."""
        if self.loss.builtin and self.loss.expand is not None:
            known, moved = self.loss.expansion(outputs.T, y), along.T
            product = known.diagonal * moved
            if known.rank_one is not None:
                product = product - known.rank_one * (known.rank_one * moved).sum(0)
            return product.T
        result: Tensor = grad(lambda o: (self.slopes(o, y) * along).sum())(outputs)
        return result

    def expand(self, outputs: Tensor, y: Tensor, spread: float) -> Expansion:
        """Expand the losses; ``spread`` is the width of differences where there is a kink."""
        if not self.loss.smooth:
            slopes = self.slopes(outputs, y)
            return Expansion(self.losses(outputs, y), slopes, self._wide(outputs, y, spread), False)
        found = second_order(self.loss, self._shaped(outputs, y), y)
        losses, slopes = found.value, found.slope
        values, vectors = torch.linalg.eigh(found.matrices().double())
        largest = float(values.max())
        if not largest > 0:
            return Expansion(losses, slopes, self._wide(outputs, y, spread), False)
        convex = float(values.min()) >= -1e-6 * largest
        roots = (vectors * values.clamp_min(0).sqrt().unsqueeze(1)).to(outputs)
        return Expansion(losses, slopes, roots, convex)

    def _wide(self, outputs: Tensor, y: Tensor, spread: float) -> Tensor:
        """Roots of a mean curvature, from differences of slopes over the spread of the labels."""
        above, below = (self.slopes(outputs + step, y) for step in (spread, -spread))
        mean = ((above - below).mean() / (2 * spread)).clamp_min(1e-12)
        count = outputs.shape[1]
        return (mean.sqrt() * torch.eye(count).to(outputs)).expand(len(outputs), count, count)
