r"""Orthogonal decoupled descent: the train–test identity without i.i.d. noise.

Two ingredients take the place of the paper's corrections. First, directions are divergence-free:
their mean Jacobian is zero, so that no Onsager term is needed, for any covariance of the rows.
Second, the pre-activations of a row use a ridge-preconditioned step from which exactly this row is
left out.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.common import Descent
from decoupled_descent.descent.folds import NONE, Folds
from decoupled_descent.descent.head import HeadOptimizer, HeadSlots
from decoupled_descent.descent.info import Info, LimitStep
from decoupled_descent.descent.requests import Preconditioned, RowProduct, StackedStep, all_reduced
from decoupled_descent.descent.rules import LinearRule, Slots, require_linear
from decoupled_descent.objective import (
    BoundObjective,
    Direction,
    HeadDirection,
    Parameters,
)
from decoupled_descent.rows.blocks import Rows


class OrthogonalState(NamedTuple):
    r"""What orthogonal decoupled descent carries from step to step."""

    theta: Tensor  # θ, shape (L, d)
    preactivations: Tensor  # hᵀ, shape (L, n): of each row under a θ that was trained without it
    head: Parameters  # a, by parameter name
    slots: tuple[Slots, Slots]  # what the update rule carries for θ and for h
    head_slots: HeadSlots  # what the head's optimiser carries
    step: int  # the number of updates so far
    folds: Folds = NONE  # the heads of the folds


@dataclass(frozen=True)
class OrthogonalDecoupledDescent(Descent):
    r"""Descent for rows of any covariance whose train error is an estimate of its test error.

    .. math::
       q_t &= g(h_t, y, a_t) - h_t \bar J_t^\top, \qquad
       \bar J_t = \textstyle\sum_i p_i \nabla g(h_{t,i}, y_i, a_t) / \sum_i p_i \\
       \theta_{t+1} &= \eta_0\theta_t - \eta_1 c\, A^{-1}X^\top q_t, \qquad
       A = X^\top X + \lambda \tfrac{\|X\|_F^2}{d} I \\
       h_{t+1} &= \eta_0 h_t - \eta_1 c\, \frac{P q_t - p \odot q_t}{1 - p}, \qquad
       P = X A^{-1} X^\top,\; p_i = P_{ii} \\
       a_{t+1} &= \gamma_0 a_t - \gamma_1 \langle f(h_t, y, a_t)\rangle

    with h_1 = Xθ_1, g = ∇_hΨ and f = ∇_aΨ unless given, and c = mean ‖x_i‖² / mean p_i. Row i of
    the fraction is the effect on row i of a step computed without row i. So the recursion of h does
    not use θ. Rows are weighted by their leverage in J̄. With equal weights, rows of large norm
    would make the train error optimistic.

    As λ → ∞ the step becomes Xᵀq and the fraction XXᵀq − ‖x_i‖² q: decoupled descent along the
    divergence-free direction, the memory of each row weighted by its squared norm.

    Centre the rows. Their scale is free, but ``lr`` is meant for norms about one. All
    configurations of a sweep share one eigen-decomposition of the Gram matrix.

    Args:
        lr: η₁.
        damping: η₀. With divergence-free directions and an unbounded head, h can grow without
            bound. Damping below 1 prevents this. With a head that has no trained factor, such as
            the linear one, θ ends at a length proportional to lr/(1 − damping), right or not:
            compare rates with :func:`~decoupled_descent.sweep`.
        ridge: λ, positive; small values whiten, ``math.inf`` leaves the rows as they are.
        head_lr: γ₁, ``lr`` by default; 0 freezes the head.
        head_damping: γ₀.
        reduction: ``"sum"``, or ``"mean"`` to divide θ's step by n. By default the sum, as in the
            paper, and the mean where :func:`fit` is given a whole module, as in PyTorch.
        rule: Replaces η₀ v − η₁ w by another linear rule, for θ and h alike:
            :class:`~decoupled_descent.rules.SGD` has momentum, weight decay and schedules.
        head_optimizer: Makes the optimiser of the head, instead of γ₀ and γ₁.
        g: Replaces ∇_hΨ: ``g(h, y, a) -> (n, L)``, differentiable by autograd; ``g(h, y, a, t)`` is
            called with the number of the step as well.
        f: Replaces ∇_aΨ: ``f(h, y, a) -> {name: (n, *shape)}``.
        head_folds: Number of folds for cross-fitting the head, see :class:`DecoupledDescent`. 0 for
            none.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.xor(dimension=20, snr=4.0).sample(30, seed=0)
        >>> objective = dd.Objective(dd.heads.TwoLayer(3, seed=0), "logistic")
        >>> algorithm = dd.OrthogonalDecoupledDescent(2.0, 0.98, ridge=1.0, reduction="mean")
        >>> rows = dd.Rows(X, y)
        >>> state = algorithm.init(rows, objective, seed=0)
        >>> state, info = algorithm.step(state, rows, objective)
        >>> state.step, state.preactivations.shape, info.jacobian.shape
        (1, torch.Size([3, 30]), torch.Size([3, 3]))
    """

    damping: float = 0.98
    ridge: float = 1.0
    _: KW_ONLY
    head_lr: float | None = None
    head_damping: float = 1.0
    reduction: str | None = None
    rule: LinearRule | None = None
    head_optimizer: HeadOptimizer | None = None
    g: Direction | None = None
    f: HeadDirection | None = None
    head_folds: int = 0

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if not isinstance(self.ridge, Real) or not float(self.ridge) > 0:
            raise ValueError(f"ridge={self.ridge!r} must be a positive number, or math.inf")

    def start(self, rows: Rows, bound: BoundObjective, theta: Tensor) -> OrthogonalState:
        """The state before any update. The Gram matrix is decomposed if it has not been yet."""
        if self.rule is not None:
            require_linear(self.rule, theta)
        rows.gram.announce(float(self.ridge))
        h = rows.forward(theta)
        slots = (self.update.slots(theta), self.update.slots(h))
        head = bound.parameters(rows.like)
        folds = self.starting_folds(head, rows)
        return OrthogonalState(theta, h, head, slots, self.head_slots(head), 0, folds)

    def stacked_step(
        self, state: OrthogonalState, rows: Rows, bound: BoundObjective
    ) -> StackedStep:
        """One update of θ, h and the head: two products with the rows, which are two passes."""
        t, theta, h, a = state.step, state.theta, state.preactivations, state.head
        _check_rows(h, rows)
        left_out = rows.gram.leave_one_out(float(self.ridge))
        # the losses at h, g(h, y, a), J̄ weighted by p, ⟨f⟩
        derivatives = bound.at(t).derivatives(
            h.T, rows.y, a, head=self.trains_head, jacobian_weights=left_out.shares
        )
        at, global_error = all_reduced(derivatives, rows)
        # q = g(h, y, a) − h J̄ᵀ
        assert at.jacobian is not None
        q = torch.addmm(at.direction.T, at.jacobian, h, alpha=-1)
        # c A⁻¹Xᵀq, and what each row receives of it without its own share: c (Pq − p ⊙ q)/(1 − p)
        direction: Tensor = yield self._direction(q, rows)
        product: Tensor = yield RowProduct(direction, rows, transposed=True)
        response = left_out.response(q, product)
        # θ, h and a move by the same rule along these
        scale, (slots, h_slots) = self.scale(rows.n), state.slots
        theta, slots = self.update(theta, direction, slots, t, scale)
        following, h_slots = self.update(h, response, h_slots, t, scale)
        a, head_slots = self.step_head(a, at.head, state.head_slots, t)
        # losses without the rows' shares in the head, and the standard error
        by_fold = state.folds.evaluate(bound, h.T, rows, at.loss)
        folds = self.step_folds(state.folds, by_fold.directions, t)
        parts = (by_fold.losses, h.T, at.jacobian)
        info = Info(*parts, pairs=by_fold.variance, global_error=global_error)
        kept = (slots, h_slots)
        return OrthogonalState(theta, following, a, kept, head_slots, t + 1, folds), info

    def _direction(self, q: Tensor, rows: Rows) -> RowProduct | Preconditioned:
        """Ask for c qᵀXA⁻¹, shape (L, d)."""
        if math.isinf(self.ridge):
            return RowProduct(q, rows, transposed=False)
        return Preconditioned(q, float(self.ridge))

    def leverages(self, rows: Rows) -> Tensor:
        """p_i with this ridge, shape (n,); zero without a preconditioner."""
        if math.isinf(self.ridge):
            return rows.like.new_zeros(rows.here)
        return rows.gram.leverages(float(self.ridge))

    def row_shares(self, rows: Rows) -> Tensor:
        """The weight of a row in J̄ is its leverage."""
        return rows.gram.leave_one_out(float(self.ridge)).shares

    def assumptions(self) -> frozenset[str]:
        """No row dominates its own fit, and pre-activations are about Gaussian."""
        return frozenset({"leverage", "gaussian rows", "path"})

    def limit(self) -> LimitStep:
        """State evolution with a divergence-free direction and a ridge."""
        return LimitStep(self.g, self.f, divergence_free=True, ridge=float(self.ridge))


def _check_rows(h: Tensor, rows: Rows) -> None:
    """Raise ``ValueError`` when a state to continue from belongs to other rows."""
    if h.shape[1] != rows.here:
        raise ValueError(
            f"state was made for {h.shape[1]} rows but X has {rows.here}; continue on the rows "
            "that the state comes from"
        )
