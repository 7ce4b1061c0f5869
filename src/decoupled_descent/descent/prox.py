r"""Proximal steps for gradient descent: penalties and bounds, ISTA and FISTA.

.. math:: \theta_{t+1} = \mathrm{prox}(\eta_0\theta_t - \eta_1 X^\top\hat h_t)

The map acts on every entry of θ alone. So its derivative is one number per entry, which is all that
the estimate of the test error needs (:mod:`decoupled_descent.descent.responses`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from decoupled_descent.checks import real_number
from decoupled_descent.descent.rules import LinearRule, Slots

#: Largest derivative that a map without jumps has when it is tried.
STEEPEST = 1e3


class Prox(ABC):
    """A map that acts on every entry of θ alone, and its derivative."""

    @abstractmethod
    def __call__(self, theta: Tensor, rate: float) -> Tensor:
        """Return the entries after the map, for a step of this rate."""

    @abstractmethod
    def slope(self, theta: Tensor, rate: float) -> Tensor:
        """Return the derivative of the map at every entry."""

    def check(self, theta: Tensor, rate: float) -> None:  # noqa: B027
        """Raise ``ValueError`` if the map cannot be used for θ."""


@dataclass(frozen=True)
class SoftThreshold(Prox):
    r"""The map of the penalty λ‖θ‖₁: entries move towards zero by ηλ, and stop there.

    Args:
        penalty: λ. It belongs to the sum of the losses, or to their mean with
            ``reduction="mean"``.

    Example:
        >>> SoftThreshold(0.5)(torch.tensor([-2.0, 0.1, 1.0]), 1.0)
        tensor([-1.5000,  0.0000,  0.5000])
    """

    penalty: float

    def __post_init__(self) -> None:
        """Check the penalty."""
        _at_least_zero("penalty", self.penalty)

    def __call__(self, theta: Tensor, rate: float) -> Tensor:
        """Return sign(θ) max(|θ| − ηλ, 0)."""
        threshold = rate * self.penalty
        return theta - theta.clamp(-threshold, threshold)

    def slope(self, theta: Tensor, rate: float) -> Tensor:
        """Return 1 for entries that stay away from zero, else 0."""
        return (theta.abs() > rate * self.penalty).to(theta.dtype)


@dataclass(frozen=True)
class Box(Prox):
    """Bounds on every entry: it stops at the nearer bound.

    Args:
        low: The lower bound.
        high: The upper bound.

    Example:
        >>> Box(low=0.0)(torch.tensor([-2.0, 3.0]), 1.0)
        tensor([0., 3.])
    """

    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        """Check the bounds."""
        for name, value in (("low", self.low), ("high", self.high)):
            if value not in (-math.inf, math.inf):
                real_number(name, value)
        if not self.low < self.high:
            raise ValueError(f"low={self.low!r} must be below high={self.high!r}")

    def __call__(self, theta: Tensor, rate: float) -> Tensor:
        """Return θ between the bounds."""
        return theta.clamp(self.low, self.high)

    def slope(self, theta: Tensor, rate: float) -> Tensor:
        """Return 1 between the bounds, else 0."""
        return ((theta > self.low) & (theta < self.high)).to(theta.dtype)


@dataclass(frozen=True)
class Ridge(Prox):
    """The map of the penalty λ‖θ‖²/2.

    Args:
        penalty: λ.

    Example:
        >>> Ridge(1.0)(torch.tensor([3.0]), 0.5)
        tensor([2.])
    """

    penalty: float

    def __post_init__(self) -> None:
        """Check the penalty."""
        _at_least_zero("penalty", self.penalty)

    def __call__(self, theta: Tensor, rate: float) -> Tensor:
        """Return θ/(1 + ηλ)."""
        return theta / (1 + rate * self.penalty)

    def slope(self, theta: Tensor, rate: float) -> Tensor:
        """Return 1/(1 + ηλ)."""
        return torch.full_like(theta, 1 / (1 + rate * self.penalty))


@dataclass(frozen=True)
class Entrywise(Prox):
    """A map of your own, which autograd differentiates.

    Args:
        function: (θ, η) ↦ θ, acting on every entry alone, without jumps.

    Example:
        >>> firm = Entrywise(lambda theta, rate: theta - rate * torch.tanh(theta))
        >>> firm.slope(torch.zeros(2), 0.25)
        tensor([0.7500, 0.7500])
    """

    function: Callable[[Tensor, float], Tensor]

    def __post_init__(self) -> None:
        """Check the function."""
        if not callable(self.function):
            raise ValueError(f"function={self.function!r} must be a function of theta and lr")

    def __call__(self, theta: Tensor, rate: float) -> Tensor:
        """Return the function's value."""
        return self.function(theta, rate)

    def slope(self, theta: Tensor, rate: float) -> Tensor:
        """Differentiate the sum of the entries: each depends on itself alone."""
        with torch.enable_grad():
            at = theta.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.function(at, rate).sum(), at)
        return slope

    def check(self, theta: Tensor, rate: float) -> None:
        """Try the function on random entries: shape, other entries, and jumps."""
        generator = torch.Generator(device="cpu").manual_seed(0)
        drawn = torch.randn(len(theta), 400, generator=generator, device="cpu").to(theta)
        moved = self.function(drawn, rate)
        if moved.shape != drawn.shape:
            raise ValueError(
                f"prox={self!r} returned shape {tuple(moved.shape)} for theta of shape "
                f"{tuple(drawn.shape)}; it must return one value per entry"
            )
        other = drawn.clone()
        other[:, ::2] += 1
        kept = self.function(other, rate)[:, 1::2]
        if not torch.allclose(kept, moved[:, 1::2], rtol=1e-4, atol=1e-6):
            raise ValueError(
                f"prox={self!r} is not separable: an entry of theta moves when others change; "
                "use a map of single entries, such as SoftThreshold, Box or Ridge"
            )
        grid = torch.linspace(-4, 4, 80001, dtype=torch.float64, device=theta.device)
        steepest = float((self.function(grid.to(theta), rate).diff().abs().max()) / 1e-4)
        if steepest > STEEPEST:
            raise ValueError(
                f"prox={self!r} jumps, so that its derivative misses how theta responds; use a "
                "continuous map, such as SoftThreshold"
            )


def _at_least_zero(name: str, value: float) -> None:
    if real_number(name, value) < 0:
        raise ValueError(f"{name}={value!r} must be at least 0")


@dataclass(frozen=True)
class ProximalRule:
    r"""The step of ISTA, or with ``accelerated`` of FISTA.

    .. math::
       v = \mathrm{prox}(\eta_0 y_t - \eta_1 w), \qquad
       y_{t+1} = v + \frac{\tau_t - 1}{\tau_{t+1}}(v - v_{\text{before}}), \qquad
       \tau_{t+1} = \tfrac12\bigl(1 + \sqrt{1 + 4\tau_t^2}\bigr), \quad \tau_0 = 1

    Args:
        lr: η₁.
        damping: η₀.
        prox: The map; None for the identity.
        accelerated: Whether y is extrapolated; else y is v.
    """

    lr: float
    damping: float
    prox: Prox | None
    accelerated: bool = False

    def slots(self, value: Tensor) -> Slots:
        """Carry v if steps are accelerated."""
        return (value,) if self.accelerated else ()

    def __call__(
        self, value: Tensor, direction: Tensor, slots: Slots, step: int, scale: float
    ) -> tuple[Tensor, Slots]:
        """Return the next y, and v."""
        moved = self._descended(value, direction, scale)
        return self._extrapolated(
            moved if self.prox is None else self.prox(moved, self.lr), slots, step
        )

    def along(self, value: Tensor, direction: Tensor, scale: float) -> LinearRule:
        """The rule that moves small changes of y, at the columns of θ that are given."""
        if self.prox is None:
            return self
        return _Along(self, self.prox.slope(self._descended(value, direction, scale), self.lr))

    def _descended(self, value: Tensor, direction: Tensor, scale: float) -> Tensor:
        return torch.add(self.damping * value, direction, alpha=-self.lr * scale)

    def _extrapolated(self, kept: Tensor, slots: Slots, step: int) -> tuple[Tensor, Slots]:
        if not self.accelerated:
            return kept, ()
        momentum = (_tau(step) - 1) / _tau(step + 1)
        return torch.add(kept, kept - slots[0], alpha=momentum), (kept,)


@dataclass(frozen=True, eq=False)
class _Along:
    """A proximal rule for small changes: the map multiplies them by its slope."""

    rule: ProximalRule
    slope: Tensor  # shape (L, S)

    def slots(self, value: Tensor) -> Slots:
        return self.rule.slots(value)

    def __call__(
        self, value: Tensor, direction: Tensor, slots: Slots, step: int, scale: float
    ) -> tuple[Tensor, Slots]:
        """Move changes of shape (L, S k), k for each of the S columns."""
        moved = self.rule._descended(value, direction, scale)
        shape = (*self.slope.shape, -1)
        kept = (moved.reshape(shape) * self.slope.unsqueeze(2)).reshape(moved.shape)
        return self.rule._extrapolated(kept, slots, step)


@cache
def _tau(step: int) -> float:
    """τ of FISTA."""
    tau = 1.0
    for _ in range(step):
        tau = (1 + math.sqrt(1 + 4 * tau * tau)) / 2
    return tau
