r"""The linear update rule that moves θ, and with it the memory.

Whatever *linear* rule U turns (θ, θ̃) into the next θ must turn (M, −ĥ) into the next memory: then
h = Xθ + M stays the pre-activation of fresh data. For the paper's rule U(v, w) = η₀ v − η₁ w this
unrolls to its memory term η₁ Σ_s η₀^{t−1−s} ĥ_s. A rule with slots of its own (momentum) or with
step-dependent rates (schedules) fits the same protocol, without a change to the algorithms.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

#: What a rule carries from step to step for one tensor, besides the tensor itself.
Slots = tuple[Tensor, ...]
#: Sizes of v and w at which rules are tried: clipping shows at one, dead zones at another.
SIZES = [(v * size, size) for size in (1e-6, 1.0, 1e6) for v in (0.0, 1.0)]
#: How many steps, each with the slots of the one before.
TRIED_STEPS = 3


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


def require_linear(rule: LinearRule, theta: Tensor) -> None:
    r"""Raise ``ValueError`` unless a rule of sums is the sum of the rules, for a few steps.

    .. math:: U(v_1 + v_2, w_1 + w_2) = U(v_1, w_1) + U(v_2, w_2)

    Copies of the rule are tried, on random tensors with as many rows as θ, in float64 if the rule's
    own tensors and the device allow it.

    Args:
        rule: The rule.
        theta: θ, shape (L, d), whose device and dtype the rule will meet.

    Example:
        >>> require_linear(Damped(lr=0.5, damping=0.9), torch.zeros(2, 3))
    """
    rounding = max(1e-5, 100 * torch.finfo(theta.dtype).eps)
    for sizes in SIZES:
        try:
            gap = _largest_gap(rule, theta, sizes, torch.float64)
        except (RuntimeError, TypeError):
            gap = _largest_gap(rule, theta, sizes, theta.dtype)
        if not gap <= rounding:
            raise ValueError(
                f"rule={rule!r} is not linear in theta and its directions: the rule of a sum is "
                "not the sum of the rules. The memory of decoupled descent, and state evolution, "
                "need rates that depend on neither, without clipping, norms, signs or offsets; "
                "use such a rule, or GradientDescent, which takes any"
            )


def _largest_gap(
    rule: LinearRule, theta: Tensor, sizes: tuple[float, float], dtype: torch.dtype
) -> float:
    """Largest violation over a few steps, as a share of the values; NaN if one is not finite."""
    generator = torch.Generator().manual_seed(0)

    def triple(size: float) -> list[Tensor]:
        drawn = size * torch.randn(2, len(theta), 8, generator=generator, dtype=torch.float64)
        first, second = drawn.to(theta.device, dtype)
        return [first, second, first + second]

    rules = [copy.deepcopy(rule) for _ in range(3)]
    values = triple(sizes[0])
    slots = [own.slots(value) for own, value in zip(rules, values, strict=True)]
    gaps = [0.0]
    for step in range(TRIED_STEPS):
        directions = triple(sizes[1])
        try:
            moved = [
                own(value, direction, kept, step, 1.0)
                for own, value, direction, kept in zip(
                    rules, values, directions, slots, strict=True
                )
            ]
        except LookupError:  # the end of a schedule
            break
        values, slots = [value for value, _ in moved], [kept for _, kept in moved]
        for one, two, both in [values, *zip(*slots, strict=True)]:
            if both.shape == values[0].shape:  # a slot of another shape may count steps
                size = max(float(tensor.abs().max()) for tensor in (one, two, both))
                gaps.append(float((one + two - both).abs().max()) / max(size, 1e-300))
    return float(torch.tensor(gaps).max())


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
