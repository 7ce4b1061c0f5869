r"""The equations of a standing iterate, and what is needed to solve them.

On the subspace η₀ = 1 − η, η₁ = c η (equation "hpSubspace") an iterate that stands still has
θ = −c θ̃, which gives Theorem "global" and, with V the limit of θ̃ᵀθ̃/d, the variance as well:

.. math::
   m_j = -c\,\alpha \textstyle\sum_k \chi_{jk} l_k, \qquad
   \Omega = c^2\big(\alpha\,\Sigma + \alpha^2 \textstyle\sum_{jk}\chi_{jk} l_j l_k^\top\big), \qquad
   0 = \textstyle\sum_j p_j E[f(m_j + G, Y_j, \bar a)] .
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import root
from torch import Tensor

from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.state_evolution.averages import mean_head_direction
from decoupled_descent.state_evolution.populations import Nodes
from decoupled_descent.state_evolution.recursion import StateEvolution


class Point(NamedTuple):
    """(m, Ω, a)."""

    alignment: Tensor
    overlap: Tensor
    head: Parameters


class Equations:
    """What a standing iterate would have, given the expectations at (m, Ω, a).

    Args:
        theory: Gives Ψ, g, f, χ and α.
        c: η₁/η.
        nodes: Where to average.
    """

    def __init__(self, theory: StateEvolution, c: float, nodes: Nodes) -> None:
        self.theory, self.c, self.nodes = theory, c, nodes
        self.chi, self.ratio = theory.mixture.overlaps, theory.ratio

    @property
    def trains_head(self) -> bool:
        """Whether ā is an unknown."""
        return self.theory.algorithm.trains_head and bool(self.theory.objective.parameters())

    def directions(self, h: Tensor, parameters: Parameters) -> Tensor:
        """Return g row by row, shape (N, L)."""
        responses, g = self.nodes.population.responses, self.theory.algorithm.g
        return self.theory.objective.derivatives(
            h, responses, parameters, g=g, jacobian=False, head=False
        ).direction

    def head_direction(self, h: Tensor, parameters: Parameters) -> Parameters:
        """Return E f by name; empty for a frozen head."""
        if not self.trains_head:
            return {}
        objective, f = self.theory.objective, self.theory.algorithm.f
        return mean_head_direction(objective, self.nodes.population, h, parameters, f)

    def standing(self, directions: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Return −c α χ l, and c² (α Σ + α² lᵀχ l) between two sets of directions."""
        population = self.nodes.population
        signal = population.by_mode(directions)
        sigma = directions.T @ (population.weights.unsqueeze(1) * others)
        pulled = signal.T @ self.chi @ population.by_mode(others)
        alignment = -self.c * self.ratio * self.chi @ signal
        return alignment, self.c**2 * (self.ratio * sigma + self.ratio**2 * pulled)

    def image(self, point: Point) -> Point:
        """Map (m, Ω, a) to the right-hand sides, with E f in place of a."""
        h = self.nodes.place(point.alignment, point.overlap)
        directions = self.directions(h, point.head)
        alignment, overlap = self.standing(directions, directions)
        return Point(alignment, overlap, self.head_direction(h, point.head))

    def loss(self, point: Point) -> float:
        """Return the test error at a point."""
        h = self.nodes.place(point.alignment, point.overlap)
        losses = self.theory.objective.losses(h, self.nodes.population.responses, point.head)
        return float(self.nodes.population.weights @ losses.detach())


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
    """Solve residual = 0 by Powell's hybrid method.

    Args:
        residual: One equation per unknown, laid out like the unknowns.
        start: Somewhere near.
        names: The head's parameters that are unknowns.

    Returns:
        The best point found.
    """

    def packed(values: np.ndarray) -> np.ndarray:
        found = residual(unpack(torch.from_numpy(values.copy()), start, names))
        return pack(found, names).numpy()

    solution = root(packed, pack(start, names).numpy(), method="hybr", options={"xtol": 1e-14})
    return unpack(torch.from_numpy(solution.x), start, names)
