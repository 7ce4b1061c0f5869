r"""Orthogonal decoupled descent: the train–test identity without i.i.d. noise.

Two ingredients take the place of the paper's corrections. Directions are made free of divergence
(their mean Jacobian is zero, so no Onsager term is due, whatever the covariance of the rows), and
each row is left out, exactly, of the ridge-preconditioned step that its own pre-activations see.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent import folds as fold
from decoupled_descent.descent.common import Descent, Info, starting_theta
from decoupled_descent.descent.rules import LinearRule, Slots, require_linear
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.objective import Direction, HeadDirection, Objective
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.products import forward


class State(NamedTuple):
    r"""What orthogonal decoupled descent carries from step to step.

    Attributes:
        theta: θ, shape (L, d).
        preactivations: hᵀ, shape (L, n): of each row under a θ that was trained without it.
        head: a, by parameter name.
        slots: What the update rule carries for θ and for h.
        step: How many updates have been made.
        fold_heads: Heads that have not seen their fold; empty without folds.
    """

    theta: Tensor
    preactivations: Tensor
    head: Parameters
    slots: tuple[Slots, Slots]
    step: int
    fold_heads: fold.FoldHeads = ()


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
    the fraction is what a step computed without row i gives to row i, so h recurs by itself and
    never meets θ. A row counts in J̄ by its leverage, for that is its share in what comes back to
    others of their own; with equal shares, long rows would make the train error optimistic.

    As λ → ∞ the step becomes Xᵀq and the fraction XXᵀq − ‖x_i‖² q: decoupled descent along the
    divergence-free direction, the memory of each row weighted by its squared norm.

    The rows are best centred; their scale is free, but ``lr`` is meant for norms about one. All
    configurations of a sweep share one eigen-decomposition of the Gram matrix.

    Args:
        lr: η₁.
        damping: η₀. Divergence-free directions feed the signal back, so that h can grow without
            bound where the head is unbounded: damping below 1 keeps it in check.
        ridge: λ, positive; small values whiten, ``math.inf`` leaves the rows as they are.
        head_lr: γ₁, ``lr`` by default; 0 freezes the head.
        head_damping: γ₀.
        reduction: ``"sum"``, or ``"mean"`` to divide θ's step by n.
        rule: Replaces η₀ v − η₁ w by another linear rule (momentum, say), for θ and h alike.
        g: Replaces ∇_hΨ: ``g(h, y, a) -> (n, L)``, differentiable by autograd.
        f: Replaces ∇_aΨ: ``f(h, y, a) -> {name: (n, *shape)}``.
        folds: Above 1, the train error judges each row by a head trained on the other folds, which
            takes out the head's own optimism, about one part in n per parameter of the head. Worth
            its price (two row-wise evaluations per fold and step) when n is a few hundred or the
            head is large; θ and the head are trained as before.
        fold_weight: How much of what the folds find to believe. At 1 rows are judged by the heads
            of the folds alone, at ½ by the mean of their outputs and the head's own: for heads of
            many parameters, with which θ would change if a row were left out.

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
    reduction: str = "sum"
    rule: LinearRule | None = None
    g: Direction | None = None
    f: HeadDirection | None = None
    folds: int = 1
    fold_weight: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if not isinstance(self.ridge, Real) or not float(self.ridge) > 0:
            raise ValueError(f"ridge={self.ridge!r} must be a positive number, or math.inf")
        if isinstance(self.folds, bool) or not isinstance(self.folds, int) or self.folds < 1:
            raise ValueError(f"folds={self.folds!r} must be a whole number of at least 1")
        if not isinstance(self.fold_weight, Real) or not 0 < float(self.fold_weight) <= 1:
            raise ValueError(f"fold_weight={self.fold_weight!r} must be above 0 and at most 1")

    def init(
        self,
        rows: Rows,
        objective: Objective,
        theta: Tensor | None = None,
        seed: int | None = None,
    ) -> State:
        """Check that everything fits and return the starting state.

        Args:
            rows: The data; its Gram matrix is decomposed unless it has been already.
            objective: Ψ.
            theta: θ₁, shape (L, d), independent of the data; entries drawn from N(0, 1) by default.
            seed: Draws θ₁.

        Returns:
            The state before any update.
        """
        theta = starting_theta(rows, objective, theta, seed)
        objective.curvature_for(rows.y, len(theta), self.g)  # announce kinks before any step
        if self.rule is not None:
            require_linear(self.rule, theta)
        rows.gram.leave_one_out(float(self.ridge))
        h = forward(theta, rows.X)
        slots = (self.update.slots(theta), self.update.slots(h))
        head = objective.parameters(rows.X)
        return State(theta, h, head, slots, 0, fold.start(self.folds, head, self, rows))

    def assumptions(self) -> frozenset[str]:
        """Gaussian rows, none of which dominates its own fit."""
        return frozenset({"leverage", "gaussian rows"})

    def leverages(self, rows: Rows) -> Tensor | None:
        """Return p, all zero without preconditioning."""
        if math.isinf(self.ridge):
            return rows.X.new_zeros(rows.n)
        return rows.gram.leverages(float(self.ridge))

    def row_shares(self, rows: Rows) -> Tensor | None:
        """Rows count in J̄ by their leverage."""
        return rows.gram.leave_one_out(float(self.ridge)).shares

    def mixed(self, state: State) -> tuple[Parameters, float] | None:
        """Return the head that judges rows beside those of the folds, and their weight."""
        return None if self.fold_weight == 1 else (state.head, float(self.fold_weight))

    def step(self, state: State, rows: Rows, objective: Objective) -> tuple[State, Info]:
        """Make one update.

        Args:
            state: The state before the update; not changed.
            rows: The data.
            objective: Ψ.

        Returns:
            The state after the update, and what was seen before it.
        """
        h = state.preactivations
        _check_rows(h, rows)
        left_out = rows.gram.leave_one_out(float(self.ridge))
        found = objective.derivatives(
            h.T,
            rows.y,
            state.head,
            g=self.g,
            f=self.f,
            head=self.trains_head,
            weights=left_out.shares,
        )
        assert found.jacobian is not None
        q = torch.addmm(found.direction.T, found.jacobian, h, alpha=-1)
        direction = left_out.direction(q)
        response = left_out.response(q, direction, rows.X)
        scale, (theta_slots, h_slots) = self.scale(rows.n), state.slots
        theta, theta_slots = self.update(state.theta, direction, theta_slots, state.step, scale)
        following, h_slots = self.update(h, response, h_slots, state.step, scale)
        losses, heads = found.loss, state.fold_heads
        if heads:
            mixed = self.mixed(state)
            losses, heads = fold.judge(heads, h.T, rows, objective, self, self.f, mixed)
        head = self.step_head(state.head, found.head)
        slots = (theta_slots, h_slots)
        info = Info(losses, h.T, found.jacobian)
        return State(theta, following, head, slots, state.step + 1, heads), info


def _check_rows(h: Tensor, rows: Rows) -> None:
    """Raise ``ValueError`` when a state to continue from belongs to other rows."""
    if h.shape[1] != rows.n:
        raise ValueError(
            f"state was made for {h.shape[1]} rows but X has {rows.n}; continue on the rows that "
            "the state comes from"
        )
