r"""Decoupled descent, the paper's equations "pureDd" (defaults) and "dd" (all options)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from decoupled_descent.checks import real_number
from decoupled_descent.descent.batches import Batched, State
from decoupled_descent.descent.info import LimitStep
from decoupled_descent.descent.lazy import transition
from decoupled_descent.descent.noise import Noise
from decoupled_descent.descent.rules import damped_inverse, require_linear
from decoupled_descent.objective import BoundObjective, Direction, HeadDirection, smoothed
from decoupled_descent.rows.blocks import Rows


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
        replacement: Whether every batch is a new draw from all rows. By default each row comes once
            per pass.
        batch_seed: Draws the batches.
        g: Replaces ∇_hΨ: ``g(h, y, a) -> (n, L)``, differentiable by autograd; ``g(h, y, a, t)`` is
            called with the number of the update as well.
        f: Replaces ∇_aΨ: ``f(h, y, a) -> {name: (n, *shape)}``.
        noise: A model of the noise (:class:`~decoupled_descent.noise.Covariance`,
            :class:`~decoupled_descent.noise.RowNorms`) that changes the two corrections. By default
            the noise is i.i.d. with variance 1/d.
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
    noise: Noise | None = None
    hessian_damping: float | None = None
    head_folds: int = 0

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        given = self.hessian_damping
        if given is not None and not real_number("hessian_damping", given) > 0:
            raise ValueError(f"hessian_damping={given!r} must be positive")

    @cached_property
    def _noise(self) -> Noise:
        """The model of the noise; the paper's by default."""
        return Noise() if self.noise is None else self.noise

    def start(self, rows: Rows, bound: BoundObjective, theta: Tensor) -> State:
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
        return State(theta, memory, head, slots, self.head_slots(head), 0, folds)

    def directions(
        self,
        gradient: Tensor,
        direction: Tensor,
        jacobian: Tensor | None,
        theta: Tensor,
        rows: Rows,
        which: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """θ̃ᵀ = ĥᵀX − α J̄ θ C, in the place of the gradient, and what enters the memory.

        With δ, both are multiplied by the inverse of the mean Hessian.
        """
        assert jacobian is not None
        tilde = gradient.addmm_(jacobian, self._noise.coloured(theta), alpha=-rows.ratio)
        if self.hessian_damping is not None:
            inverse = damped_inverse(jacobian, self.hessian_damping)
            tilde, direction = inverse @ tilde, inverse @ direction
        return tilde, self._noise.remembered(direction, rows, which)

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

        It is zero at the start and grows with the steps. It is not known if g is not the gradient
        of the loss. ``overlap`` is nB, shape (L, L).
        """
        if bound.g is not None or overlap is None:
            return 0.0
        B = overlap / rows.n
        return (B * B.T).sum() * self._noise.coherence(rows)

    def spacing(
        self, theta: Tensor, rows: Rows, bound: BoundObjective, count: int | None = None
    ) -> Tensor | None:
        """Steps of smoothed differences: shares of the spread of h that the noise causes."""
        if not bound.kinked:
            return None
        count = rows.n if count is None else count
        return smoothed.spacing(self._noise.spread(theta, rows), count)

    def row_shares(self, rows: Rows) -> Tensor | None:
        """The weight of each row in J̄, according to the noise model."""
        return self._noise.row_shares()

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
            replacement=self.replacement,
            hessian_damping=self.hessian_damping,
        )
