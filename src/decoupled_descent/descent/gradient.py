r"""Gradient descent, the paper's equation "gd"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from decoupled_descent.descent.batches import Batched, in_batches
from decoupled_descent.descent.head import HeadSlots
from decoupled_descent.descent.info import Info, LimitStep
from decoupled_descent.descent.requests import Pass, PassResult, StackedStep
from decoupled_descent.descent.rules import Slots
from decoupled_descent.objective import BoundObjective, Parameters
from decoupled_descent.rows.blocks import Rows


class GradientState(NamedTuple):
    """What gradient descent carries from step to step."""

    theta: Tensor  # θ, shape (L, d)
    head: Parameters  # a, by parameter name
    slots: Slots  # what the update rule carries for θ
    head_slots: HeadSlots  # what the head's optimiser carries
    step: int  # the number of updates so far


@dataclass(frozen=True)
class GradientDescent(Batched):
    r"""Plain gradient descent.

    .. math:: h_t = X\theta_t, \quad \hat h_t = \nabla_h\Psi(h_t, y, a_t), \quad
       \theta_{t+1} = \eta_0\theta_t - \eta_1 X^\top \hat h_t, \quad
       a_{t+1} = \gamma_0 a_t - \gamma_1 \langle\nabla_a\Psi\rangle

    Its train error is *not* an estimate of the test error.

    Args:
        lr: η₁.
        damping: η₀.
        head_lr: γ₁, ``lr`` by default; 0 freezes the head.
        head_damping: γ₀.
        reduction: ``"sum"`` as in the paper, or ``"mean"`` to divide θ's step by n. By default the
            sum, and the mean where :func:`fit` is given a whole module, as in PyTorch.
        rule: Replaces η₀ v − η₁ w by another linear rule:
            :class:`~decoupled_descent.rules.SGD` has momentum, weight decay and schedules.
        head_optimizer: Makes the optimiser of the head, instead of γ₀ and γ₁.
        batch_size: Rows per update; all of them by default. A step is then one pass over the rows.
        replacement: Whether every batch is drawn from all rows anew.
        batch_seed: Draws the batches.

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
    uses_jacobian: ClassVar[bool] = False

    def start(self, rows: Rows, bound: BoundObjective, theta: Tensor) -> GradientState:
        """The state before any update; see :meth:`Algorithm.start`."""
        head = bound.parameters(rows.like)
        return GradientState(theta, head, self.update.slots(theta), self.head_slots(head), 0)

    @in_batches
    def stacked_step(self, state: GradientState, rows: Rows, bound: BoundObjective) -> StackedStep:
        """One update of θ and the head, from one pass over the rows."""
        t, theta, a = state.step, state.theta, state.head
        # h = Xθ, its losses, ĥ = ∇_hΨ(h, y, a), the mean of ∇_aΨ, and Xᵀĥ
        at: PassResult = yield Pass(rows, bound.at(t), theta, a, trains_head=self.trains_head)
        # θ ← η₀ θ − η₁ Xᵀĥ and a ← γ₀ a − γ₁ ⟨∇_aΨ⟩
        scale = self.scale(rows.population, rows.n)
        theta, slots = self.update(theta, at.gradient, state.slots, t, scale)
        a, head_slots = self.step_head(a, at.head, state.head_slots, t)
        info = Info(at.losses, at.preactivations.T, None, global_error=at.global_error)
        return GradientState(theta, a, slots, head_slots, t + 1), info

    def limit(self) -> LimitStep:
        """The rows are reused without a correction."""
        return LimitStep(corrected=False, batch_size=self.batch_size, replacement=self.replacement)
