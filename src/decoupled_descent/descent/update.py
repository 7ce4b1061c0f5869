r"""The linear update rule that moves θ, and with it the memory.

Whatever *linear* rule U turns (θ, θ̃) into the next θ must turn (M, −ĥ) into the next memory: then
h = Xθ + M stays the pre-activation of fresh data. For the paper's rule U(v, w) = η₀ v − η₁ w this
unrolls to its memory term η₁ Σ_s η₀^{t−1−s} ĥ_s. A rule with slots of its own (momentum) or with
step-dependent rates (schedules) fits the same protocol, without a change to the algorithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

#: What a rule carries from step to step for one tensor, besides the tensor itself.
Slots = tuple[Tensor, ...]


class LinearRule(Protocol):
    """A rule that is linear in the tensor and in all directions so far."""

    def slots(self, value: Tensor) -> Slots:
        """Return what the rule carries for ``value`` at the start."""
        ...

    def __call__(
        self, value: Tensor, direction: Tensor, slots: Slots, step: int, scale: float
    ) -> tuple[Tensor, Slots]:
        """Return the next value and slots, with ``scale`` multiplying the direction."""
        ...


@dataclass(frozen=True)
class Damped:
    r"""The paper's rule, v ← η₀ v − η₁ w.

    Args:
        lr: η₁.
        damping: η₀; 1 is plain descent.

    Example:
        >>> Damped(lr=0.5, damping=0.9)(torch.ones(1), torch.ones(1), (), 0, 1.0)
        (tensor([0.4000]), ())
    """

    lr: float
    damping: float = 1.0

    def slots(self, value: Tensor) -> Slots:
        """Carry nothing."""
        return ()

    def __call__(
        self,
        value: Tensor,
        direction: Tensor,
        slots: Slots,
        step: int,
        scale: float,
    ) -> tuple[Tensor, Slots]:
        """Return η₀ v − η₁ (scale · w)."""
        kept = value if self.damping == 1.0 else self.damping * value
        return torch.add(kept, direction, alpha=-self.lr * scale), slots
