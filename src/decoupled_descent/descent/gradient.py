r"""Gradient descent, the paper's equation "gd"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from decoupled_descent.descent.batches import Batched, State
from decoupled_descent.descent.info import LimitStep
from decoupled_descent.objective import BoundObjective
from decoupled_descent.rows.blocks import Rows


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

    def start(self, rows: Rows, bound: BoundObjective, theta: Tensor) -> State:
        """The state before any update; see :meth:`Algorithm.start`."""
        head, slots = bound.parameters(rows.like), (self.update.slots(theta), ())
        return State(theta, None, head, slots, self.head_slots(head), 0)

    def limit(self) -> LimitStep:
        """The rows are reused without a correction."""
        return LimitStep(corrected=False, batch_size=self.batch_size, replacement=self.replacement)
