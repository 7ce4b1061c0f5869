r"""The recursion of methods with a correction: linear algebra on block matrices.

:class:`Trajectory` keeps block matrices that grow by one block per step. The expectations of a step
come from an engine (:mod:`decoupled_descent.theory.engines`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from decoupled_descent.descent.common import Descent
from decoupled_descent.descent.rules import LinearRule, require_linear
from decoupled_descent.objective import Parameters
from decoupled_descent.theory.averages import Point
from decoupled_descent.theory.engines import HermiteEngine, PathEngine, Request
from decoupled_descent.theory.ridge import RidgeStep, StartingOverlaps


def rule_coefficients(rule: LinearRule, steps: int, width: int, scale: float) -> Tensor:
    r"""Unroll a linear update rule: θ_t = C[t,0] θ_1 + Σ_q C[t,q] θ̃_q.

    The rule is applied to the coefficients themselves, so that momentum, schedules and L × L
    preconditioners need no separate formulas. For the paper's rule C[t,0] = η₀^{t−1} and C[t,q] =
    −η₁ η₀^{t−1−q}. ``scale`` multiplies every θ̃. The shape is (T, L, (T + 1) L).
    """
    identity = torch.eye(width, dtype=torch.float64)
    require_linear(rule, identity)
    value = torch.zeros(width, (steps + 1) * width, dtype=torch.float64)
    value[:, :width] = identity
    unrolled, slots = [value], rule.slots(value)
    for step in range(steps - 1):
        direction = torch.zeros_like(value)
        direction[:, (step + 1) * width : (step + 2) * width] = identity
        value, slots = rule(value, direction, slots, step, scale)
        unrolled.append(value)
    return torch.stack(unrolled)


class Trajectory:
    r"""One recursion: the Gram matrix of θ_1, θ̃_1, θ̃_2, …, extended by one block per step.

    With b_0 = θ_1, b_q = θ̃_q, K, a, H and D of :func:`ridge_step`, C[r,q] of
    :func:`rule_coefficients`, and the expectations of an engine,

    .. math::
       \lim M b_t / d &= K l_t, \qquad
       \lim b_q^\top C b_t / d = a\,\Sigma[q,t] + l_q^\top H l_t, \qquad
       \lim b_0^\top C b_t / d = (M W C \theta_1/d)^\top D\, l_t \\
       \Omega[r,s] &= \textstyle\sum_{qq'} C[r,q]\,(\lim b_q^\top C b_{q'}/d)\,C[s,q']^\top, \qquad
       \Xi[r,s] = \textstyle\sum_q C[r,q]\,(\lim b_q^\top C b_s/d)
    """

    def __init__(
        self,
        ridge: RidgeStep,
        algorithm: Descent,
        coefficients: Tensor,
        start: StartingOverlaps,
        parameters: Parameters,
        engine: Callable[[], HermiteEngine | PathEngine],
        masks: Tensor | None = None,
    ) -> None:
        self.ridge, self.algorithm, self.engine = ridge, algorithm, engine()
        self.coefficients, self.pull, self.masks = coefficients, start.pull, masks
        self.steps, self.width, size = coefficients.shape
        self.gram = torch.zeros(size, size, dtype=torch.float64)
        self.gram[: self.width, : self.width] = start.overlap
        self.means = torch.zeros(len(start.alignment), size, dtype=torch.float64)
        self.means[:, : self.width] = start.alignment
        self.omega = torch.zeros(size - self.width, size - self.width, dtype=torch.float64)
        self.sigma = torch.zeros_like(self.omega)
        self.parameters, self.head_slots = parameters, algorithm.head_slots(parameters)
        self.alignment: list[Tensor] = []
        self.signal: list[Tensor] = []
        self.heads: list[Parameters] = []
        self.losses: list[Tensor] = []

    def advance(self) -> float:
        """Make step t and return the test error of iterate t; infinite if overlaps are."""
        t, width, ridge = len(self.losses), self.width, self.ridge
        size = (t + 1) * width
        now = slice(t * width, size)  # iterate t, and θ̃_{t−1} among θ_1, θ̃_1, …
        new = slice(size, size + width)  # θ̃_t
        own = self.coefficients[t, :, :size]
        past = self.coefficients[: t + 1, :, :size].flatten(0, 1)
        row = own @ self.gram[:size, :size] @ past.T
        row[:, -width:] = (row[:, -width:] + row[:, -width:].T) / 2
        self.omega[now, :size] = row
        self.omega[:size, now] = row.T
        alignment = self.means[:, :size] @ own.T
        gram = self.gram[now, :size]
        if not bool(torch.isfinite(row).all() and torch.isfinite(gram).all()):
            return math.inf
        point = Point(alignment, row[:, -width:], self.parameters)
        averages, correlation = self.engine.step(Request(point, row, own, gram))
        if self.masks is not None:
            own_masks = self.masks[: t + 1, t].repeat_interleave(width)
            correlation = correlation * own_masks.unsqueeze(1)
        self.sigma[:size, now] = correlation
        self.sigma[now, :size] = correlation.T
        self.means[:, new] = ridge.align @ averages.signal
        self.signal.append(averages.signal)
        among_steps = torch.cat(self.signal, 1).T @ (ridge.signal @ averages.signal)
        among_steps += ridge.noise * correlation
        column = torch.cat([self.pull.T @ ridge.start @ averages.signal, among_steps])
        self.gram[: new.stop, new] = column
        self.gram[new, : new.stop] = column.T
        self.losses.append(averages.loss)
        self.alignment.append(alignment)
        self.heads.append(self.parameters)
        self.parameters, self.head_slots = self.algorithm.step_head(
            self.parameters, averages.head, self.head_slots, t
        )
        return float(averages.loss)

    def quantities(self, reached: int) -> dict[str, Tensor]:
        """Return everything up to the iterate reached, by name; block matrices as (T, T, L, L)."""
        width, size = self.width, reached * self.width
        stop = size + width

        def blocks(matrix: Tensor) -> Tensor:
            shape = (reached, width, reached, width)
            return matrix[:size, :size].reshape(shape).transpose(1, 2)

        omega = blocks(self.omega)
        coefficients = self.coefficients[:reached, :, :stop].flatten(0, 1)
        quantities = {
            "test_error": torch.stack(self.losses[:reached]),
            "train_error": torch.stack(self.losses[:reached]),
            "alignment": torch.stack(self.alignment[:reached]),
            "overlap": omega.diagonal().permute(2, 0, 1),
            "signal": torch.stack(self.signal[:reached]),
            "omega": omega,
            "sigma": blocks(self.sigma),
            "xi": blocks(coefficients @ self.gram[:stop, width:stop]),
            "gradient_overlap": blocks(self.gram[width:stop, width:stop]),
        }
        for name in self.heads[0]:
            quantities[f"head.{name}"] = torch.stack([head[name] for head in self.heads[:reached]])
        return quantities
