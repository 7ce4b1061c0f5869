r"""The equations of a fixed point, and a solver for them.

On the subspace η₀ = 1 − η, η₁ = c η (equation "hpSubspace") a fixed point has θ = −c θ̃. This gives
Theorem "global" and, with V the limit of θ̃ᵀCθ̃/d, the variance as well:

.. math::
   m = -c\,K\,l, \qquad \Omega = c^2\big(a\,\Sigma + l^\top H\,l\big), \qquad
   0 = \textstyle\sum_j p_j E[f(m_j + G, Y_j, \bar a)] ,

with K = αχ, a = α and H = α²χ for decoupled descent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import root
from torch import Tensor

from decoupled_descent.objective import Parameters
from decoupled_descent.state_evolution.averages import Observed, mean_jacobian
from decoupled_descent.state_evolution.gaussian import psd_root
from decoupled_descent.state_evolution.populations import Nodes
from decoupled_descent.state_evolution.recursion import StateEvolution


class Point(NamedTuple):
    """(m, Ω, a)."""

    alignment: Tensor
    overlap: Tensor
    head: Parameters


class Equations:
    """The right-hand sides at (m, Ω, a), averaged over nodes, for c = η₁/η."""

    def __init__(self, theory: StateEvolution, c: float, nodes: Nodes) -> None:
        self.model, self.ridge = theory.model(nodes.normals.shape[1]), theory.ridge_step
        self.c, self.nodes = c, nodes

    def unknowns(self, at: Point) -> list[str]:
        """Return the names of the head's parameters that are trained."""
        return list(at.head) if self.model.trains_head else []

    def observe(self, noise: Tensor, at: Point) -> Observed:
        """Return the averages at h = m_j + noise, for noise of covariance Ω."""
        population, jacobian = self.nodes.population, None
        if self.model.step.divergence_free:
            about = (population, at.alignment, noise, at.overlap, at.head)
            jacobian = mean_jacobian(self.model.bound, *about)
        h = at.alignment[population.modes] + noise
        return self.model.observe(population, h, at.head, jacobian)

    def standing(self, directions: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Return −c K l, and c² (a Σ + lᵀH l) between two sets of directions."""
        population = self.nodes.population
        signal = population.by_mode(directions)
        sigma = directions.T @ (population.weights.unsqueeze(1) * others)
        pulled = signal.T @ self.ridge.signal @ population.by_mode(others)
        overlap = self.c**2 * (self.ridge.noise * sigma + pulled)
        return -self.c * self.ridge.align @ signal, overlap

    def image(self, point: Point) -> Point:
        """Map (m, Ω, a) to the right-hand sides, with E f in place of a."""
        seen = self.observe(self.nodes.normals @ psd_root(point.overlap), point)
        alignment, overlap = self.standing(seen.direction, seen.direction)
        return Point(alignment, overlap, seen.head)

    def residual(self, point: Point) -> Point:
        """Return by how much the equations are violated."""
        image = self.image(point)
        return Point(image.alignment - point.alignment, image.overlap - point.overlap, image.head)

    def loss(self, point: Point) -> float:
        """Return the test error at a point."""
        return float(self.model.test_error(self.nodes, *point))


def pack(point: Point, names: list[str]) -> Tensor:
    """Write a point as one vector, with the head's parameters ``names``."""
    parts = [point.alignment.flatten(), point.overlap.flatten()]
    return torch.cat(parts + [point.head[name].flatten() for name in names])


def unpack(values: Tensor, like: Point, names: list[str]) -> Point:
    """Read a point back from a vector; parameters not in ``names`` stay as they are."""
    shapes = [like.alignment.shape, like.overlap.shape, *[like.head[k].shape for k in names]]
    parts = torch.split(values, [shape.numel() for shape in shapes])
    alignment, overlap, *head = [v.reshape(s) for v, s in zip(parts, shapes, strict=True)]
    return Point(alignment, overlap, like.head | dict(zip(names, head, strict=True)))


def solve(residual: Callable[[Point], Point], start: Point, names: list[str]) -> Point:
    """Solve residual = 0 by Powell's hybrid method; only the head's ``names`` are unknowns."""

    def packed(values: np.ndarray) -> np.ndarray:
        found = residual(unpack(torch.from_numpy(values.copy()), start, names))
        return pack(found, names).numpy()

    solution = root(packed, pack(start, names).numpy(), method="hybr", options={"xtol": 1e-14})
    return unpack(torch.from_numpy(solution.x), start, names)
