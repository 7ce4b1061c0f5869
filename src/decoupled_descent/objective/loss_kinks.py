r"""Kinks of a loss of one's own, looked for in the loss itself.

Where labels are far from zero, so are the kinks of \|u − y\|, and a head that has not been trained
yet does not come near them. So the slope ∂ℓ/∂u is probed as well, at any outputs u that the head
may reach some day: near zero, near the labels, and as far out as twice the largest label.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from decoupled_descent.objective.smoothed import grown, jumps

if TYPE_CHECKING:
    from decoupled_descent.objective.objective import Objective

#: How far around zero and around the labels to look closely.
NEAR = 4.0


def loss_has_kinks(objective: Objective, y: Tensor, width: int) -> bool:
    """Probe the slope of a loss for jumps.

    Args:
        objective: Gives the loss, and the head that limits its outputs.
        y: Labels to probe with.
        width: L.

    Returns:
        Whether a jump was found. A loss that fails on the probe is taken to be smooth.
    """
    for dtype in (torch.float64, torch.float32):  # a loss may hold constants in float32
        try:
            return _jumps(objective, y, width, dtype)
        except Exception:  # a loss may do anything where no head has been
            continue
    return False


def _jumps(objective: Objective, y: Tensor, width: int, dtype: torch.dtype) -> bool:
    labels = y.reshape(len(y), -1).to(dtype)
    far = 2 * float(labels.abs().max())
    outputs = _outputs(objective, labels, width, max(NEAR, far))
    slopes, count = _slopes(objective, outputs), outputs[0].numel()
    if jumps(slopes, count, y, dtype, NEAR):
        return True
    classes = count > 1 and not y.is_floating_point()
    if classes or far <= NEAR:
        return False
    nearby = labels[:, torch.arange(count, device=y.device) % labels.shape[1]]
    if jumps(slopes, count, y, dtype, NEAR, nearby):
        return True
    return dtype == torch.float64 and jumps(slopes, count, y, dtype, far)


def _outputs(objective: Objective, like: Tensor, width: int, largest: float) -> Tensor:
    """Outputs of the head for small and large pre-activations and weights, of either sign."""
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(64, width, generator=generator, dtype=torch.float64, device=generator.device)
    h, weight = h.to(like), 1e3 * largest  # weights may start from next to nothing
    with torch.no_grad():
        return torch.cat(
            [
                objective.pure_head(scale * h, grown(objective, growth, h))
                for scale in (1.0, largest)
                for growth in (1.0, weight, -weight)
            ]
        )


def _slopes(objective: Objective, outputs: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """∂ℓ/∂u, and nan where the head does not get to or the loss is not finite."""
    lowest = outputs.nan_to_num(torch.inf, torch.inf, -torch.inf).amin(0)
    highest = outputs.nan_to_num(-torch.inf, torch.inf, -torch.inf).amax(0)

    def slopes(u: Tensor, y: Tensor) -> Tensor:
        y = y.to(u) if y.is_floating_point() else y
        u = u.reshape(-1, *outputs.shape[1:])
        with torch.enable_grad():
            within = u.clamp(lowest, highest).detach().requires_grad_()
            loss = objective.loss.value(within.clone(), y)
            (slope,) = torch.autograd.grad(loss.sum(), within)
        slope = slope.masked_fill(within != u, torch.nan).reshape(len(u), -1)
        return slope.masked_fill(~loss.detach().isfinite().unsqueeze(1), torch.nan)

    return slopes
