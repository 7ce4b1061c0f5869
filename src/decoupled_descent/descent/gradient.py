r"""Gradient descent, the paper's equation "gd"."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent import probes, responses
from decoupled_descent.descent.batches import Batched, in_batches
from decoupled_descent.descent.head import HeadSlots
from decoupled_descent.descent.info import Info, LimitStep
from decoupled_descent.descent.noise import Noise, as_noise
from decoupled_descent.descent.prox import Prox, ProximalRule
from decoupled_descent.descent.requests import Pass, PassResult, RowProduct, StackedStep
from decoupled_descent.descent.responses import Responses
from decoupled_descent.descent.rules import LinearRule, Slots, require_linear
from decoupled_descent.objective import BoundObjective, Parameters, smoothed
from decoupled_descent.rows.blocks import Rows

#: Differences across kinks are at least this share of those of decoupled descent: rows do not move
#: when descent is at rest.
NARROWEST = 0.2


class GradientState(NamedTuple):
    """What gradient descent carries from step to step."""

    theta: Tensor  # θ, shape (L, d)
    head: Parameters  # a, by parameter name
    slots: Slots  # what the update rule carries for θ
    head_slots: HeadSlots  # what the head's optimiser carries
    step: int  # the number of updates so far
    responses: Responses | None = None  # of rows to their own past, for the estimate


@dataclass(frozen=True)
class GradientDescent(Batched):
    r"""Plain gradient descent.

    .. math:: h_t = X\theta_t, \quad \hat h_t = \nabla_h\Psi(h_t, y, a_t), \quad
       \theta_{t+1} = \eta_0\theta_t - \eta_1 X^\top \hat h_t, \quad
       a_{t+1} = \gamma_0 a_t - \gamma_1 \langle\nabla_a\Psi\rangle

    Its train error is *not* an estimate of the test error. With ``estimate=True`` training is the
    same, and ``run.estimated_test_error`` is such an estimate: what each row added to its own
    pre-activations is subtracted (:mod:`decoupled_descent.descent.responses`).

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
        batch_seed: Draws the batches.
        estimate: Whether to estimate the test error. The rows must have independent noise, as for
            :class:`DecoupledDescent`.
        noise: A model of the noise for the estimate; by default it is i.i.d. with variance 1/d.
            ``"row norms"`` measures the norms of the rows, which is more accurate for few rows.
            ``"any covariance"`` assumes nothing of the columns, at about fifty products a step.
        prox: A map of every entry of θ after each update (:class:`~decoupled_descent.prox.Prox`):
            a soft threshold, bounds, a ridge. With a soft threshold this is ISTA.
        accelerated: Whether updates are extrapolated as in FISTA. The iterates are the points at
            which gradients are taken.

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

    estimate: bool = False
    noise: Noise | str | None = None
    prox: Prox | None = None
    accelerated: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.prox is not None and not isinstance(self.prox, Prox):
            raise ValueError(
                f"prox={self.prox!r} must be a map of decoupled_descent.prox, such as "
                "SoftThreshold(0.1); prox.Entrywise takes a function"
            )
        if self.rule is not None and (self.prox is not None or self.accelerated):
            raise ValueError(
                f"rule={self.rule!r} does not go with prox or accelerated, which move theta by lr; "
                "leave it out: accelerated=True is their momentum, prox.Ridge their weight decay"
            )
        as_noise(self.noise)
        if self.noise is not None and not self.estimate:
            raise ValueError(
                "noise has no effect without estimate=True, whose correction it changes"
            )

    @property
    def estimates_test_error(self) -> bool:
        """Only if it was asked to."""
        return self.estimate

    @property
    def uses_jacobian(self) -> bool:
        """The estimate does."""
        return self.estimate

    @cached_property
    def _proximal(self) -> ProximalRule | None:
        """The rule of ISTA and FISTA, if it is asked for."""
        if self.prox is None and not self.accelerated:
            return None
        return ProximalRule(self.lr, self.damping, self.prox, self.accelerated)

    @cached_property
    def update(self) -> LinearRule:
        """The rule that moves θ."""
        return self._proximal or super().update

    @cached_property
    def _noise(self) -> Noise:
        """The model of the noise; the paper's by default."""
        return as_noise(self.noise)

    def start(self, rows: Rows, bound: BoundObjective, theta: Tensor) -> GradientState:
        """The state before any update; see :meth:`Algorithm.start`."""
        head = bound.parameters(rows.like)
        own = self._starting_responses(rows, bound, theta) if self.estimate else None
        return GradientState(theta, head, self.update.slots(theta), self.head_slots(head), 0, own)

    def _starting_responses(self, rows: Rows, bound: BoundObjective, theta: Tensor) -> Responses:
        """Check that the estimate is possible; nothing has responded yet."""
        rows.require_one_process("estimate=True follows all rows")
        self._noise.check(rows)
        if self.rule is not None:
            require_linear(self.rule, theta)
        if bound.misses_jumps(rows.y):
            raise ValueError(
                "estimate=True needs the curvature of the loss, which curvature='autodiff' misses "
                "at kinks; leave curvature out of the Objective, or pass 'smoothed'"
            )
        if self.prox is not None:
            self.prox.check(theta, self.lr)
        if self.prox is None or self._noise.measured:
            spectrum, columns = self._noise.spectrum(rows), None
        else:
            columns = responses.drawn("columns", rows.d, responses.COLUMNS).to(theta.device)
            spectrum = self._noise.variances(rows)[columns]
        own = responses.start(rows, bound.width, spectrum, self.update, columns)
        if not self._noise.measured:
            return own
        return own._replace(probes=probes.start(rows, bound.width, self.update))

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
        h, own = at.preactivations, state.responses
        info = Info(at.losses, h.T, None, global_error=at.global_error)
        if own is not None:
            info = info if rows.index is not None else self._estimate(state, info, rows, bound)
            own = yield from self._respond(state, at, theta, rows, bound)
        return GradientState(theta, a, slots, head_slots, t + 1, own), info

    def evaluate(self, state: GradientState, h: Tensor, rows: Rows, bound: BoundObjective) -> Info:
        """Evaluate an iterate on all rows before a pass in mini-batches."""
        info = super().evaluate(state, h, rows, bound)
        return info if state.responses is None else self._estimate(state, info, rows, bound)

    def _estimate(
        self, state: GradientState, info: Info, rows: Rows, bound: BoundObjective
    ) -> Info:
        """The losses of all rows as if they were new: at h + M, M = −Σ_s A_ts ĥ_s."""
        own = state.responses
        assert own is not None
        memory = -responses.own_part(own)
        if (shares := self._noise.shares_of(rows)) is not None:
            memory = memory * shares
        h = info.preactivations + memory.T
        at = bound.derivatives(h, rows.y, state.head, jacobian=False, head=False)
        overlap = memory @ at.direction / rows.n
        pairs = (overlap * overlap.T).sum() * responses.unevenness(own, rows.d)
        return Info(at.loss, h, None, pairs=pairs, fitted=float(info.losses.mean()))

    def _respond(
        self,
        state: GradientState,
        at: PassResult,
        theta: Tensor,
        rows: Rows,
        bound: BoundObjective,
    ) -> Generator[Any, Any, Responses]:
        """Follow the responses of rows through one update, which may be that of a mini-batch."""
        assert state.responses is not None
        own = responses.prepared(state.responses, rows.population, bound.kinked)
        h, direction, n = at.preactivations, at.direction, rows.population
        jacobians = h.new_zeros(len(own.rows), len(h), len(h))
        index = slice(None) if rows.index is None else rows.index
        drawn, which = responses.common(own.rows, rows.index)
        spacing = self._spacing(state.theta, theta, rows) if bound.kinked else None
        if own.probes is not None:
            every = bound.row_jacobians(h.T, rows.y, state.head, spacing=spacing)
            jacobians[drawn] = every[which]
        elif len(which):
            at_rows = (h.T[which], rows.y[which], state.head)
            jacobians[drawn] = bound.row_jacobians(*at_rows, spacing=spacing)
        direction = h.new_zeros(len(h), n)
        direction[:, index] = at.direction
        shares = self._noise.shares_of(rows)
        if shares is not None:  # those of rows outside a mini-batch play no part
            shares = shares.new_ones(len(own.rows)).index_copy_(0, drawn, shares[which])
        own, pulled = responses.advance(own, jacobians, direction, shares, n / rows.d)
        scale, rule = self.scale(n, rows.n), self.update
        if self._proximal is not None and (own.columns is not None or own.probes is not None):
            here = slice(None) if own.columns is None else own.columns
            rule = self._proximal.along(state.theta[:, here], at.gradient[:, here], scale)
        if own.probes is None:
            return responses.move(own, pulled, rule, state.step, scale)
        # R_ts v → Xᵀ∇g X R_ts v, along which the probes move as θ does
        forward: Tensor = yield RowProduct(probes.flat(own.probes), rows, transposed=True)
        answers = probes.pushed(own.probes, forward, every)
        back: Tensor = yield RowProduct(answers, rows, transposed=False)
        known = (responses.influence(own)[:, : -len(h)], own.phantom[:-1])
        moved = probes.listened(own.probes, forward, every, *known, index)
        moved = probes.move(moved, back, rule, state.step, scale)
        return responses.measure(own, moved, n)

    def _spacing(self, theta: Tensor, following: Tensor, rows: Rows) -> Tensor:
        """Steps of differences across kinks, shape (L,).

        Products over several steps contain the chance that a row is at the kink at all of them. So
        differences must not be wider than what h moves by in an update. With several units, jumps
        have both signs, and products of narrow differences grow; those of one step are taken then.
        """
        widest = smoothed.spacing(self._noise.spread(theta, rows), rows.population)
        if len(theta) > 1:
            return widest
        change = self._noise.spread(following - theta, rows)
        return torch.maximum(change, NARROWEST * widest)

    def assumptions(self) -> frozenset[str]:
        """For the estimate, those of decoupled descent."""
        every = frozenset({"white noise", "equal norms", "gaussian rows", "path"})
        return every - self._noise.lifts if self.estimate else frozenset()

    def row_shares(self, rows: Rows) -> Tensor | None:
        """The weight of each row in J̄, according to the noise model."""
        return self._noise.shares_of(rows)

    def limit(self) -> LimitStep:
        """The rows are reused without a correction."""
        if self.prox is not None:
            self.prox.check(torch.zeros(1, 1), self.lr)
        entrywise = self.prox is not None
        return LimitStep(corrected=False, batch_size=self.batch_size, entrywise=entrywise)
