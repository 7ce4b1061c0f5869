r"""State evolution: what decoupled descent does in the limit n, d → ∞ (Definition "ddState")."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.objective import Direction, Objective
from decoupled_descent.state_evolution.engines import Engine, HermiteEngine, PathEngine
from decoupled_descent.state_evolution.inputs import (
    announce_kinks,
    check_limits,
    check_objective,
    check_steps,
    head_parameters,
    theta_limits,
)
from decoupled_descent.state_evolution.laws import MixtureLaw
from decoupled_descent.state_evolution.limits import Limits, follow
from decoupled_descent.state_evolution.orders import step_orders
from decoupled_descent.state_evolution.populations import (
    Nodes,
    Orders,
    independent_seeds,
    offset_grids,
    quadrature_rules,
)
from decoupled_descent.state_evolution.trajectory import Trajectory, rule_coefficients

METHODS = ("auto", "quadrature", "paths")
#: Points of the grids on which one-time averages are taken beside sampled paths, for L = 1.
GRID = 2**14


@dataclass(frozen=True)
class Evolution(Limits):
    r"""The limit of a run of decoupled descent: :class:`Limits` with C = I, and Ξ.

    Attributes:
        xi: Ξ[r,s] = lim θ_rᵀθ̃_s/d, shape (T, T, L, L).
        theory: What was run.
    """

    xi: Tensor = field(repr=False)
    theory: StateEvolution = field(repr=False)

    @property
    def gradient_overlap(self) -> Tensor:
        r"""Limit of θ̃_rᵀθ̃_s/d, shape (T, T, L, L).

        .. math:: \alpha\Sigma[r,s] + \alpha^2\textstyle\sum_{jk}\chi_{jk}\,l_{j,r} l_{k,s}^\top

        (Lemma "ddState" states its first term only.)
        """
        ratio, chi = self.theory.ratio, self.theory.mixture.overlaps
        pulled = torch.einsum("jk,rjl,skm->rslm", chi, self.signal, self.signal)
        return ratio * self.sigma + ratio**2 * pulled


class StateEvolution:
    r"""Predicts decoupled descent on a mixture in the limit n, d → ∞ with n/d → ratio.

    .. math::
       \Sigma[r,s] &= \textstyle\sum_j p_j E[g(G^r + m_{j,r}, Y_j, \bar a_r)\,
                       g(G^s + m_{j,s}, Y_j, \bar a_s)^\top], \qquad
       l_{j,t} = p_j E[g(G^t + m_{j,t}, Y_j, \bar a_t)] \\
       \Xi[r+1,s] &= \eta_0\Xi[r,s] - \eta_1 V[r,s], \qquad
       V[r,s] = \alpha\Sigma[r,s] + \alpha^2\textstyle\sum_{jk}\chi_{jk} l_{j,r} l_{k,s}^\top \\
       \Omega[r+1,s+1] &= \eta_0^2\Omega[r,s] - \eta_0\eta_1(\Xi[r,s] + \Xi[s,r]^\top)
                       + \eta_1^2 V[r,s] \\
       m_{j,t+1} &= \eta_0 m_{j,t} - \eta_1\alpha\textstyle\sum_k\chi_{jk} l_{k,t}, \qquad
       \bar a_{t+1} = \gamma_0\bar a_t - \gamma_1\textstyle\sum_j p_j E[f(G^t+m_{j,t},Y_j,\bar a_t)]

    from the same objective and algorithm that train. Any linear update rule is covered.

    Args:
        mixture: A :class:`~decoupled_descent.GaussianMixture`, or a ``MixtureLimit``.
        objective: Ψ.
        algorithm: Decoupled descent: pure, damped, or with g and f of its own. With
            ``reduction="mean"`` its step depends on n, taken as ratio · mixture.dimension.
        ratio: α = n/d.
        method: ``"quadrature"`` (L = 1, no kinks), ``"paths"`` (anything, sampled), or ``"auto"``.
        order: Gauss–Hermite nodes per coordinate, where there are no kinks.
        paths: M, sampled paths per randomisation, a power of two.
        randomisations: Independent repetitions, which give the standard errors; under quadrature
            two neighbouring orders do.
        seed: Of the sampling.

    Example:
        >>> import decoupled_descent as dd
        >>> objective = dd.Objective(dd.heads.Linear(), "squared")
        >>> algorithm = dd.DecoupledDescent(lr=0.05, damping=0.95)
        >>> theory = dd.StateEvolution(dd.mixtures.signalless(10), objective, algorithm)
        >>> theory.run(steps=3).test_error
        tensor([0.5000, 0.4525, 0.4118], dtype=torch.float64)
    """

    def __init__(
        self,
        mixture: MixtureLaw,
        objective: Objective,
        algorithm: DecoupledDescent,
        ratio: float = 1.0,
        *,
        method: str = "auto",
        order: int | None = None,
        paths: int = 8192,
        randomisations: int = 8,
        seed: int = 0,
    ) -> None:
        if not isinstance(algorithm, DecoupledDescent):
            raise ValueError(
                f"algorithm={algorithm!r} must be a DecoupledDescent: state evolution describes no "
                "other algorithm (for trained parameters of any run see population_test_error)"
            )
        if algorithm.noise is not None:
            raise ValueError(
                f"algorithm has noise={algorithm.noise!r}, but state evolution describes i.i.d. "
                "noise only: leave noise out"
            )
        if not 0 < ratio < math.inf:
            raise ValueError(f"ratio={ratio!r} must be a positive number, n/d")
        if method not in METHODS:
            raise ValueError(f"method={method!r} must be one of {', '.join(METHODS)}")
        if randomisations < 2:
            raise ValueError(f"randomisations={randomisations} must be at least 2")
        self.mixture, self.objective, self.algorithm = mixture, objective, algorithm
        self.ratio, self.method, self.order = float(ratio), method, order
        self.paths, self.randomisations, self.seed = paths, randomisations, seed

    def run(
        self,
        steps: int,
        theta: Tensor | None = None,
        *,
        alignment: Tensor | None = None,
        overlap: Tensor | None = None,
        head: nn.Module | Mapping[str, Tensor] | None = None,
        progress: bool | None = None,
    ) -> Evolution:
        r"""Follow T iterates, the first being the starting point.

        Args:
            steps: T.
            theta: θ_1, shape (L, d), whose own overlaps are taken for the limits.
            alignment: m_{j,1}, shape (J, L), instead of θ_1; zero when only ``overlap`` is given.
            overlap: Ω[1,1], shape (L, L). Without θ_1 and limits, θ_1 has independent N(0, 1)
                entries: alignment zero, overlap one.
            head: ā_1, a module or its parameters by name; the objective's own by default.
            progress: Whether to draw a progress bar; by default, only on a terminal.

        Returns:
            The evolution; Ctrl-C returns the randomisations completed (or the steps of the first
            one), and an error that is no longer finite ends it there, with a
            :class:`~decoupled_descent.DivergenceWarning`.
        """
        check_steps(steps)
        alignment, overlap = self.start(theta, alignment, overlap)
        parameters = head_parameters(self.objective, head)
        scale = self.algorithm.scale(self.sample_size())
        coefficients = rule_coefficients(self.algorithm.update, steps, len(overlap), scale)
        common = (self.mixture, self.algorithm, coefficients, self.ratio)
        engines = self.engines(steps, len(overlap))
        trajectories = (
            Trajectory(*common, alignment, overlap, parameters, make()) for make in engines
        )
        return Evolution(theory=self, **follow(trajectories, len(engines), steps, progress))

    def start(
        self, theta: Tensor | None, alignment: Tensor | None = None, overlap: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Turn θ_1, or limits given directly, into checked (m_1, Ω_1).

        Args:
            theta: θ_1, shape (L, d), or None.
            alignment: m_{j,1}, shape (J, L), or None.
            overlap: Ω_1, shape (L, L), or None.

        Returns:
            Alignment and overlap.
        """
        if theta is not None:
            if alignment is not None or overlap is not None:
                raise ValueError("give either theta or alignment and overlap, not both")
            alignment, overlap = theta_limits(self.mixture, theta)
        elif overlap is None:
            if alignment is not None:
                raise ValueError("alignment was given without overlap; give both, or theta")
            if self.objective.width is None:
                raise ValueError("L cannot be read off the head; pass overlap of shape (L, L)")
            overlap = torch.eye(self.objective.width, dtype=torch.float64)
        overlap = torch.as_tensor(overlap, dtype=torch.float64)
        if alignment is None:
            alignment = overlap.new_zeros(len(self.mixture.weights), overlap.shape[-1])
        alignment = torch.as_tensor(alignment, dtype=torch.float64)
        check_limits(self.mixture, alignment, overlap)
        check_objective(self.objective, self.mixture, len(overlap))
        announce_kinks(self.objective, self.mixture, len(overlap), self.algorithm.g)
        return alignment, overlap

    def orders(self, width: int, g: Direction | None) -> tuple[Orders, ...]:
        """Orders of two quadrature rules for one-time averages; none where they are no good.

        Args:
            width: L.
            g: What to look over for kinks and steep slopes; None for ∇_hΨ.

        Returns:
            Two orders, or none.
        """
        return step_orders(self.objective, self.mixture, width, self.order, g)

    def sample_size(self) -> int:
        """N as the algorithm's reduction sees it: ratio · d, or 1 when it does not matter."""
        if self.algorithm.reduction == "sum":
            return 1
        dimension = getattr(self.mixture, "dimension", None)
        if dimension is None:
            raise ValueError(
                "reduction='mean' divides the step by n, but this mixture has no dimension; use "
                "reduction='sum' with lr/n, or a GaussianMixture"
            )
        return max(1, round(self.ratio * int(dimension)))

    def engines(
        self, steps: int, width: int, orders: Sequence[Orders] | None = None
    ) -> list[Callable[[], Engine]]:
        """Makers of engines, one per randomisation: their memory is needed one at a time.

        Args:
            steps: T.
            width: L.
            orders: Of quadrature rules, or none; found out by default.

        Returns:
            One maker per order under quadrature, else one per seed.

        Example:
            >>> import decoupled_descent as dd
            >>> objective = dd.Objective(dd.heads.Linear(), "squared")
            >>> theory = dd.StateEvolution(
            ...     dd.mixtures.signalless(10),
            ...     objective,
            ...     dd.DecoupledDescent(lr=0.05),
            ...     method="paths",
            ...     paths=64,
            ... )
            >>> len(theory.engines(steps=3, width=1))
            8
        """
        orders = self.orders(width, self.algorithm.g) if orders is None else orders
        exact = width == 1 and bool(orders)
        if self.method == "quadrature" and not exact:
            raise ValueError(
                f"method='quadrature' needs L = 1 (here {width}), discrete or Gaussian responses, "
                "and an objective and g without kinks or slopes too steep for the response noise; "
                "use method='paths'"
            )
        common = (self.mixture, self.objective, self.algorithm, steps)
        if exact and self.method != "paths":
            return [partial(HermiteEngine, *common, *order) for order in orders]
        seeds = independent_seeds(self.seed, 2 * self.randomisations)
        nodes: list[Nodes | None]
        if orders and width > 1:
            rules = quadrature_rules(self.mixture, width, orders)
            nodes = [rules[k % 2] for k in range(self.randomisations)]
        else:
            fresh = seeds[self.randomisations :]
            nodes = [offset_grids(self.mixture, width, GRID, seed) for seed in fresh]
        return [
            partial(PathEngine, *common, width, self.paths, seed, own)
            for seed, own in zip(seeds, nodes, strict=False)
        ]
