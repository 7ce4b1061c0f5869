r"""Two ways to compute the expectations of the recursion: Hermite series (L = 1) and sampled paths.

Both get one block row of Ω per step and return the averages of that step and the new block column
of Σ.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from decoupled_descent.objective import Parameters
from decoupled_descent.state_evolution.averages import Model, Observed
from decoupled_descent.state_evolution.gaussian import (
    Normals,
    Paths,
    hermite_basis,
    hermite_rule,
)
from decoupled_descent.state_evolution.laws import RESPONSE_NODES
from decoupled_descent.state_evolution.populations import (
    Nodes,
    quadrature_nodes,
    sampled_nodes,
    sampled_population,
)


class Request(NamedTuple):
    r"""The point at which the expectations of step t are computed."""

    overlaps: Tensor  # Ω[t,1], …, Ω[t,t] side by side, shape (L, t L)
    alignment: Tensor  # m_{j,t}, shape (J, L)
    parameters: Parameters  # ā_t, by name
    own: Tensor  # θ_t in terms of θ_1, θ̃_1, …, θ̃_{t−1}, shape (L, t L)
    gram: Tensor  # the last block row of their Gram matrix, shape (L, t L)

    @property
    def overlap(self) -> Tensor:
        """Ω[t,t], shape (L, L)."""
        return self.overlaps[:, -len(self.overlaps) :]


class Engine(Protocol):
    """Computes the expectations of one trajectory, step by step."""

    def step(self, at: Request) -> tuple[Observed, Tensor]:
        """Return the averages of step t, and Σ[1,t], …, Σ[t,t] on top of each other, (t L, L)."""
        ...


class HermiteEngine:
    r"""Spectral accuracy for L = 1 and smooth g: Gauss–Hermite rule and Mehler's formula.

    With c_k(t) the k-th coefficient of z ↦ g(m_{j,t} + σ_t z, y, ā_t) in orthonormal Hermite
    polynomials, and ρ = Ω[r,s]/(σ_r σ_s),

    .. math:: E[g(G^r + m_{j,r}, y, \bar a_r)\, g(G^s + m_{j,s}, y, \bar a_s)]
              = \sum_k c_k(r)\, c_k(s)\, \rho^k ,

    so a new column of Σ costs one weighted product of stored coefficients instead of a
    two-dimensional quadrature for every pair. ``order`` is the number of nodes and coefficients,
    ``responses`` that of nodes for a Gaussian response.
    """

    def __init__(
        self, model: Model, steps: int, order: int, responses: int = RESPONSE_NODES
    ) -> None:
        nodes = quadrature_nodes(model.mixture, 1, order, responses)
        assert nodes is not None
        self.model, self.nodes, self.order = model, nodes, order
        z, weights = hermite_rule(order)
        self.analysis = weights.unsqueeze(1) * hermite_basis(z, order)
        self.atoms = nodes.population.weights.reshape(-1, order).sum(1)
        self.coefficients = torch.zeros(steps, len(self.atoms), order, dtype=torch.float64)
        self.deviations = torch.zeros(steps, dtype=torch.float64)
        self.time = 0

    def step(self, at: Request) -> tuple[Observed, Tensor]:
        """Return the averages of step t, and Σ[1,t], …, Σ[t,t] on top of each other, (t L, L)."""
        t, variances, population = self.time, at.overlaps[0], self.nodes.population
        deviation = variances[t].clamp(min=0).sqrt()
        self.deviations[t] = deviation
        h = at.alignment[population.modes] + deviation * self.nodes.normals
        model = self.model.at(t)
        jacobian = model.correction(self.nodes, at.alignment, at.overlap, at.parameters)
        seen = model.observe(population, h, at.parameters, jacobian)
        found = seen.direction.reshape(-1, self.order) @ self.analysis
        self.coefficients[t] = found
        scales = deviation * self.deviations[: t + 1]
        rho = torch.where(scales > 0, variances / scales.clamp(min=1e-300), 0.0).clamp(-1, 1)
        rho[t] = 1.0
        weighted = self.atoms.unsqueeze(1) * found
        products = torch.einsum("rsk,sk->rk", self.coefficients[: t + 1], weighted)
        powers = rho.unsqueeze(1) ** torch.arange(self.order, dtype=torch.float64)
        self.time += 1
        return seen, (products * powers).sum(1, keepdim=True)


class PathEngine:
    """Any L: M paths (G¹, …, Gᵗ) at once, extended by one block per step.

    θ_t is a combination of θ_1, θ̃_1, …, θ̃_{t−1}, so Gᵗ is the same combination of Gaussian blocks
    with *their* Gram matrix, which is factored: it is far better conditioned than Ω, whose
    neighbouring blocks differ only by a learning rate. Every Σ[r,t], r ≤ t, comes from one product
    with the stored directions. Averages at one time use ``nodes``, rotated at random, or else the
    paths.
    """

    def __init__(
        self, model: Model, steps: int, paths: int, seeds: tuple[int, int], nodes: Nodes | None
    ) -> None:
        self.model, width = model, model.width
        normals = Normals(paths, steps * width, seeds[0], auxiliary=2)
        self.population = sampled_population(model.mixture, normals)
        self.nodes = nodes and nodes.turned(normals.generator)
        self.settling = self.nodes  # where J̄ is taken
        if self.nodes is None and model.step.uses_jacobian:
            self.settling = sampled_nodes(model.mixture, width, paths, seeds[1])
        self.paths = Paths(width, steps, normals)
        self.directions = torch.empty(steps, width, paths, dtype=torch.float64)
        self.time = 0

    def step(self, at: Request) -> tuple[Observed, Tensor]:
        """Return the averages of step t, and Σ[1,t], …, Σ[t,t] on top of each other, (t L, L)."""
        t, population, model = self.time, self.population, self.model.at(self.time)
        noise = self.paths.combine(at.own, at.gram)
        h = (noise + at.alignment.T[:, population.modes]).T
        jacobian = None
        if self.settling is not None:
            jacobian = model.correction(self.settling, at.alignment, at.overlap, at.parameters)
        if self.nodes is None:
            seen = model.observe(population, h, at.parameters, jacobian)
            direction = seen.direction
        else:
            placed = self.nodes.place(at.alignment, at.overlap)
            seen = model.observe(self.nodes.population, placed, at.parameters, jacobian)
            direction = model.directions(h, population.responses, at.parameters, jacobian)
        self.directions[t] = direction.T
        stored = self.directions[: t + 1].flatten(0, 1)
        self.time += 1
        return seen, ((self.directions[t] * population.weights) @ stored.T).T
