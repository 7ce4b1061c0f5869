r"""Full-batch gradient descent, the paper's equation "gd"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from decoupled_descent.descent.common import Info, OnePassDescent, starting_theta
from decoupled_descent.descent.passes import Pass, Request
from decoupled_descent.descent.rules import Slots
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.objective import Objective
from decoupled_descent.rows.blocks import Rows


class State(NamedTuple):
    """What gradient descent carries from step to step.

    Attributes:
        theta: θ, shape (L, d).
        head: a, by parameter name.
        slots: What the update rule carries for θ.
        step: How many updates have been made.
    """

    theta: Tensor
    head: Parameters
    slots: Slots
    step: int


@dataclass(frozen=True)
class GradientDescent(OnePassDescent[State]):
    r"""Plain full-batch gradient descent.

    .. math:: h_t = X\theta_t, \quad \hat h_t = \nabla_h\Psi(h_t, y, a_t), \quad
       \theta_{t+1} = \eta_0\theta_t - \eta_1 X^\top \hat h_t, \quad
       a_{t+1} = \gamma_0 a_t - \gamma_1 \langle\nabla_a\Psi\rangle

    Its train error is *not* an estimate of the test error: that is what it is here to show.

    Args:
        lr: η₁.
        damping: η₀.
        head_lr: γ₁, ``lr`` by default; 0 freezes the head.
        head_damping: γ₀.
        reduction: ``"sum"`` as in the paper, or ``"mean"`` to divide θ's step by n.
        rule: Replaces η₀ v − η₁ w by another linear rule.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.xor(dimension=20, snr=4.0).sample(30, seed=0)
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> rows, algorithm = dd.Rows(X, y), dd.GradientDescent(lr=0.05)
        >>> state = algorithm.init(rows, objective, seed=0)
        >>> state, info = algorithm.step(state, rows, objective)
        >>> state.step, info.losses.shape
        (1, torch.Size([30]))
    """

    estimates_test_error: ClassVar[bool] = False

    def init(
        self,
        rows: Rows,
        objective: Objective,
        theta: Tensor | None = None,
        seed: int | None = None,
    ) -> State:
        """Check that everything fits and return the starting state.

        Args:
            rows: The data.
            objective: Ψ.
            theta: θ₁, shape (L, d); entries drawn from N(0, 1) by default.
            seed: Draws θ₁.

        Returns:
            The state before any update.
        """
        theta = starting_theta(rows, objective, theta, seed)
        return State(theta, objective.parameters(rows.X), self.update.slots(theta), 0)

    def request(self, state: State, rows: Rows, objective: Objective) -> Request:
        """Say what a step needs to know of the data."""
        return Request(objective, state.theta, state.head, trains_head=self.trains_head)

    def advance(self, state: State, rows: Rows, found: Pass) -> tuple[State, Info]:
        """Make the update from what a pass found."""
        theta, slots = self.update(
            state.theta, found.gradient, state.slots, state.step, self.scale(rows.n)
        )
        head = self.step_head(state.head, found.head)
        info = Info(found.losses, found.preactivations.T, None)
        return State(theta, head, slots, state.step + 1), info
