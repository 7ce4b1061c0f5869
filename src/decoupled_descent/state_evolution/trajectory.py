r"""The linear algebra of state evolution: block matrices that grow by one block per step."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.descent.rules import LinearRule, require_linear
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.state_evolution.engines import Engine, Request
from decoupled_descent.state_evolution.laws import MixtureLaw


def rule_coefficients(rule: LinearRule, steps: int, width: int, scale: float) -> Tensor:
    r"""Unroll a linear update rule: θ_t = C[t,0] θ_1 + Σ_q C[t,q] θ̃_q.

    The rule is run on the coefficients themselves, so momentum, schedules and L × L
    preconditioners need no formula of their own. For the paper's rule C[t,0] = η₀^{t−1} and
    C[t,q] = −η₁ η₀^{t−1−q}.

    Args:
        rule: Linear in θ and in all θ̃ so far.
        steps: T.
        width: L.
        scale: What the reduction multiplies θ̃ by.

    Returns:
        C, shape (T, L, (T + 1) L).

    Example:
        >>> from decoupled_descent.descent.rules import Damped
        >>> rule_coefficients(Damped(lr=0.5, damping=0.9), 3, 1, 1.0)[2]
        tensor([[ 0.8100, -0.4500, -0.5000,  0.0000]], dtype=torch.float64)
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

    With b_0 = θ_1 and b_q = θ̃_q, and B_0 = m_1, B_q = α χ l_q their overlaps with the means,

    .. math::
       \lim b_q^\top b_t / d &= \alpha \Sigma[q,t] + \alpha B_q^\top l_t \\
       \Omega[r,s] &= \textstyle\sum_{qq'} C[r,q]\,(\lim b_q^\top b_{q'}/d)\,C[s,q']^\top, \qquad
       \Xi[r,s] = \textstyle\sum_q C[r,q]\,(\lim b_q^\top b_s/d)

    (Σ[0,t] = 0). Written out for the paper's rule this is Definition "ddState" with Ξ_t[r+1,s]
    built from Ξ_t[r,s].

    Args:
        mixture: Gives χ.
        algorithm: Gives the head's step.
        coefficients: C.
        ratio: α.
        alignment: m_1, shape (J, L).
        overlap: Ω[1,1], shape (L, L).
        parameters: ā_1.
        engine: Takes the expectations.
    """

    def __init__(
        self,
        mixture: MixtureLaw,
        algorithm: DecoupledDescent,
        coefficients: Tensor,
        ratio: float,
        alignment: Tensor,
        overlap: Tensor,
        parameters: Parameters,
        engine: Engine,
    ) -> None:
        self.chi, self.algorithm, self.ratio = mixture.overlaps, algorithm, ratio
        self.coefficients, self.engine = coefficients, engine
        self.steps, self.width, size = coefficients.shape
        self.gram = torch.zeros(size, size, dtype=torch.float64)
        self.gram[: self.width, : self.width] = overlap
        self.means = torch.zeros(len(alignment), size, dtype=torch.float64)
        self.means[:, : self.width] = alignment
        self.omega = torch.zeros(size - self.width, size - self.width, dtype=torch.float64)
        self.sigma = torch.zeros_like(self.omega)
        self.parameters = parameters
        self.alignment: list[Tensor] = []
        self.signal: list[Tensor] = []
        self.heads: list[Parameters] = []
        self.losses: list[Tensor] = []

    def advance(self) -> float:
        """Make step t and return the test error of iterate t; infinite once overlaps are."""
        t, width = len(self.losses), self.width
        seen_size = (t + 1) * width
        now = slice(t * width, seen_size)  # iterate t, and θ̃_{t−1} among θ_1, θ̃_1, …
        new = slice(seen_size, seen_size + width)  # θ̃_t
        own = self.coefficients[t, :, :seen_size]
        past = self.coefficients[: t + 1, :, :seen_size].flatten(0, 1)
        row = own @ self.gram[:seen_size, :seen_size] @ past.T
        row[:, -width:] = (row[:, -width:] + row[:, -width:].T) / 2
        self.omega[now, :seen_size] = row
        self.omega[:seen_size, now] = row.T
        alignment = self.means[:, :seen_size] @ own.T
        gram = self.gram[now, :seen_size]
        if not bool(torch.isfinite(row).all() and torch.isfinite(gram).all()):
            return math.inf
        seen = self.engine.step(Request(row, alignment, self.parameters, own, gram))
        self.sigma[:seen_size, now] = seen.correlation
        self.sigma[now, :seen_size] = seen.correlation.T
        self.means[:, new] = self.ratio * self.chi @ seen.signal
        column = self.ratio * self.means[:, : new.stop].T @ seen.signal
        column[width:] += self.ratio * seen.correlation
        self.gram[: new.stop, new] = column
        self.gram[new, : new.stop] = column.T
        self.losses.append(seen.loss)
        self.alignment.append(alignment)
        self.signal.append(seen.signal)
        self.heads.append(self.parameters)
        self.parameters = self.algorithm.step_head(self.parameters, seen.head)
        return float(seen.loss)

    def xi(self, reached: int) -> Tensor:
        """Ξ up to the iterate reached, shape (T L, T L)."""
        size = reached * self.width
        coefficients = self.coefficients[:reached, :, : size + self.width].flatten(0, 1)
        return coefficients @ self.gram[: size + self.width, self.width : size + self.width]

    def quantities(self, reached: int) -> dict[str, Tensor]:
        """Everything up to the iterate reached, by name, block matrices as (T, T, L, L)."""
        size = reached * self.width

        def blocks(matrix: Tensor) -> Tensor:
            shape = (reached, self.width, reached, self.width)
            return matrix[:size, :size].reshape(shape).transpose(1, 2)

        omega = blocks(self.omega)
        found = {
            "test_error": torch.stack(self.losses[:reached]),
            "alignment": torch.stack(self.alignment[:reached]),
            "overlap": omega.diagonal().permute(2, 0, 1),
            "signal": torch.stack(self.signal[:reached]),
            "omega": omega,
            "sigma": blocks(self.sigma),
            "xi": blocks(self.xi(reached)),
        }
        for name in self.heads[0]:
            found[f"head.{name}"] = torch.stack([head[name] for head in self.heads[:reached]])
        return found
