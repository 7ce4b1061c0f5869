r"""The equations of a fixed point, a solver for them, and the stability of their solutions.

On the subspace η₀ = 1 − η, η₁ = c η (equation "hpSubspace") a fixed point has θ = −c θ̃. This gives
Theorem "global" and, with V the limit of θ̃ᵀCθ̃/d, the variance as well:

.. math::
   m = -c\,K\,l, \qquad \Omega = c^2\big(a\,\Sigma + l^\top H\,l\big), \qquad
   0 = \textstyle\sum_j p_j E[f(m_j + G, Y_j, \bar a)] ,

with K = αχ, a = α and H = α²χ for decoupled descent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import root
from torch import Tensor

from decoupled_descent.objective.kinks import jumps
from decoupled_descent.theory.averages import Averages, Point, mean_jacobian
from decoupled_descent.theory.gaussian import psd_root
from decoupled_descent.theory.populations import Nodes
from decoupled_descent.theory.state_evolution import StateEvolution

#: Step of the central differences, relative to a unit change.
DIFFERENCE = 1e-5
#: Number of rows with which jumps are searched for.
PROBED = 64


class Equations:
    """The right-hand sides at (m, Ω, a), averaged over nodes, for c = η₁/η."""

    def __init__(self, theory: StateEvolution, c: float, nodes: Nodes) -> None:
        self.model, self.ridge = theory.model(nodes.normals.shape[1]), theory.ridge_step
        self.c, self.nodes = c, nodes

    def unknowns(self, at: Point) -> list[str]:
        """Return the names of the head's parameters that are trained."""
        return list(at.head) if self.model.trains_head else []

    def observe(self, noise: Tensor, at: Point) -> Averages:
        """Return the averages at h = m_j + noise, for noise of covariance Ω."""
        population, jacobian = self.nodes.population, None
        if self.model.step.divergence_free:
            jacobian = mean_jacobian(self.model.bound, population, at, noise)
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
        averages = self.observe(self.nodes.noise(point.overlap), point)
        alignment, overlap = self.standing(averages.direction, averages.direction)
        return Point(alignment, overlap, averages.head)

    def residual(self, point: Point) -> Point:
        """Return by how much the equations are violated."""
        image = self.image(point)
        return Point(image.alignment - point.alignment, image.overlap - point.overlap, image.head)

    def loss(self, point: Point) -> float:
        """Return the test error at a point."""
        return float(self.model.test_error(self.nodes, point))


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
        residuals = residual(unpack(torch.from_numpy(values.copy()), start, names))
        return pack(residuals, names).numpy()

    solution = root(packed, pack(start, names).numpy(), method="hybr", options={"xtol": 1e-14})
    return unpack(torch.from_numpy(solution.x), start, names)


def spectral_radius(equations: Equations, point: Point, eta: float, gamma: float) -> float:
    r"""Return the growth per step of a small change of (m, Ω, ā), for η = 1 − η₀ and γ = γ₁.

    A change at time r alone, of size λʳ, moves Ω[r,s] to Ω + λʳ A with A = lim δθ_rᵀCθ_s/d, and
    Ω[r,r] to Ω + λʳ(A + Aᵀ): to first order Gʳ = (I + K) G with K = A Ω⁻¹. The expectations at
    time r against the unchanged iterate therefore close on (m, K, ā),

    .. math::
       \lambda\,\delta m &= (1-\eta)\,\delta m + \eta\,\delta\hat m, \qquad
       \lambda\,\delta K = (1-\eta)\,\delta K + \eta\,\delta\hat\Omega\,\Omega^{-1}, \qquad
       \lambda\,\delta a = \delta a - \gamma\,\delta E f ,

    with m̂ and Ω̂ the right-hand sides of the equations, Ω̂ between the changed and the unchanged
    directions. The largest |λ| of this finite matrix is returned. For continuous g only: see
    :func:`direction_jumps`.
    """
    noise = equations.nodes.noise(point.overlap)
    inverse = torch.zeros_like(point.overlap)
    if float(point.overlap.abs().max()) > 1e-12:  # for Ω = 0 there is no K
        inverse = torch.linalg.pinv(point.overlap, hermitian=True, rtol=1e-10)
    names = equations.unknowns(point)
    still = equations.observe(noise, point).direction
    origin = Point(point.alignment, torch.zeros_like(point.overlap), point.head)

    def step(at: Point) -> Point:
        tilted = noise + noise @ at.overlap.T
        tilt = torch.eye(len(inverse), dtype=inverse.dtype) + at.overlap
        moved = at._replace(overlap=tilt @ point.overlap @ tilt.T)
        averages = equations.observe(tilted, moved)
        alignment, overlap = equations.standing(averages.direction, still)
        return Point(
            (1 - eta) * at.alignment + eta * alignment,
            (1 - eta) * at.overlap + eta * (overlap - point.overlap) @ inverse,
            at.head | {name: at.head[name] - gamma * averages.head[name] for name in names},
        )

    def packed(values: Tensor) -> Tensor:
        return pack(step(unpack(values, origin, names)), names)

    jacobian = central_differences(packed, pack(origin, names))
    return float(torch.linalg.eigvals(jacobian).abs().max())


def central_differences(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Return the Jacobian of a function from (k,) to (k,) by central differences."""
    columns = []
    for direction in torch.eye(len(at), dtype=at.dtype) * DIFFERENCE:
        columns.append((function(at + direction) - function(at - direction)) / (2 * DIFFERENCE))
    return torch.stack(columns, 1)


def replicon(equations: Equations, point: Point) -> float:
    r"""Return the growth of the squared distance between two iterates at the same overlaps.

    .. math::
       c^2\,a\,\varrho\big(X \mapsto
       \textstyle\sum_j p_j E[\nabla g\,X\,\nabla g^\top]\big), \qquad a = \alpha
       \text{ for decoupled descent}

    Iterates converge to each other if it is below one. The filter v ← (1 − η) v − c η w amplifies
    slow differences most, by c; hence η does not appear. For continuous g only, kinks allowed:
    where g jumps it is infinite, see :func:`direction_jumps`.
    """
    population, model = equations.nodes.population, equations.model
    h = equations.nodes.preactivations(point.alignment, point.overlap)
    rows = model.bound.row_jacobians(h, population.responses, point.head)
    jacobian = model.correction(equations.nodes, point)
    if jacobian is not None:
        rows = rows - jacobian
    width = rows.shape[1]
    operator = torch.einsum("n,nij,nkl->ikjl", population.weights, rows, rows).reshape(
        width**2, width**2
    )
    growth = float(torch.linalg.eigvals(operator).abs().max())
    return equations.c**2 * equations.ridge.noise * growth


def direction_jumps(equations: Equations, point: Point) -> bool:
    r"""Whether g jumps within a few standard deviations of h; kinks of a continuous g do not count.

    Where g jumps by Δ, two iterates at a small distance ε are on different sides with a probability
    of order ε: E‖g − g'‖² ∝ Δ² ε, against ε² where g is continuous. So the step separates them,
    however close they are, and Σ[r,s] has a cusp at r = s, where its derivative is needed.
    """
    population, root = equations.nodes.population, psd_root(point.overlap)
    size = len(population.weights)
    probed = torch.linspace(0, size - 1, min(size, PROBED), dtype=torch.float64)

    def direction(z: Tensor, row: Tensor) -> Tensor:
        rows = row.long()
        h = point.alignment[population.modes[rows]] + z @ root
        return equations.model.directions(h, population.responses[rows], point.head)

    return jumps(direction, len(root), probed)
