r"""One Newton step on a ridge-penalised loss whose outputs are linear in the parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.precondition import Precondition, precondition
from decoupled_descent.objective import BoundObjective
from decoupled_descent.objective.losses import Loss
from decoupled_descent.objective.second_order import Curvature, second_order
from decoupled_descent.rows.blocks import Rows

#: Conjugate gradients stop at this accuracy: a further Newton step is cheaper than a more exact
#: direction.
FORCING = 1e-4
#: For squared loss there is a single step, which must be exact.
EXACT = 1e-24
#: The most conjugate gradient steps within one Newton step.
INNER = 300
#: A backtracking step shorter than this ends the line search.
SHORTEST = 1e-6


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
    def removed(self) -> Tensor:
        """How much weight is left out of each row, shape (n,)."""
        return self.weights if self.rows.removed is None else self.rows.removed

    @cached_property
    def total(self) -> float:
        """Σ_i w_i."""
        return float(self.rows.total(self.weights.sum())[0])

    @property
    def exact(self) -> bool:
        """Whether the loss is quadratic, so that one Newton step reaches the minimum."""
        return self.bound.objective.loss.name == "squared"

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
    def intercept(self) -> bool:
        """Whether the head adds a trainable constant to the outputs."""
        return bool(self.bound.parameters())

    def expand(self, outputs: Tensor) -> Curvature:
        """The loss to second order at outputs of shape (n, K), before weights."""
        return second_order(self.loss, outputs, self.rows.y, self.smoothing)

    def slopes(self, outputs: Tensor, span: slice) -> Tensor:
        """∂ℓ/∂o at outputs of shape (K, b, s): s versions of b consecutive rows."""
        count, b, size = outputs.shape
        y = self.rows.y[span].repeat_interleave(size, 0)
        flat = outputs.reshape(count, b * size).T
        found = second_order(self.loss, flat, y, self.smoothing)
        return found.slope.T.reshape(count, b, size)


class Move(NamedTuple):
    """What a Newton step found at θ, and where it leads.

    Attributes:
        outputs: o at the start of the step, shape (n, K).
        decrement: gᵀH⁻¹g there, as a share of F: twice what the step gains if F is quadratic.
        theta: θ after the step, shape (K, d).
        intercept: The intercepts after the step, shape (K,), or None.
        inverse: An approximate H⁻¹, for the next step of this problem or a similar one.
    """

    outputs: Tensor
    decrement: float
    theta: Tensor
    intercept: Tensor | None
    inverse: Precondition


def newton_step(
    problem: Problem,
    theta: Tensor,
    intercept: Tensor | None,
    inverse: Precondition | None = None,
) -> Move:
    """Solve for the Newton direction by conjugate gradients, and search along it.

    Args:
        problem: What is minimised.
        theta: θ, shape (K, d).
        intercept: The intercepts, shape (K,), or None.
        inverse: The approximate H⁻¹ of an earlier step; by default one is made for this step.

    Returns:
        What was found, and where the step leads.
    """
    rows, weights = problem.rows, problem.weights
    shift = theta.new_zeros(len(theta)) if intercept is None else intercept
    outputs = rows.forward(theta) + shift.unsqueeze(1)  # (K, n)
    bends = problem.expand(outputs.T)
    weighted = weights * bends.slope.T
    slope = rows.backward(weighted) + problem.ridge * theta
    pulled, now = rows.total(weighted.sum(1), weights @ bends.value)
    shift_slope = pulled if intercept is not None else torch.zeros_like(shift)
    system = _System(problem, bends, intercept is not None, inverse)
    direction, shift_direction, moved = system.solve(-slope, -shift_slope)
    gain = float((slope * direction).sum() + (shift_slope * shift_direction).sum())

    def value(t: float) -> float:
        at = theta + t * direction
        (losses,) = rows.total(weights @ problem.expand((outputs + t * moved).T).value)
        return float(losses + 0.5 * problem.ridge * at.square().sum())

    start = float(now + 0.5 * problem.ridge * theta.square().sum())
    t = search(value, start, gain, 1e-15 * problem.total)
    after = None if intercept is None else intercept + t * shift_direction
    gained = share(-gain, start)
    return Move(outputs.T, gained, theta + t * direction, after, system.precondition)


def share(gain: float, value: float) -> float:
    """A gain relative to F: its scale depends on the loss, and is small near interpolation."""
    return gain / max(abs(value), 1e-100)


def search(
    value: Callable[[float], float], start: float, gain: float, rounding: float = 0.0
) -> float:
    """Halve a step until it lowers F by a share of what the slope promises (Armijo).

    F has a relative error and an absolute one, ``rounding``. A rise smaller than these is accepted.
    """
    t, slack = 1.0, 1e-13 * abs(start) + rounding
    while t > SHORTEST and not value(t) <= start + 1e-4 * t * gain + slack:
        t /= 2
    return t if t > SHORTEST else 0.0


class _System:
    """The Hessian of F and a preconditioner, for conjugate gradients in (K, d) layout."""

    def __init__(
        self,
        problem: Problem,
        bends: Curvature,
        intercept: bool,
        inverse: Precondition | None = None,
    ) -> None:
        self.rows, self.ridge, self.weights = problem.rows, problem.ridge, problem.weights
        self.bends, self.intercept = bends, intercept
        self.total, self.exact = problem.total, problem.exact
        if inverse is None:
            curvature = (self.weights * bends.diagonal.T).clamp_min(0)  # (K, n)
            inverse = precondition(self.rows, self.ridge, curvature, bends, intercept)
        self.precondition = inverse

    def times(self, theta: Tensor, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """H v, and the outputs that v moves, in one pass over the rows."""
        pulled = torch.zeros_like(shift)

        def bend(h: Tensor, span: slice) -> Tensor:
            bent = self._bent(h + shift.unsqueeze(1), span)
            pulled.add_(bent.sum(1))
            return bent

        moved, pushed = self.rows.through(theta, bend)
        together = self.rows.total(pulled)[0] if self.intercept else torch.zeros_like(shift)
        return pushed + self.ridge * theta, together, moved + shift.unsqueeze(1)

    def _bent(self, moved: Tensor, span: slice) -> Tensor:
        """w_i W_i times what the outputs of some rows move by, shape (K, b)."""
        if self.bends.full is not None:
            bent = torch.einsum("nab,bn->an", self.bends.full[span], moved)
        else:
            bent = self.bends.diagonal[span].T * moved
            if self.bends.rank_one is not None:
                arms = self.bends.rank_one[span].T
                bent = bent - arms * (arms * moved).sum(0)
        return self.weights[span] * bent

    def solve(self, theta: Tensor, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """H⁻¹ of a right-hand side by conjugate gradients, and the outputs that it moves."""
        x, x_shift = torch.zeros_like(theta), torch.zeros_like(shift)
        moved = theta.new_zeros(len(theta), self.rows.here)
        z, z_shift = self.precondition(theta, shift)
        d, d_shift = z.clone(), z_shift.clone()
        size = first = float((theta * z).sum() + (shift * z_shift).sum())
        rough = EXACT if self.exact else 0.1 * max(min(0.25, first / self.total), FORCING)
        enough = max(rough * first, 1e-26 * self.total)
        for _ in range(INNER):
            pushed, pushed_shift, outputs = self.times(d, d_shift)
            bend = float((d * pushed).sum() + (d_shift * pushed_shift).sum())
            if bend <= 0:
                break
            t = size / bend
            x, x_shift, moved = x + t * d, x_shift + t * d_shift, moved + t * outputs
            theta, shift = theta - t * pushed, shift - t * pushed_shift
            z, z_shift = self.precondition(theta, shift)
            following = float((theta * z).sum() + (shift * z_shift).sum())
            if following <= enough:
                break
            d = z + following / size * d
            d_shift = z_shift + following / size * d_shift
            size = following
        return x, x_shift, moved
