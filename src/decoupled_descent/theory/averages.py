r"""Ψ, its derivatives and the direction of a step, averaged over rows (h, y) of a mixture."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.info import LimitStep
from decoupled_descent.descent.rules import damped_inverse
from decoupled_descent.objective import BoundObjective, Objective, Parameters
from decoupled_descent.theory.laws import MixtureLaw, typical_responses
from decoupled_descent.theory.populations import Nodes, Population


class Point(NamedTuple):
    """(m, Ω, a), where averages are taken."""

    alignment: Tensor
    overlap: Tensor
    head: Parameters


class Averages(NamedTuple):
    r"""Averages at one point."""

    loss: Tensor  # E Ψ, the test error
    direction: Tensor  # the direction of the step row by row, shape (N, L)
    signal: Tensor  # l_j = p_j E[direction | j], shape (J, L)
    head: Parameters  # E f, by parameter name; empty for a frozen head


class Slopes(NamedTuple):
    """Derivatives of the test error functional at one iterate."""

    alignment: Tensor  # p_j E∇_hΨ, shape (J, L)
    curvature: Tensor  # Σ_j p_j E∇²_hΨ, twice the derivative in Ω; shape (L, L)
    head: Parameters  # Σ_j p_j E∇_aΨ, by name
    head_direction: Parameters  # Σ_j p_j E f, by name


class Model:
    """An objective and a step on a mixture, for heads of L inputs."""

    def __init__(
        self,
        objective: Objective,
        mixture: MixtureLaw,
        width: int,
        step: LimitStep | None = None,
        trains_head: bool = False,
    ) -> None:
        self.objective, self.mixture, self.width = objective, mixture, width
        self.step = LimitStep() if step is None else step
        self.trains_head = trains_head and bool(objective.parameters())
        self.responses = typical_responses(mixture)
        self._like = torch.zeros((), dtype=torch.float64)
        objective.check(self.responses, width, self._like)

    @cached_property
    def bound(self) -> BoundObjective:
        """Ψ with the step's g and f."""
        step, about = self.step, (self.responses, self.width, self._like)
        return self.objective.bind(*about, g=step.g, f=step.f)

    @cached_property
    def plain(self) -> BoundObjective:
        """Ψ with its own gradients."""
        if self.step.g is None and self.step.f is None:
            return self.bound
        return self.objective.bind(self.responses, self.width, self._like, jacobian=False)

    def losses(self, h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        """Return Ψ row by row, shape (N,)."""
        return self.objective.losses(h, y, parameters).detach().double()

    def test_error(self, nodes: Nodes, at: Point) -> Tensor:
        """Return test(m, Ω, a), averaged over nodes."""
        h, population = nodes.preactivations(at.alignment, at.overlap), nodes.population
        return population.weights @ self.losses(h, population.responses, at.head)

    def at(self, step: int) -> Model:
        """Return the model with the g of one update, if g depends on the update."""
        bound = self.bound.at(step)
        if bound is self.bound:
            return self
        other = copy.copy(self)
        other.__dict__["bound"] = bound
        return other

    def directions(
        self, h: Tensor, y: Tensor, parameters: Parameters, jacobian: Tensor | None = None
    ) -> Tensor:
        """Return g, or the direction made of g and J̄ if J̄ is given, shape (N, L)."""
        rows = self.bound.derivatives(h, y, parameters, jacobian=False, head=False)
        return self._bent(rows.direction, h, jacobian)

    def _bent(self, direction: Tensor, h: Tensor, jacobian: Tensor | None) -> Tensor:
        """G − h J̄ᵀ, or g (|J̄| + δ I)⁻¹, depending on the step."""
        if jacobian is None:
            return direction
        if self.step.hessian_damping is not None:
            return direction @ damped_inverse(jacobian, self.step.hessian_damping)
        return direction - h @ jacobian.T

    def observe(
        self,
        population: Population,
        h: Tensor,
        parameters: Parameters,
        jacobian: Tensor | None = None,
    ) -> Averages:
        """Average the loss, the direction and f over rows with pre-activations h."""
        weights = population.weights
        rows = self.bound.derivatives(
            h,
            population.responses,
            parameters,
            jacobian=False,
            head=self.trains_head,
            weights=weights * len(h),
        )
        direction = self._bent(rows.direction, h, jacobian)
        return Averages(weights @ rows.loss, direction, population.by_mode(direction), rows.head)

    def correction(self, nodes: Nodes, at: Point) -> Tensor | None:
        """Return J̄ at a point if the direction depends on it; None if the direction is g."""
        if not self.step.uses_jacobian:
            return None
        return mean_jacobian(self.bound, nodes.population, at, nodes.noise(at.overlap))

    def slopes(self, nodes: Nodes, at: Point) -> Slopes:
        """Differentiate the test error functional in m, Ω and a ("gradA" to "gradOm")."""
        population, noise = nodes.population, nodes.noise(at.overlap)
        h, y = at.alignment[population.modes] + noise, population.responses
        weights = population.weights * len(h)
        rows = self.plain.derivatives(h, y, at.head, jacobian=False, weights=weights)
        own = rows
        if self.step.f is not None:
            own = self.bound.derivatives(h, y, at.head, jacobian=False, weights=weights)
        curvature = mean_jacobian(self.plain, population, at, noise)
        symmetric = (curvature + curvature.T) / 2
        return Slopes(population.by_mode(rows.direction), symmetric, rows.head, own.head)


def mean_jacobian(
    bound: BoundObjective, population: Population, at: Point, noise: Tensor
) -> Tensor:
    r"""Return E ∇_h g at h = m_j + noise, shape (L, L), for noise of covariance Ω.

    If g has kinks, Stein's lemma is used: E[g noiseᵀ] Ω⁻¹.
    """
    h, y = at.alignment[population.modes] + noise, population.responses
    if bound.kinked:
        rows = bound.derivatives(h, y, at.head, jacobian=False, head=False)
        mixed = rows.direction.T @ (population.weights.unsqueeze(1) * noise)
        stein: Tensor = mixed @ torch.linalg.pinv(at.overlap, hermitian=True)
        return stein
    weights = population.weights * len(h)
    jacobian = bound.derivatives(h, y, at.head, head=False, weights=weights).jacobian
    assert jacobian is not None
    return jacobian
