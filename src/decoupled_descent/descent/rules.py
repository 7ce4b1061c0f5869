r"""The linear update rule that moves θ, and with it the memory.

The *linear* rule U that turns (θ, θ̃) into the next θ must also turn (M, −ĥ) into the next memory.
Then h = Xθ + M stays distributed as the pre-activations of new rows. For the paper's rule U(v, w) =
η₀ v − η₁ w this unrolls to its memory term η₁ Σ_s η₀^{t−1−s} ĥ_s. A rule that carries more
(momentum) or with step-dependent rates (schedules) fits the same protocol, without a change to the
algorithms: :class:`SGD` is that of ``torch.optim.SGD``.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from decoupled_descent.checks import real_number
from decoupled_descent.descent.schedules import Schedule, Unrolled

#: What a rule carries from step to step for one tensor, besides the tensor itself.
Slots = tuple[Tensor, ...]
#: Sizes of v and w at which rules are tried: large ones find clipping, small ones dead zones.
SIZES = [(v * size, size) for size in (1e-6, 1.0, 1e6) for v in (0.0, 1.0)]
#: The number of steps that are tried, one after the other.
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
    r"""Raise ``ValueError`` unless a rule is additive in its arguments, for a few steps.

    .. math:: U(v_1 + v_2, w_1 + w_2) = U(v_1, w_1) + U(v_2, w_2)

    Copies of the rule are tried, on random tensors with as many rows as θ, in float64 if the rule's
    own tensors and the device allow it.

    Args:
        rule: The rule.
        theta: θ, shape (L, d), with the device and the dtype of what the rule will be given.

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
        shape, device = (2, len(theta), 8), generator.device
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64, device=device)
        first, second = (size * drawn).to(theta.device, dtype)
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
            if both.shape == values[0].shape:  # a slot of another shape may be a counter of steps
                size = max(float(tensor.abs().max()) for tensor in (one, two, both))
                gaps.append(float((one + two - both).abs().max()) / max(size, 1e-300))
    return float(torch.tensor(gaps, device="cpu").max())


def damped_inverse(jacobian: Tensor, damping: float) -> Tensor:
    r"""``(|J̄| + δ I)⁻¹`` for the symmetric part of J̄, whose eigenvalues may have either sign.

    Example:
        >>> damped_inverse(torch.diag(torch.tensor([0.4, -0.1])), 0.1)
        tensor([[2., 0.],
                [0., 5.]])
    """
    values, vectors = torch.linalg.eigh((jacobian + jacobian.T) / 2)
    inverse: Tensor = (vectors / (values.abs() + damping)) @ vectors.T
    return inverse


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


@dataclass(frozen=True, eq=False)
class SGD:
    r"""The rule of ``torch.optim.SGD``: momentum, Nesterov's momentum, weight decay, schedules.

    .. math::
       u &= w + \lambda v, \qquad
       b \leftarrow \mu b + (1 - \tau) u \;(b = u \text{ at first}) \\
       v &\leftarrow v - \eta_t\, b, \qquad\text{or, with Nesterov's momentum,}\qquad
       v \leftarrow v - \eta_t (u + \mu b)

    It is linear in v and in all w so far, so the memory of decoupled descent can follow it.

    Args:
        lr: η.
        momentum: μ.
        dampening: τ.
        nesterov: Whether the momentum is Nesterov's.
        weight_decay: λ.
        schedule: A function of the step, 0 at first, that returns what multiplies ``lr``; or one
            that makes a ``torch.optim.lr_scheduler`` for an optimiser, such as
            ``functools.partial(CosineAnnealingLR, T_max=100)``, with one update per epoch of it.

    Example:
        >>> import functools, decoupled_descent as dd
        >>> cosine = functools.partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=50)
        >>> rule = dd.rules.SGD(lr=0.1, momentum=0.9, schedule=cosine)
        >>> X, y = dd.mixtures.xor(dimension=100, snr=8.0).sample(200, seed=0)
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> algorithm = dd.DecoupledDescent(lr=0.1, rule=rule)
        >>> dd.fit(X, y, objective, algorithm, steps=50).theta.shape
        torch.Size([2, 100])
    """

    lr: float
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        """Check the options, as ``torch.optim.SGD`` does."""
        for name in ("lr", "momentum", "weight_decay", "dampening"):
            value = real_number(name, getattr(self, name))
            if value < 0 and name != "dampening":
                raise ValueError(f"{name}={value!r} must be a number of at least 0")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise ValueError(
                f"nesterov=True needs momentum above 0 and no dampening, not momentum="
                f"{self.momentum!r}, dampening={self.dampening!r}"
            )
        self.rates(0)

    @cached_property
    def _unrolled(self) -> Unrolled:
        return Unrolled(self.schedule, self.lr, self.momentum)

    @cached_property
    def _carries(self) -> bool:
        """Whether there is momentum at some step; some schedules turn it on."""
        return self.momentum != 0 or self.rates(0)[1] != 0

    def rates(self, step: int) -> tuple[float, float]:
        """Return lr and momentum of one step; ``IndexError`` past the end of the schedule."""
        return self._unrolled[step]

    def slots(self, value: Tensor) -> Slots:
        """Carry the momentum buffer b."""
        return (torch.zeros_like(value),) if self._carries else ()

    def __call__(
        self, value: Tensor, direction: Tensor, slots: Slots, step: int, scale: float
    ) -> tuple[Tensor, Slots]:
        """Return the next value and buffer."""
        lr, momentum = self.rates(step)
        if self.weight_decay == 0 and not slots:
            return torch.add(value, direction, alpha=-lr * scale), slots
        slope = direction * scale if scale != 1 else direction
        if self.weight_decay != 0:
            slope = torch.add(slope, value, alpha=self.weight_decay)
        if not slots:
            return torch.add(value, slope, alpha=-lr), slots
        if step == 0:
            buffer = slope.clone()
        else:
            buffer = torch.add(momentum * slots[0], slope, alpha=1 - self.dampening)
        moved = torch.add(slope, buffer, alpha=momentum) if self.nesterov else buffer
        return torch.add(value, moved, alpha=-lr), (buffer,)
