r"""Decoupled descent, the paper's equations "pureDd" (defaults) and "dd" (all options)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from torch import Tensor

from decoupled_descent.checks import real_number
from decoupled_descent.descent.batches import Batched, in_batches
from decoupled_descent.descent.folds import NONE, Folds
from decoupled_descent.descent.head import HeadSlots
from decoupled_descent.descent.info import Info, LimitStep
from decoupled_descent.descent.lazy import LazyRows, transition
from decoupled_descent.descent.noise import Noise, as_noise
from decoupled_descent.descent.requests import Pass, PassResult, StackedStep
from decoupled_descent.descent.rules import Slots, damped_inverse, require_linear
from decoupled_descent.objective import (
    BoundObjective,
    Direction,
    HeadDirection,
    Parameters,
    smoothed,
)
from decoupled_descent.rows.blocks import Rows


class DecoupledState(NamedTuple):
    """What decoupled descent carries from step to step."""

    theta: Tensor  # θ, shape (L, d)
    memory: Tensor  # Mᵀ, shape (L, n), laid out like θ: M_t = η₁ Σ_{s<t} η₀^{t−1−s} ĥ_s
    head: Parameters  # a, by parameter name
    slots: tuple[Slots, Slots]  # what the update rule carries for θ and for the memory
    head_slots: HeadSlots  # what the head's optimiser carries
    step: int  # the number of updates so far
    folds: Folds = NONE  # the heads of the folds


@dataclass(frozen=True)
class DecoupledDescent(Batched):
    r"""Descent whose train error is an estimate of its test error.

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
            and in the memory, as the paper's listing does (η₁ = lr/n, γ₁ = lr). By default the sum,
            and the mean where :func:`fit` is given a whole module, as in PyTorch.
        rule: Replaces η₀ v − η₁ w by another linear rule, for θ and the memory alike:
            :class:`~decoupled_descent.rules.SGD` has momentum, weight decay and schedules. ``lr``
            is then only the default of the head's rate.
        head_optimizer: Moves the head instead of γ₀ and γ₁: a function that makes any optimiser of
            PyTorch but LBFGS for a list of parameters,
            ``functools.partial(torch.optim.Adam, lr=1e-2)``.
        batch_size: Rows per update; all of them by default. A step is then one pass over the rows,
            with n/batch_size updates. Schedules count the updates. The train error is that of all
            rows at one iterate. ``info.notes`` has the mean loss during the pass.
        batch_seed: Draws the batches.
        g: Replaces ∇_hΨ: ``g(h, y, a) -> (n, L)``, differentiable by autograd; ``g(h, y, a, t)`` is
            called with the number of the update as well.
        f: Replaces ∇_aΨ: ``f(h, y, a) -> {name: (n, *shape)}``.
        noise: A model of the noise (:class:`~decoupled_descent.noise.Covariance`,
            :class:`~decoupled_descent.noise.RowNorms`) that changes the two corrections. By default
            the noise is i.i.d. with variance 1/d. ``"row norms"`` measures the norms of the rows,
            which takes out a bias of order 1/n.
        hessian_damping: δ, multiplies steps by ``(|J̄| + δ I)⁻¹``, an inverse of the mean Hessian
            in h (the paper's remark on adaptive Hessian estimation). None, the default, leaves
            steps as they are. With δ, ``lr`` is a fraction of a Newton step.
        head_folds: Number of folds for cross-fitting the head, for example 5. Each fold has a
            second head that is trained without the fold's rows, and the losses of these rows are
            taken with it. This removes the optimism of the head, about (number of its
            parameters)/n, from the train error. θ and the head itself are trained as without folds.
            0 for none.

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
    noise: Noise | str | None = None
    hessian_damping: float | None = None
    head_folds: int = 0

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if as_noise(self.noise).measured:
            raise ValueError(
                "noise='any covariance' is for GradientDescent(estimate=True); for steps of its "
                "own on such rows there is OrthogonalDecoupledDescent"
            )
        delta = self.hessian_damping
        if delta is not None and not real_number("hessian_damping", delta) > 0:
            raise ValueError(f"hessian_damping={delta!r} must be positive")

    @cached_property
    def _noise(self) -> Noise:
        """The model of the noise; the paper's by default."""
        return as_noise(self.noise)

    def start(self, rows: Rows, bound: BoundObjective, theta: Tensor) -> DecoupledState:
        """The state before any update; see :meth:`Algorithm.start`."""
        self._noise.check(rows)
        if self.rule is not None:
            require_linear(self.rule, theta)
        if self.batch_size is not None:  # raises for rules that rows outside a batch cannot follow
            transition(self.update, 0, theta)
        memory = theta.new_zeros(len(theta), rows.here)
        slots = (self.update.slots(theta), self.update.slots(memory))
        head = bound.parameters(rows.like)
        folds = self.starting_folds(head, rows)
        return DecoupledState(theta, memory, head, slots, self.head_slots(head), 0, folds)

    @in_batches
    def stacked_step(self, state: DecoupledState, rows: Rows, bound: BoundObjective) -> StackedStep:
        """One update of θ, the memory and the head, from one pass over the rows."""
        t, theta, memory, a = state.step, state.theta, state.memory, state.head
        # h = Xθ + M, its losses, ĥ = g(h, y, a), J̄ = ⟨∇g⟩, ⟨f⟩ and Xᵀĥ
        at: PassResult = yield Pass(
            rows,
            bound.at(t),
            theta,
            a,
            memory,
            jacobian=True,
            trains_head=self.trains_head,
            spacing=self.spacing(theta, rows, bound),
            weights=self.row_shares(rows),
        )
        # θ̃ = Xᵀĥ − α θ J̄ᵀ
        assert at.jacobian is not None
        tilde = at.gradient.addmm_(at.jacobian, self._noise.coloured(theta), alpha=-rows.ratio)
        direction = at.direction
        if self.hessian_damping is not None:
            inverse = damped_inverse(at.jacobian, self.hessian_damping)
            tilde, direction = inverse @ tilde, inverse @ direction
        direction = self._noise.memory_direction(direction, rows)
        # θ ← η₀ θ − η₁ θ̃ and M ← η₀ M + η₁ ĥ, by one rule, and a ← γ₀ a − γ₁ ⟨f⟩
        scale, (slots, memory_slots) = self.scale(rows.population, rows.n), state.slots
        theta, slots = self.update(theta, tilde, slots, t, scale)
        memory, memory_slots = self.update(memory, direction, memory_slots, t, -scale)
        a, head_slots = self.step_head(a, at.head, state.head_slots, t)
        # losses without the rows' shares in the head, and the standard error
        h = at.preactivations.T
        by_fold = state.folds.evaluate(bound, h, rows, at.losses)
        folds = self.step_folds(state.folds, by_fold.directions, t)
        pairs = self.pair_variance(at.overlap, rows, bound) + by_fold.variance
        info = Info(by_fold.losses, h, at.jacobian, pairs=pairs, global_error=at.global_error)
        kept = (slots, memory_slots)
        return DecoupledState(theta, memory, a, kept, head_slots, t + 1, folds), info

    def evaluate(self, state: DecoupledState, h: Tensor, rows: Rows, bound: BoundObjective) -> Info:
        """Evaluate an iterate on all rows before a pass in mini-batches."""
        h = (h + state.memory).T
        at = bound.derivatives(h, rows.y, state.head, jacobian=False, head=False)
        by_fold = state.folds.evaluate(bound, h, rows, at.loss)
        pairs = self.pair_variance(state.memory @ at.direction, rows, bound) + by_fold.variance
        return Info(by_fold.losses, h, None, pairs=pairs)

    def lazy_memory(self, state: DecoupledState) -> LazyRows:
        """The memory during a pass in mini-batches: rows are brought up to date when read."""
        return LazyRows(state.memory, state.slots[1])

    def pair_variance(
        self, overlap: Tensor | None, rows: Rows, bound: BoundObjective
    ) -> Tensor | float:
        r"""Variance of the train error that comes from pairs of rows.

        Row j moved θ by −x_j M_j. So h_i contains the term −z_i·z_j M_j, and h_j contains −z_i·z_j
        M_i, with the same number z_i·z_j, of variance 1/d. To first order this correlates losses i
        and j, and the sum over all pairs has the order of the variance of a mean:

        .. math:: \frac1{n^2 d}\sum_{i \ne j} (\hat h_i \cdot M_j)(\hat h_j \cdot M_i)
                  \approx \frac1d\,\mathrm{tr}\,B^2, \qquad
                  B = \tfrac1n\textstyle\sum_i M_i \hat h_i^\top

        It is zero at the start and grows with the steps. It is 0 here if g is not the gradient of
        the loss, and for mini-batches, whose losses are not reported one by one. ``overlap`` is nB,
        shape (L, L).
        """
        if bound.g is not None or overlap is None or rows.index is not None:
            return 0.0
        return self._noise.pair_variance(overlap, rows)

    def spacing(self, theta: Tensor, rows: Rows, bound: BoundObjective) -> Tensor | None:
        """Steps of smoothed differences: shares of the spread of h that the noise causes."""
        if not bound.kinked:
            return None
        return smoothed.spacing(self._noise.spread(theta, rows), rows.n)

    def row_shares(self, rows: Rows) -> Tensor | None:
        """The weight of each row in J̄, according to the noise model."""
        return self._noise.shares_of(rows)

    def mode_covariance(self, theta: Tensor, rows: Rows) -> Tensor | None:
        """θ C θᵀ/d: each mode is normal, with the covariance of the noise."""
        if self._noise.shares_of(rows) is not None:
            return None  # each row has noise of its own size
        theta = theta.double()
        return self._noise.coloured(theta).to(theta) @ theta.T / theta.shape[1]

    def assumptions(self) -> frozenset[str]:
        """Independent noise of equal variance, except for what the noise model describes."""
        every = frozenset({"white noise", "equal norms", "gaussian rows", "path"})
        return every - self._noise.lifts

    def limit(self) -> LimitStep:
        """State evolution along g, without a preconditioner."""
        return LimitStep(
            self.g,
            self.f,
            covariance=self._noise.limit(),
            batch_size=self.batch_size,
            hessian_damping=self.hessian_damping,
        )
