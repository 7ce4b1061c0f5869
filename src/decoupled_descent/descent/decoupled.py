r"""Decoupled descent, the paper's equations "pureDd" (defaults) and "dd" (all options)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.common import Info, OnePassDescent, starting_theta
from decoupled_descent.descent.noise import Noise
from decoupled_descent.descent.passes import Pass, Request
from decoupled_descent.descent.rules import Slots, require_linear
from decoupled_descent.objective import smoothed
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.objective import Direction, HeadDirection, Objective
from decoupled_descent.rows.blocks import Rows


class ScalingWarning(UserWarning):
    """The features are not scaled to noise variance 1/d, so the corrections will be off."""


class State(NamedTuple):
    r"""What decoupled descent carries from step to step.

    Attributes:
        theta: θ, shape (L, d).
        memory: Mᵀ, shape (L, n), laid out like θ: M_t = η₁ Σ_{s<t} η₀^{t−1−s} ĥ_s.
        head: a, by parameter name.
        slots: What the update rule carries for θ and for the memory.
        step: How many updates have been made.
    """

    theta: Tensor
    memory: Tensor
    head: Parameters
    slots: tuple[Slots, Slots]
    step: int


@dataclass(frozen=True)
class DecoupledDescent(OnePassDescent[State]):
    r"""Full-batch descent whose train error is an estimate of its test error.

    .. math::
       h_t &= X\theta_t + \eta_1\sum_{s<t}\eta_0^{t-1-s}\hat h_s, \qquad
       \hat h_t = g(h_t, y, a_t) \\
       \tilde\theta_t &= X^\top\hat h_t - \alpha\,\theta_t \bar J_t^\top, \qquad
       \bar J_t[i,j] = \tfrac1n\textstyle\sum_r \partial g_i(h_{t,r}, y_r, a_t)/\partial h_j \\
       \theta_{t+1} &= \eta_0\theta_t - \eta_1\tilde\theta_t, \qquad
       a_{t+1} = \gamma_0 a_t - \gamma_1 \langle f(h_t, y, a_t)\rangle

    with g = ∇_hΨ and f = ∇_aΨ unless given. (The paper's text writes J̄ to the left of the d × L
    matrix θ; the shapes, and non-symmetric Jacobians, need θ J̄ᵀ.)

    Args:
        lr: η₁.
        damping: η₀; 1 is the pure form, smaller values keep θ (and its variance) from growing.
        head_lr: γ₁, ``lr`` by default; 0 freezes the head.
        head_damping: γ₀.
        reduction: ``"sum"`` as in the paper's equations, or ``"mean"`` to divide ĥ by n in θ's step
            and in the memory, as the paper's listing does (η₁ = lr/n, γ₁ = lr).
        rule: Replaces η₀ v − η₁ w by another linear rule, for θ and the memory alike.
        g: Replaces ∇_hΨ: ``g(h, y, a) -> (n, L)``, differentiable by autograd.
        f: Replaces ∇_aΨ: ``f(h, y, a) -> {name: (n, *shape)}``.
        noise: A model of the noise (:class:`~decoupled_descent.descent.noise.Covariance`,
            :class:`~decoupled_descent.descent.noise.RowNorms`) that changes the two corrections
            accordingly; by default i.i.d. of variance 1/d.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.xor(dimension=20, snr=4.0).sample(30, seed=0)
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> rows, algorithm = dd.Rows(X, y), dd.DecoupledDescent(lr=0.05, damping=0.9)
        >>> state = algorithm.init(rows, objective, seed=0)
        >>> state, info = algorithm.step(state, rows, objective)
        >>> state.step, state.memory.shape, info.jacobian.shape
        (1, torch.Size([2, 30]), torch.Size([2, 2]))
    """

    g: Direction | None = None
    f: HeadDirection | None = None
    noise: Noise | None = None

    def assumptions(self) -> frozenset[str]:
        """White noise and rows of equal norm, unless the noise model says otherwise."""
        lifted = frozenset[str]() if self.noise is None else self.noise.lifts
        return frozenset({"white noise", "equal norms", "gaussian rows"}) - lifted

    def row_shares(self, rows: Rows) -> Tensor | None:
        """Rows count in J̄ as the noise model says."""
        return None if self.noise is None else self.noise.row_shares()

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
            theta: θ₁, shape (L, d), independent of the data; entries drawn from N(0, 1) by default.
            seed: Draws θ₁.

        Returns:
            The state before any update.
        """
        theta = starting_theta(rows, objective, theta, seed)
        if self.noise is None:
            _check_scaling(rows)
        else:
            self.noise.check(rows)
        objective.curvature_for(rows.y, len(theta), self.g)  # announce kinks before any step
        if self.rule is not None:
            require_linear(self.rule, theta)
        memory = theta.new_zeros(len(theta), rows.n)
        slots = (self.update.slots(theta), self.update.slots(memory))
        return State(theta, memory, objective.parameters(rows.X), slots, 0)

    def request(self, state: State, rows: Rows, objective: Objective) -> Request:
        """Say what a step needs to know of the data."""
        request = Request(
            objective,
            state.theta,
            state.head,
            state.memory,
            jacobian=True,
            trains_head=self.trains_head,
            g=self.g,
            f=self.f,
            spacing=spacing_of(state.theta, rows, objective, self.g),
        )
        return request if self.noise is None else self.noise.request(request, rows)

    def advance(self, state: State, rows: Rows, found: Pass) -> tuple[State, Info]:
        """Make the update from what a pass found."""
        assert found.jacobian is not None
        theta, direction = state.theta, found.direction
        if self.noise is not None:
            theta = self.noise.coloured(theta)
            direction = self.noise.remembered(direction, rows)
        tilde = found.gradient.addmm_(found.jacobian, theta, alpha=-rows.ratio)
        scale, (theta_slots, memory_slots) = self.scale(rows.n), state.slots
        theta, theta_slots = self.update(state.theta, tilde, theta_slots, state.step, scale)
        memory, memory_slots = self.update(
            state.memory, direction, memory_slots, state.step, -scale
        )
        head = self.step_head(state.head, found.head)
        info = Info(found.losses, found.preactivations.T, found.jacobian)
        return State(theta, memory, head, (theta_slots, memory_slots), state.step + 1), info


def spacing_of(
    theta: Tensor, rows: Rows, objective: Objective, g: Direction | None
) -> Tensor | None:
    """Steps for smoothed differences: the noise in h_j has standard deviation ‖θ_j‖/√d."""
    if objective.curvature_for(rows.y, len(theta), g) != "smoothed":
        return None
    return smoothed.spacing(torch.linalg.vector_norm(theta, dim=1) / rows.d**0.5, rows.n)


def _check_scaling(rows: Rows) -> None:
    """Warn when rows of X are far from norm one, which noise of variance 1/d gives them."""
    norm = float(torch.linalg.vector_norm(rows.X)) / rows.n**0.5
    if not 0.5 <= norm <= 2:
        warnings.warn(
            f"the rows of X have root-mean-square norm {norm:.3g}, but decoupled descent assumes "
            "noise of variance 1/d, that is norm 1: standardise the columns and divide by √d, or "
            "the train error will not track the test error",
            ScalingWarning,
            stacklevel=3,
        )
