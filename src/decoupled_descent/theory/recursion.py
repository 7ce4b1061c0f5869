r"""The recursion of methods with a correction: linear algebra, and the expectations it needs.

:class:`Trajectory` keeps block matrices that grow by one block per step. An engine computes the
expectations of a step, by Hermite series (L = 1) or from sampled paths: it gets one block row of Ω
and returns the averages of that step and the new block column of Σ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.common import Descent
from decoupled_descent.descent.rules import LinearRule, require_linear
from decoupled_descent.objective import Parameters
from decoupled_descent.theory.averages import Model, Observed, Point
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
from decoupled_descent.theory.ridge import RidgeStep, Start

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

    def step(self, at: Request) -> tuple[Observed, Tensor]:
        """Return the averages of step t, and Σ[1,t], …, Σ[t,t] on top of each other, (t L, L)."""
        t, variances, population = self.time, at.overlaps[0], self.nodes.population
        deviation = variances[t].clamp(min=0).sqrt()
        self.deviations[t] = deviation
        h = at.point.alignment[population.modes] + deviation * self.nodes.normals
        model = self.model.at(t)
        jacobian = model.correction(self.nodes, at.point)
        seen = model.observe(population, h, at.point.head, jacobian)
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

    def step(self, at: Request) -> tuple[Observed, Tensor]:
        """Return the averages of step t, and Σ[1,t], …, Σ[t,t] on top of each other, (t L, L)."""
        t, population, model = self.time, self.population, self.model.at(self.time)
        alignment, overlap, head = at.point
        noise = self.paths.combine(at.own, at.gram)
        h = (noise + alignment.T[:, population.modes]).T
        jacobian = None
        if self.jacobian_nodes is not None:
            jacobian = model.correction(self.jacobian_nodes, at.point)
        if self.nodes is None:
            seen = model.observe(population, h, head, jacobian)
            direction = seen.direction
        else:
            placed = self.nodes.place(alignment, overlap)
            seen = model.observe(self.nodes.population, placed, head, jacobian)
            direction = model.directions(h, population.responses, head, jacobian)
        self.directions[t] = direction.T
        stored = self.directions[: t + 1].flatten(0, 1)
        self.time += 1
        return seen, ((self.directions[t] * population.weights) @ stored.T).T


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


def rule_coefficients(rule: LinearRule, steps: int, width: int, scale: float) -> Tensor:
    r"""Unroll a linear update rule: θ_t = C[t,0] θ_1 + Σ_q C[t,q] θ̃_q.

    The rule is applied to the coefficients themselves, so that momentum, schedules and L × L
    preconditioners need no separate formulas. For the paper's rule C[t,0] = η₀^{t−1} and C[t,q] =
    −η₁ η₀^{t−1−q}. ``scale`` multiplies every θ̃. The shape is (T, L, (T + 1) L).
    """
    identity = torch.eye(width, dtype=torch.float64)
    require_linear(rule, identity)
    value = torch.zeros(width, (steps + 1) * width, dtype=torch.float64)
    value[:, :width] = identity
    unrolled, slots = [value], rule.slots(value)
    for step in range(steps - 1):
        direction = torch.zeros_like(value)
        direction[:, (step + 1) * width : (step + 2) * width] = identity
        value, slots = rule(value, direction, slots, step, scale)
        unrolled.append(value)
    return torch.stack(unrolled)


class Trajectory:
    r"""One recursion: the Gram matrix of θ_1, θ̃_1, θ̃_2, …, extended by one block per step.

    With b_0 = θ_1, b_q = θ̃_q, K, a, H and D of :func:`ridge_step`, C[r,q] of
    :func:`rule_coefficients`, and the expectations of an engine,

    .. math::
       \lim M b_t / d &= K l_t, \qquad
       \lim b_q^\top C b_t / d = a\,\Sigma[q,t] + l_q^\top H l_t, \qquad
       \lim b_0^\top C b_t / d = (M W C \theta_1/d)^\top D\, l_t \\
       \Omega[r,s] &= \textstyle\sum_{qq'} C[r,q]\,(\lim b_q^\top C b_{q'}/d)\,C[s,q']^\top, \qquad
       \Xi[r,s] = \textstyle\sum_q C[r,q]\,(\lim b_q^\top C b_s/d)
    """

    def __init__(
        self,
        ridge: RidgeStep,
        algorithm: Descent,
        coefficients: Tensor,
        start: Start,
        parameters: Parameters,
        engine: Callable[[], HermiteEngine | PathEngine],
        masks: Tensor | None = None,
    ) -> None:
        self.ridge, self.algorithm, self.engine = ridge, algorithm, engine()
        self.coefficients, self.pull, self.masks = coefficients, start.pull, masks
        self.steps, self.width, size = coefficients.shape
        self.gram = torch.zeros(size, size, dtype=torch.float64)
        self.gram[: self.width, : self.width] = start.overlap
        self.means = torch.zeros(len(start.alignment), size, dtype=torch.float64)
        self.means[:, : self.width] = start.alignment
        self.omega = torch.zeros(size - self.width, size - self.width, dtype=torch.float64)
        self.sigma = torch.zeros_like(self.omega)
        self.parameters, self.head_slots = parameters, algorithm.head_slots(parameters)
        self.alignment: list[Tensor] = []
        self.signal: list[Tensor] = []
        self.heads: list[Parameters] = []
        self.losses: list[Tensor] = []

    def advance(self) -> float:
        """Make step t and return the test error of iterate t; infinite if overlaps are."""
        t, width, ridge = len(self.losses), self.width, self.ridge
        size = (t + 1) * width
        now = slice(t * width, size)  # iterate t, and θ̃_{t−1} among θ_1, θ̃_1, …
        new = slice(size, size + width)  # θ̃_t
        own = self.coefficients[t, :, :size]
        past = self.coefficients[: t + 1, :, :size].flatten(0, 1)
        row = own @ self.gram[:size, :size] @ past.T
        row[:, -width:] = (row[:, -width:] + row[:, -width:].T) / 2
        self.omega[now, :size] = row
        self.omega[:size, now] = row.T
        alignment = self.means[:, :size] @ own.T
        gram = self.gram[now, :size]
        if not bool(torch.isfinite(row).all() and torch.isfinite(gram).all()):
            return math.inf
        point = Point(alignment, row[:, -width:], self.parameters)
        seen, correlation = self.engine.step(Request(point, row, own, gram))
        if self.masks is not None:
            own_masks = self.masks[: t + 1, t].repeat_interleave(width)
            correlation = correlation * own_masks.unsqueeze(1)
        self.sigma[:size, now] = correlation
        self.sigma[now, :size] = correlation.T
        self.means[:, new] = ridge.align @ seen.signal
        self.signal.append(seen.signal)
        among_steps = torch.cat(self.signal, 1).T @ (ridge.signal @ seen.signal)
        among_steps += ridge.noise * correlation
        column = torch.cat([self.pull.T @ ridge.start @ seen.signal, among_steps])
        self.gram[: new.stop, new] = column
        self.gram[new, : new.stop] = column.T
        self.losses.append(seen.loss)
        self.alignment.append(alignment)
        self.heads.append(self.parameters)
        self.parameters, self.head_slots = self.algorithm.step_head(
            self.parameters, seen.head, self.head_slots, t
        )
        return float(seen.loss)

    def quantities(self, reached: int) -> dict[str, Tensor]:
        """Return everything up to the iterate reached, by name; block matrices as (T, T, L, L)."""
        width, size = self.width, reached * self.width
        stop = size + width

        def blocks(matrix: Tensor) -> Tensor:
            shape = (reached, width, reached, width)
            return matrix[:size, :size].reshape(shape).transpose(1, 2)

        omega = blocks(self.omega)
        coefficients = self.coefficients[:reached, :, :stop].flatten(0, 1)
        found = {
            "test_error": torch.stack(self.losses[:reached]),
            "train_error": torch.stack(self.losses[:reached]),
            "alignment": torch.stack(self.alignment[:reached]),
            "overlap": omega.diagonal().permute(2, 0, 1),
            "signal": torch.stack(self.signal[:reached]),
            "omega": omega,
            "sigma": blocks(self.sigma),
            "xi": blocks(coefficients @ self.gram[:stop, width:stop]),
            "gradient_overlap": blocks(self.gram[width:stop, width:stop]),
        }
        for name in self.heads[0]:
            found[f"head.{name}"] = torch.stack([head[name] for head in self.heads[:reached]])
        return found
