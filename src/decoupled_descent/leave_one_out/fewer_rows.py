r"""The model without a large set of rows, such as half of them, from the minimum with all rows.

For squared loss the block formula is exact,

.. math:: o_S^{(-S)} = o_S + V_{SS}\,(I - W_S V_{SS})^{-1} g_S .

For other losses the curvature changes on the way. Newton steps of the problem without the set start
at the minimum with all rows, and use its approximate inverse: no new factor is made. They end at
the minimum without the set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.leave_out import leave_out
from decoupled_descent.leave_one_out.minimise import newton_step
from decoupled_descent.leave_one_out.minimum import SQUARE, linear_minimum
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective import Parameters

#: The most Newton steps without a set of rows.
STEPS = 20
#: The last step is the first one that lowers F by less than half of this share. The steps converge
#: quadratically, so outputs are exact to about this share.
TOLERANCE = 1e-6


def outputs_without(
    problem: Problem, theta: Tensor, head: Parameters, sets: Sequence[Tensor]
) -> Iterator[Tensor]:
    """Outputs of the rows of each set, shape (s, K), by the model that is trained without it.

    Args:
        problem: What was minimised.
        theta: θ at its minimum, shape (K, d).
        head: The intercepts there, by their name.
        sets: The rows that leave together, by their numbers.
    """
    if problem.quadratic and problem.rows.n <= SQUARE:
        yield from _by_blocks(problem, theta, head, sets)
        return
    inverse = newton_step(problem, theta, head).inverse
    for out in sets:
        weights = problem.weights.clone()
        weights[out] = 0.0
        without = replace(problem, weighting=weights)
        own_theta, own_head = theta, head
        for _ in range(1 if problem.quadratic else STEPS):
            step = newton_step(without, own_theta, own_head, inverse)
            own_theta, own_head = step.theta, step.head
            if step.decrement <= TOLERANCE:
                break
        yield problem.rows.gather(out) @ own_theta.T + _intercepts(own_theta, own_head)


def _by_blocks(
    problem: Problem, theta: Tensor, head: Parameters, sets: Sequence[Tensor]
) -> Iterator[Tensor]:
    """The same by the block formula, for squared loss."""
    minimum = linear_minimum(problem, problem.rows.forward(theta).T + _intercepts(theta, head))
    for out in sets:
        groups = 1 + torch.arange(problem.rows.n, device=out.device)
        groups[out] = 0  # all other rows are alone
        together = replace(problem, rows=problem.rows.with_groups(groups))
        yield leave_out(minimum._replace(problem=together)).outputs[out]


def _intercepts(theta: Tensor, head: Parameters) -> Tensor:
    """The intercepts, shape (K,); zero if there are none."""
    return next(iter(head.values()), theta.new_zeros(len(theta)))
