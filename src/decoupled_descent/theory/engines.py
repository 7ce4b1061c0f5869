r"""The expectations of one step of the recursion, by Hermite series (L = 1) or from sampled paths.

An engine gets one block row of Ω and returns the averages of that step and the new block column of
Σ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.theory.averages import Averages, Model, Point
from decoupled_descent.theory.gaussian import Normals, Paths, hermite_basis, hermite_rule
from decoupled_descent.theory.laws import RESPONSE_NODES
from decoupled_descent.theory.orders import step_orders
from decoupled_descent.theory.populations import (
    Nodes,
    independent_seeds,
    offset_grids,
    quadrature_nodes,
    sampled_nodes,
    sampled_population,
)

if TYPE_CHECKING:
    from decoupled_descent.theory.state_evolution import StateEvolution

#: Points of the grids for averages at one time, which are used beside sampled paths for L = 1.
GRID = 2**14


class Request(NamedTuple):
    r"""The point at which the expectations of step t are computed."""

    point: Point  # (m_{j,t}, Ω[t,t], ā_t)
    overlaps: Tensor  # Ω[t,1], …, Ω[t,t] side by side, shape (L, t L)
    own: Tensor  # θ_t in terms of θ_1, θ̃_1, …, θ̃_{t−1}, shape (L, t L)
    gram: Tensor  # the last block row of their Gram matrix, shape (L, t L)


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
        self.model, self.nodes, self.order = model, nodes, order
        z, weights = hermite_rule(order)
        self.analysis = weights.unsqueeze(1) * hermite_basis(z, order)
        self.atoms = nodes.population.weights.reshape(-1, order).sum(1)
        self.coefficients = torch.zeros(steps, len(self.atoms), order, dtype=torch.float64)
        self.deviations = torch.zeros(steps, dtype=torch.float64)
        self.time = 0

    def step(self, at: Request) -> tuple[Averages, Tensor]:
        """Return the averages of step t, and Σ[1,t], …, Σ[t,t] on top of each other, (t L, L)."""
        t, variances, population = self.time, at.overlaps[0], self.nodes.population
        deviation = variances[t].clamp(min=0).sqrt()
        self.deviations[t] = deviation
        h = at.point.alignment[population.modes] + deviation * self.nodes.normals
        model = self.model.at(t)
        jacobian = model.correction(self.nodes, at.point)
        averages = model.observe(population, h, at.point.head, jacobian)
        coefficients = averages.direction.reshape(-1, self.order) @ self.analysis
        self.coefficients[t] = coefficients
        scales = deviation * self.deviations[: t + 1]
        rho = torch.where(scales > 0, variances / scales.clamp(min=1e-300), 0.0).clamp(-1, 1)
        rho[t] = 1.0
        weighted = self.atoms.unsqueeze(1) * coefficients
        products = torch.einsum("rsk,sk->rk", self.coefficients[: t + 1], weighted)
        powers = rho.unsqueeze(1) ** torch.arange(self.order, dtype=torch.float64)
        self.time += 1
        return averages, (products * powers).sum(1, keepdim=True)


class PathEngine:
    """Any L: M paths (G¹, …, Gᵗ) at once, extended by one block per step.

    θ_t is a combination of θ_1, θ̃_1, …, θ̃_{t−1}, so Gᵗ is the same combination of Gaussian blocks
    with *their* Gram matrix, which is factored: it is far better conditioned than Ω, whose
    neighbouring blocks differ only by a learning rate. Every Σ[r,t], r ≤ t, comes from one product
    with the stored directions. Averages at a single time are taken over ``nodes``, rotated at
    random; without nodes, over the paths.
    """

    def __init__(
        self, model: Model, steps: int, paths: int, seeds: tuple[int, int], nodes: Nodes | None
    ) -> None:
        self.model, width = model, model.width
        normals = Normals(paths, steps * width, seeds[0], auxiliary=2)
        self.population = sampled_population(model.mixture, normals)
        self.nodes = nodes and nodes.turned(normals.generator)
        self.jacobian_nodes = self.nodes  # over which J̄ is averaged
        if self.nodes is None and model.step.uses_jacobian:
            self.jacobian_nodes = sampled_nodes(model.mixture, width, paths, seeds[1])
        self.paths = Paths(width, steps, normals)
        self.directions = torch.empty(steps, width, paths, dtype=torch.float64)
        self.time = 0

    def step(self, at: Request) -> tuple[Averages, Tensor]:
        """Return the averages of step t, and Σ[1,t], …, Σ[t,t] on top of each other, (t L, L)."""
        t, population, model = self.time, self.population, self.model.at(self.time)
        alignment, overlap, head = at.point
        noise = self.paths.combine(at.own, at.gram)
        h = (noise + alignment.T[:, population.modes]).T
        jacobian = None
        if self.jacobian_nodes is not None:
            jacobian = model.correction(self.jacobian_nodes, at.point)
        if self.nodes is None:
            averages = model.observe(population, h, head, jacobian)
            direction = averages.direction
        else:
            at_nodes = self.nodes.preactivations(alignment, overlap)
            averages = model.observe(self.nodes.population, at_nodes, head, jacobian)
            direction = model.directions(h, population.responses, head, jacobian)
        self.directions[t] = direction.T
        stored = self.directions[: t + 1].flatten(0, 1)
        self.time += 1
        return averages, ((self.directions[t] * population.weights) @ stored.T).T


def engine_makers(
    theory: StateEvolution, steps: int, model: Model
) -> list[Callable[[], HermiteEngine | PathEngine]]:
    """Return makers of engines, one per randomisation: only one is in memory at a time."""
    width, orders = model.width, step_orders(model, theory.order)
    exact = width == 1 and bool(orders)
    if theory.method == "quadrature" and not exact:
        raise ValueError(
            f"method='quadrature' needs L = 1 (here {width}), discrete or Gaussian responses, "
            "and an objective and g without kinks or slopes too steep for the response noise; "
            "use method='paths'"
        )
    if exact and theory.method != "paths":
        return [partial(HermiteEngine, model, steps, *order) for order in orders]
    seeds = independent_seeds(theory.seed, 2 * theory.randomisations)
    pairs = list(zip(seeds, seeds[theory.randomisations :], strict=False))
    nodes: list[Nodes | None]
    if orders and width > 1:
        rules = [quadrature_nodes(model.mixture, width, *order) for order in orders]
        nodes = [rules[k % 2] for k in range(theory.randomisations)]
    else:
        nodes = [offset_grids(model.mixture, width, GRID, fresh) for _, fresh in pairs]
    return [
        partial(PathEngine, model, steps, theory.paths, pair, own)
        for pair, own in zip(pairs, nodes, strict=True)
    ]
