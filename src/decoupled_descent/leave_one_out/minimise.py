r"""One Newton step on a ridge-penalised loss whose outputs are linear in the parameters.

Parameters are β = (θ, b), shape (K, d + 1): the last column has the intercepts, which are not
penalised. Without intercepts it is zero, and so is its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.conjugate_gradients import Iterate, conjugate_gradients
from decoupled_descent.leave_one_out.minimum import Minimum, linear_minimum
from decoupled_descent.leave_one_out.precondition import Precondition, precondition
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective import Parameters
from decoupled_descent.objective.second_order import Curvature

#: Conjugate gradients stop at this accuracy: a further Newton step is cheaper than a more exact
#: direction.
FORCING = 1e-4
#: For squared loss there is a single step, which must be exact.
EXACT = 1e-24
#: The most conjugate gradient steps within one Newton step.
INNER = 300
#: A backtracking step shorter than this ends the line search.
SHORTEST = 1e-6


class NewtonStep(NamedTuple):
    """A Newton step: its start, its result, and what leaving rows out needs.

    Attributes:
        problem: What is minimised.
        outputs: o at the start of the step, shape (n, K).
        decrement: gᵀH⁻¹g there, as a share of F: twice what the step gains if F is quadratic.
        theta: θ after the step, shape (K, d).
        head: The intercepts after the step, shape (K,), by their name; empty without intercepts.
        inverse: An approximate H⁻¹, for the next step of this problem or a similar one.
    """

    problem: Problem
    outputs: Tensor
    decrement: float
    theta: Tensor
    head: Parameters
    inverse: Precondition

    def minimum(self) -> Minimum:
        """What leaving rows out needs, if the step started at the minimum."""
        return linear_minimum(self.problem, self.outputs)

    def again(self, problem: Problem, theta: Tensor, head: Parameters) -> NewtonStep:
        """A step of a similar problem, by the same approximate inverse."""
        return newton_step(problem, theta, head, self.inverse)


def newton_step(
    problem: Problem, theta: Tensor, head: Parameters, inverse: Precondition | None = None
) -> NewtonStep:
    """Solve for the Newton direction by conjugate gradients, and search along it.

    Args:
        problem: What is minimised.
        theta: θ, shape (K, d).
        head: The intercepts, shape (K,), by their name; empty without intercepts.
        inverse: The approximate H⁻¹ of an earlier step; by default one is made for this step.

    Returns:
        The step.
    """
    rows, weights = problem.rows, problem.weights
    shift = next(iter(head.values()), theta.new_zeros(len(theta)))
    start = torch.cat([theta, shift.unsqueeze(1)], 1)
    penalty = torch.full_like(start[:1], problem.ridge)
    penalty[:, -1] = 0.0
    outputs = rows.forward(theta) + shift.unsqueeze(1)  # (K, n)
    curvature = problem.expand(outputs.T)
    weighted = weights * curvature.slope.T
    pulled, now = rows.total(weighted.sum(1), weights @ curvature.value)
    free = pulled if problem.intercept else torch.zeros_like(shift)
    slope = torch.cat([rows.backward(weighted), free.unsqueeze(1)], 1) + penalty * start
    if inverse is None:
        inverse = precondition(problem, curvature)

    def done(at: Iterate) -> bool:
        first = float(at.first)
        rough = 0.1 * max(min(0.25, first / problem.total), FORCING)
        share = EXACT if problem.quadratic else rough
        return float(at.size) <= max(share * first, 1e-26 * problem.total)

    hessian = Hessian(problem, curvature, penalty)
    found = conjugate_gradients(hessian, inverse, -slope, done, INNER)
    direction, moved = found.x, found.moved
    gain = float((slope * direction).sum())

    def value(t: float) -> float:
        (losses,) = rows.total(weights @ problem.expand((outputs + t * moved).T).value)
        return float(losses + 0.5 * (penalty * (start + t * direction).square()).sum())

    before = float(now + 0.5 * (penalty * start.square()).sum())
    t = line_search(value, before, gain, 1e-15 * problem.total)
    after = start + t * direction
    following = {name: after[:, -1].contiguous() for name in head}
    gained = -gain / max(abs(before), 1e-100)  # the scale of F depends on the loss
    return NewtonStep(problem, outputs.T, gained, after[:, :-1].contiguous(), following, inverse)


class Hessian:
    """H times parameters (K, d + 1), and the outputs that they move, in one pass over the rows."""

    def __init__(self, problem: Problem, curvature: Curvature, penalty: Tensor) -> None:
        self.problem, self.curvature, self.penalty = problem, curvature, penalty

    def __call__(self, beta: Tensor) -> tuple[Tensor, Tensor]:
        """H β, and the outputs that β moves, shape (K, n)."""
        rows, weights, shift = self.problem.rows, self.problem.weights, beta[:, -1:]
        pulled = torch.zeros_like(shift)

        def bend(h: Tensor, span: slice) -> Tensor:
            bent = weights[span] * self.curvature.times((h + shift).unsqueeze(2), span).squeeze(2)
            pulled.add_(bent.sum(1, keepdim=True))
            return bent

        moved, pushed = rows.through(beta[:, :-1], bend)
        free = rows.total(pulled)[0] if self.problem.intercept else torch.zeros_like(shift)
        return torch.cat([pushed, free], 1) + self.penalty * beta, moved + shift


def line_search(
    value: Callable[[float], float], start: float, gain: float, rounding: float = 0.0
) -> float:
    """Halve a step until it lowers F by a share of what the slope promises (Armijo).

    F has a relative error and an absolute one, ``rounding``. A rise smaller than these is accepted.
    """
    t, slack = 1.0, 1e-13 * abs(start) + rounding
    while t > SHORTEST and not value(t) <= start + 1e-4 * t * gain + slack:
        t /= 2
    return t if t > SHORTEST else 0.0
