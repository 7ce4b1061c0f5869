r"""State evolution of orthogonal decoupled descent: rows of any covariance, any ridge.

Rows are x = μ_j/d + z, z ~ N(0, C/d). A step c A⁻¹Xᵀq is a ridge regression of q on X. Directions
free of divergence are uncorrelated with the noise of the rows (Stein's lemma), so the regression
meets them like responses that depend on the modes alone, and deterministic equivalents of the ridge
resolvent give its limit. All else is as in :class:`~decoupled_descent.StateEvolution`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.descent.orthogonal import OrthogonalDecoupledDescent
from decoupled_descent.objective import Direction, Objective
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.state_evolution.averages import mean_jacobian
from decoupled_descent.state_evolution.engines import Engine, Request, Seen
from decoupled_descent.state_evolution.inputs import (
    announce_kinks,
    check_objective,
    check_steps,
    head_parameters,
    theta_limits,
)
from decoupled_descent.state_evolution.laws import MixtureLaw
from decoupled_descent.state_evolution.limits import Limits, follow
from decoupled_descent.state_evolution.populations import (
    Nodes,
    independent_seeds,
    sampled_nodes,
)
from decoupled_descent.state_evolution.recursion import StateEvolution
from decoupled_descent.state_evolution.ridge import RidgeStep, decompose, ridge_step, rotated
from decoupled_descent.state_evolution.trajectory import Trajectory, rule_coefficients

#: What the algorithm shares with the decoupled descent that stands for it in the recursion.
SHARED = ("lr", "damping", "head_lr", "head_damping", "reduction", "rule", "f")


class DivergenceFree:
    """q = g(h, y, a) − h J̄ᵀ, with g = ∇_hΨ unless given and J̄ settled step by step."""

    def __init__(self, objective: Objective, g: Direction | None) -> None:
        self.objective, self.g = objective, g
        self.jacobian: Tensor | None = None

    def __call__(self, h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        """Return q, or g as long as there is no J̄, shape (N, L)."""
        found = self.objective.derivatives(h, y, parameters, g=self.g, jacobian=False, head=False)
        return found.direction if self.jacobian is None else found.direction - h @ self.jacobian.T

    def settle(self, nodes: Nodes, at: Request) -> None:
        r"""Take J̄ = E ∇_h g over nodes; across kinks by Stein's lemma, E[g (h − m_j)ᵀ] Ω⁻¹."""
        population, overlap = nodes.population, at.overlaps[:, -len(at.own) :]
        h = nodes.place(at.alignment, overlap)
        curvature = self.objective.bind(population.responses, h.shape[1], h, g=self.g).curvature
        if curvature != "smoothed":
            self.jacobian = mean_jacobian(self.objective, population, h, at.parameters, self.g)
            return
        self.jacobian = None
        weighted = population.weights * self(h, population.responses, at.parameters).T
        noise = h - at.alignment[population.modes]
        self.jacobian = weighted @ noise @ torch.linalg.pinv(overlap, hermitian=True)


@dataclass(frozen=True)
class OrthogonalEngine:
    """Settles J̄ over nodes before another engine takes the expectations along q."""

    engine: Engine
    direction: DivergenceFree
    nodes: Nodes

    def step(self, at: Request) -> Seen:
        """Return the averages of step t."""
        self.direction.settle(self.nodes, at)
        return self.engine.step(at)


class OrthogonalTrajectory(Trajectory):
    """The recursion, with the overlaps of a ridge step in the place of those of Xᵀĥ.

    Args:
        ridge: The limits of a step.
        pull: M W C θ_1/d, shape (J, L).
        common: What :class:`~decoupled_descent.state_evolution.trajectory.Trajectory` takes.
    """

    def __init__(self, ridge: RidgeStep, pull: Tensor, *common: Any) -> None:
        super().__init__(*common)
        self.ridge, self.pull = ridge, pull

    def advance(self) -> float:
        """Make step t and return the test error of iterate t; infinite once overlaps are."""
        t, width, ridge = len(self.losses), self.width, self.ridge
        error = super().advance()
        if len(self.losses) == t:
            return error
        seen, stop, latest = (t + 1) * width, (t + 2) * width, self.signal[t]
        past = torch.cat([signal.T for signal in self.signal])
        column = ridge.noise * self.sigma[:seen, t * width : seen] + past @ ridge.signal @ latest
        column = torch.cat([self.pull.T @ ridge.start @ latest, column])
        self.means[:, seen:stop] = ridge.align @ latest
        self.gram[:stop, seen:stop] = column
        self.gram[seen:stop, :stop] = column.T
        return error

    def quantities(self, reached: int) -> dict[str, Tensor]:
        """Everything up to the iterate reached, by name, but for Ξ."""
        found = super().quantities(reached)
        del found["xi"]
        return found


@dataclass(frozen=True)
class OrthogonalEvolution(Limits):
    r"""The limit of a run of orthogonal decoupled descent; l and Σ are those of q.

    Attributes:
        theory: What was run.
    """

    theory: OrthogonalLimit = field(repr=False)


class OrthogonalLimit:
    r"""Predicts orthogonal decoupled descent as n, d → ∞ with n/d → ratio, for rows N(μ_j/d, C/d).

    The recursion is that of :class:`~decoupled_descent.StateEvolution`, with K, a, H and D of
    :func:`~decoupled_descent.state_evolution.ridge.ridge_step` in the overlaps of b_0 = θ_1 and
    b_t = c A⁻¹Xᵀq_t:

    .. math::
       \mu_j^\top b_t/d \to (K l_t)_j, \qquad b_s^\top C b_t/d \to a\Sigma[s,t] + l_s^\top H l_t,
       \qquad \theta_1^\top C b_t/d \to (MWC\theta_1/d)^\top D\,l_t .

    Any linear rule is covered; ``folds`` make no difference in the limit.

    Args:
        mixture: A ``GaussianMixture``, its means in the coordinates of C; or a ``MixtureLimit``,
            for means in general position relative to the eigenvectors of C.
        objective: Ψ.
        algorithm: An :class:`~decoupled_descent.OrthogonalDecoupledDescent`.
        ratio: α = n/d.
        covariance: C, shape (d, d), or its diagonal, shape (d,); the identity by default. With a
            ``MixtureLimit``, any number of eigenvalues that stand for their law.
        options: ``method``, ``order``, ``paths``, ``randomisations`` and ``seed`` of
            :class:`~decoupled_descent.StateEvolution`.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.flipped_classes(100, snr=1.5, labels=(0.0, 1.0))
        >>> objective = dd.Objective(dd.heads.Linear(), "logistic")
        >>> algorithm = dd.OrthogonalDecoupledDescent(0.1, 0.95, ridge=1.0)
        >>> spectrum = torch.linspace(0.2, 1.8, 100)
        >>> OrthogonalLimit(mixture, objective, algorithm, 2.0, spectrum).run(steps=3).test_error
        tensor([0.8061, 0.7585, 0.7169], dtype=torch.float64)
    """

    def __init__(
        self,
        mixture: MixtureLaw,
        objective: Objective,
        algorithm: OrthogonalDecoupledDescent,
        ratio: float = 1.0,
        covariance: Tensor | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(algorithm, OrthogonalDecoupledDescent):
            raise ValueError(
                f"algorithm={algorithm!r} must be an OrthogonalDecoupledDescent; for "
                "DecoupledDescent there is StateEvolution"
            )
        self.mixture, self.objective, self.algorithm = mixture, objective, algorithm
        self._direction = DivergenceFree(objective, algorithm.g)
        shared = {name: getattr(algorithm, name) for name in SHARED}
        descent = DecoupledDescent(**shared, g=self._direction)
        self._white = StateEvolution(mixture, objective, descent, ratio, **options)
        self.ratio = self._white.ratio
        means = getattr(mixture, "means", None)
        dimension = None if means is None else means.shape[1]
        self.spectrum, self._axes = decompose(covariance, dimension)
        self._means = None if means is None else rotated(means, self._axes)
        self.ridge_step = ridge_step(
            self.spectrum, self._project, mixture.weights, self.ratio, float(algorithm.ridge)
        )

    def run(
        self,
        steps: int,
        theta: Tensor | None = None,
        *,
        head: nn.Module | Mapping[str, Tensor] | None = None,
        progress: bool | None = None,
    ) -> OrthogonalEvolution:
        r"""Follow T iterates, the first being the starting point.

        Args:
            steps: T.
            theta: θ_1, shape (L, d), whose own overlaps are taken for the limits; by default those
                of independent N(0, 1) entries, that is m = 0 and Ω = (tr C/d) I.
            head: ā_1, a module or its parameters by name; the objective's own by default.
            progress: Whether to draw a progress bar; by default, only on a terminal.

        Returns:
            The evolution; Ctrl-C and errors that are no longer finite end it early, as in
            :meth:`StateEvolution.run <decoupled_descent.StateEvolution.run>`.
        """
        check_steps(steps)
        alignment, overlap, pull = self._start(theta)
        width, white = len(overlap), self._white
        models = (self.objective, self.mixture, width)
        check_objective(*models)
        announce_kinks(*models, self.algorithm.g)
        scale = self.algorithm.scale(white.sample_size())
        coefficients = rule_coefficients(self.algorithm.update, steps, width, scale)
        start = (alignment, overlap, head_parameters(self.objective, head))
        common = (self.mixture, white.algorithm, coefficients, self.ratio, *start)
        makers = white.engines(steps, width, white.orders(width, self.algorithm.g))
        seeds = independent_seeds(white.seed, 2 * len(makers))[len(makers) :]
        engines = (self._engine(make(), width, s) for make, s in zip(makers, seeds, strict=True))
        trajectories = (
            OrthogonalTrajectory(self.ridge_step, pull, *common, engine) for engine in engines
        )
        found = follow(trajectories, len(makers), steps, progress)
        return OrthogonalEvolution(theory=self, **found)

    def _engine(self, engine: Engine, width: int, seed: int) -> OrthogonalEngine:
        """Settle J̄ where the engine takes its one-time averages, or over points of its own."""
        nodes = engine.nodes or sampled_nodes(self.mixture, width, self._white.paths, seed)
        return OrthogonalEngine(engine, self._direction, nodes)

    def _project(self, values: Tensor) -> Tensor:
        """χ_F for F with these eigenvalues on the eigenvectors of C, shape (J, J)."""
        if self._means is None:
            return self.mixture.overlaps * values.mean()
        return (self._means * values) @ self._means.T / len(values)

    def _start(self, theta: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Limits of the start: m_1 (J, L), Ω[1,1] (L, L) and M W C θ_1/d (J, L)."""
        tau, width = self.spectrum, self.objective.width
        if theta is None:
            if width is None:
                raise ValueError("L cannot be read off the head; pass theta of shape (L, d)")
            zero = tau.new_zeros(len(self.mixture.weights), width)
            return zero, tau.mean() * torch.eye(width, dtype=tau.dtype), zero
        if self._means is None:
            raise ValueError(
                "theta needs a mixture with means; leave it out for a start with N(0, 1) entries"
            )
        alignment, _ = theta_limits(self.mixture, theta)
        theta = rotated(torch.as_tensor(theta).detach().to(tau), self._axes)
        pull = (self._means * self.ridge_step.weights * tau) @ theta.T / len(tau)
        return alignment, (theta * tau) @ theta.T / len(tau), pull
