r"""The limit of methods that reuse their rows without a correction, such as gradient descent.

The noise Z of the rows is drawn only as far as the method uses it. The product Zθ or Zᵀĥ is known
for directions that were used before; for new directions it is fresh Gaussian noise. This is exact
for finite n and d. Here d = ∞, so that vectors of length d are coordinates in a growing orthonormal
basis without any noise, and n is a number of weighted paths. The response functions of dynamical
mean-field theory are not needed: the known part of the products contains them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from decoupled_descent.descent.rules import require_linear
from decoupled_descent.objective import Parameters
from decoupled_descent.theory.averages import Point
from decoupled_descent.theory.batches import path_factors
from decoupled_descent.theory.gaussian import Normals, psd_root
from decoupled_descent.theory.laws import check_theta
from decoupled_descent.theory.populations import Population, sampled_population
from decoupled_descent.theory.ridge import Geometry, Start, rotated

if TYPE_CHECKING:
    from decoupled_descent.theory.state_evolution import StateEvolution

#: A direction is new if more than this share of its length is outside the span of the known ones.
NEW = 1e-11


class Basis:
    """Orthonormal vectors for a weighted inner product, a growing number of them."""

    def __init__(self, weights: Tensor, size: int) -> None:
        self.weights, self.count = weights, 0
        self._vectors = torch.empty(size, len(weights), dtype=torch.float64)

    @property
    def vectors(self) -> Tensor:
        """The vectors so far, shape (count, N)."""
        return self._vectors[: self.count]

    def coefficients(self, rows: Tensor) -> Tensor:
        """Inner products of rows with the vectors, shape (L, count)."""
        return (rows * self.weights) @ self.vectors.T

    def rest(self, rows: Tensor) -> Tensor:
        """The part of rows outside the span; computed twice, against rounding errors."""
        for _ in range(2):
            rows = rows - self.coefficients(rows) @ self.vectors
        return rows

    def add(self, rows: Tensor) -> Tensor:
        """Add the directions in which rows leave the span; return them, shape (at most L, N)."""
        before = self.count
        for row, rest in zip(rows, self.rest(rows), strict=True):
            added = self._vectors[before : self.count]
            for _ in range(2):
                rest = rest - added @ (self.weights * rest) @ added
            length = float((self.weights @ rest.square()).sqrt())
            if length > NEW * float((self.weights @ row.square()).sqrt()):
                self._vectors[self.count] = rest / length
                self.count += 1
        return self._vectors[before : self.count]


class ReusedNoise:
    r"""Products with Z, an n × d matrix of independent N(0, 1/d) entries, for d = ∞.

    With ⟨u, u'⟩ the weighted mean over paths, (x, x') = xᵀx'/d, orthonormal v_a with known
    y_a = Z v_a and orthonormal u_b with known w_b = Zᵀu_b, a new direction has

    .. math:: Zv = \textstyle\sum_b u_b\,(w_b, v)/\alpha + z, \qquad
              Z^\top u = \textstyle\sum_a v_a\,\alpha\langle y_a, u\rangle + \sqrt\alpha\,e

    with fresh normals z, orthogonal to all u_b, and a fresh unit vector e. The normals are also
    made orthogonal to each other and to functions of the mode and the response, as they are in the
    limit. So linear functions of them have no sampling error.
    """

    def __init__(
        self,
        population: Population,
        normals: Normals,
        ratio: float,
        coordinates: Tensor,
        rank: int,
    ) -> None:
        paths, weights = len(population.weights), population.weights
        self.ratio, self.normals, self.used = ratio, normals, 0
        known = _side_information(population)
        frame = len(known) + 2 * rank
        if 2 * frame > paths:
            raise ValueError(
                f"paths={paths} are too few for this many steps, units and modes; use at least "
                f"{1 << (2 * frame - 1).bit_length()}"
            )
        self.right = Basis(coordinates, rank)
        self.left, self.frame = Basis(weights, rank), Basis(weights, frame)
        self.forward = torch.empty(rank, paths, dtype=torch.float64)  # y_a
        self.backward = torch.zeros(rank, len(coordinates), dtype=torch.float64)  # w_b
        self.frame.add(known)

    def multiply(self, rows: Tensor) -> Tensor:
        """Return (Zxᵀ)ᵀ for rows x in coordinates, shape (L, M)."""
        new = self.right.add(rows)
        known = (new * self.right.weights) @ self.backward[: self.left.count].T / self.ratio
        images = known @ self.left.vectors + self._fresh(len(new))
        self.forward[self.right.count - len(new) : self.right.count] = images
        return self.right.coefficients(rows) @ self.forward[: self.right.count]

    def multiply_transposed(self, rows: Tensor, fresh: Tensor) -> Tensor:
        """Return Zᵀu for functions u of the paths, rows (L, M), in coordinates.

        ``fresh`` has unit vectors orthogonal to all that was seen, one for every row.
        """
        new = self.left.add(rows)
        self.frame.add(new)
        known = (new * self.left.weights) @ self.forward[: self.right.count].T * self.ratio
        images = known @ self.right.vectors + math.sqrt(self.ratio) * fresh[: len(new)]
        self.backward[self.left.count - len(new) : self.left.count] = images
        return self.left.coefficients(rows) @ self.backward[: self.left.count]

    def _fresh(self, count: int) -> Tensor:
        """Normals orthogonal to everything that was seen on the paths, shape (count, M)."""
        drawn = [self.normals.mirrored(self.used + k) for k in range(count)]
        self.used += count
        if not count:
            return self.frame.vectors[:0]
        found = self.frame.add(torch.stack(drawn))
        assert len(found) == count
        return found


def _side_information(population: Population) -> Tensor:
    """Indicators of the modes, and the responses within each, shape (2 J, M)."""
    members = population.modes == torch.arange(population.total).unsqueeze(1)
    responses = members * population.responses
    return torch.cat([members.double(), responses])


class ReuseTrajectory:
    r"""One randomisation of the limit of a method without a correction.

    .. math:: h_t = m_{j,t} + Z\theta_t, \qquad \hat h_t = g(h_t, y, \bar a_t), \qquad
              \tilde\theta_t = Z^\top\hat h_t + \alpha\textstyle\sum_j \mu_j l_{j,t}^\top

    on M weighted paths, and θ, θ̃ and the means in coordinates. The rule moves θ as it does in
    training. With mini-batches row i of ĥ is multiplied by its factor, n/|B| in a batch and 0
    outside.

    With ``rows`` the averages along the means fluctuate as those of n rows in d dimensions do:
    e has N(0, 1/d) components in the directions that are known at the start, and a path of weight p
    counts p (1 + N(0, 1)/√(np)) times in l_j and in the head's step, at all steps alike.
    """

    def __init__(
        self,
        theory: StateEvolution,
        steps: int,
        start: tuple[Tensor, Tensor],
        parameters: Parameters,
        scale: float,
        seed: int,
        rows: int | None = None,
    ) -> None:
        self.algorithm, self.ratio, self.scale = theory.algorithm, theory.ratio, scale
        self.steps, self.parameters = steps, parameters
        self.head_slots = self.algorithm.head_slots(parameters)
        model = self.model = theory.model(len(start[1]))
        self.nodes = theory.nodes(model.width, seed)
        width = model.width
        require_linear(self.algorithm.update, torch.eye(width, dtype=torch.float64))
        means, theta = (_extended(part, steps * width) for part in start)
        self.points, self.known = len(theory.geometry.spectrum), start[0][0].numel()
        self.root = theory.geometry.spectrum.sqrt().repeat(means.shape[1] // self.points)
        self.weights = torch.full_like(self.root, 1 / self.points)
        normals = Normals(theory.paths, steps * width, seed, auxiliary=2)
        population = self.population = sampled_population(model.mixture, normals)
        self.counts, self.spread, self.generator = population, 0.0, normals.generator
        if rows is not None:
            drawn = torch.randn(len(population.weights), generator=self.generator).double()
            counts = population.weights + (population.weights / rows).sqrt() * drawn
            self.counts = population._replace(weights=counts / counts.sum())
            self.spread = math.sqrt(self.ratio / rows)
        self.sizes, self.batches = theory.batch_sizes(), None
        if len(self.sizes) > 1:
            plan = (self.sizes, theory.rows(), theory.step.replacement)
            self.batches = path_factors(*plan, population, self.generator)
        self.noise = ReusedNoise(self.population, normals, self.ratio, self.weights, steps * width)
        self.means, self.theta, self.slots = means, theta, self.algorithm.update.slots(theta)
        self.path: list[tuple[Tensor, Tensor]] = []  # θ_t and θ̃_t
        self.directions: list[Tensor] = []  # ĥ_t
        self.heads: list[Parameters] = []
        self.losses: list[dict[str, Tensor]] = []  # errors and overlaps of every iterate

    def advance(self) -> float:
        """Make step t and return the test error of iterate t; infinite if overlaps are."""
        t, population, model = len(self.losses), self.population, self.model
        theta, parameters = self.theta, self.parameters
        coloured = theta * self.root
        alignment = (self.means * self.weights) @ theta.T
        overlap = (coloured * self.weights) @ coloured.T
        if not bool(overlap.isfinite().all() and alignment.isfinite().all()):
            return math.inf
        noise = self.noise.multiply(coloured)
        h = self.preactivations = (alignment.T[:, population.modes] + noise).T
        self.heads.append(parameters)
        counts, factors = self.counts, None
        if self.batches is not None:
            factors = next(self.batches)
            counts = counts._replace(weights=counts.weights * factors)
        seen = model.observe(counts, h, parameters)
        train = seen.loss
        if counts is not population:
            train = population.weights @ model.losses(h, population.responses, parameters)
        hats = seen.direction if factors is None else seen.direction * factors.unsqueeze(1)
        back = self.root * self.noise.multiply_transposed(hats.T.contiguous(), self._fresh(t))
        tilde = back + self.ratio * seen.signal.T @ self.means
        test = model.test_error(self.nodes, Point(alignment, overlap, parameters))
        head = {f"head.{name}": value for name, value in parameters.items()}
        errors = {"test_error": test, "train_error": train}
        limits = {"alignment": alignment, "overlap": overlap, "signal": seen.signal}
        self.losses.append(errors | limits | head)
        self.path.append((coloured, self.root * tilde))
        self.directions.append(hats.T)
        self.theta, self.slots = self.algorithm.update(theta, tilde, self.slots, t, self.scale)
        self.parameters, self.head_slots = self.algorithm.step_head(
            parameters, seen.head, self.head_slots, t
        )
        return float(test)

    def _fresh(self, t: int) -> Tensor:
        """Unit vectors in directions of their own, one per unit."""
        width, fresh = self.model.width, torch.zeros_like(self.theta)
        if self.spread:
            shape = (width, self.known)
            drawn = torch.randn(shape, generator=self.generator).double()
            fresh[:, : self.known] = self.spread * drawn
            fresh = self.noise.right.rest(fresh)
        own = torch.eye(width, dtype=torch.float64).repeat_interleave(self.points, 1)
        first = self.known + t * own.shape[1]
        fresh[:, first : first + own.shape[1]] = own
        return fresh

    def quantities(self, reached: int) -> dict[str, Tensor]:
        """Return everything up to the iterate reached, by name; pairs of times as (T, T, L, L)."""
        found = {k: torch.stack([at[k] for at in self.losses[:reached]]) for k in self.losses[0]}
        theta, tilde = (torch.stack(part[:reached]) for part in zip(*self.path, strict=True))
        hats = torch.stack(self.directions[:reached])

        def pairs(left: Tensor, right: Tensor, weights: Tensor) -> Tensor:
            return torch.einsum("rli,smi->rslm", left * weights, right)

        found["omega"] = pairs(theta, theta, self.weights)
        found["xi"] = pairs(theta, tilde, self.weights)
        found["gradient_overlap"] = pairs(tilde, tilde, self.weights)
        found["sigma"] = pairs(hats, hats, self.population.weights)
        return found


def _extended(vectors: Tensor, directions: int) -> Tensor:
    """Vectors of shape (N, K, S), with room for further directions; flat, shape (N, (K + …) S)."""
    count, _, points = vectors.shape
    return torch.cat([vectors, vectors.new_zeros(count, directions, points)], 1).flatten(1)


def coordinates(geometry: Geometry, start: Start, theta: Tensor | None) -> tuple[Tensor, Tensor]:
    r"""Means (J, K, S) and θ_1 (L, K, S): coordinates in K directions at S eigenvalues of C.

    For C = I their Gram matrix says everything. Otherwise given vectors are taken as they are, in
    one direction, and what is random has directions of its own.
    """
    modes, width = start.alignment.shape
    if len(geometry.spectrum) == 1:
        chi = geometry.mixture.overlaps
        top = torch.cat([chi, start.alignment], 1)
        gram = torch.cat([top, torch.cat([start.alignment.T, start.overlap], 1)])
        values, vectors = torch.linalg.eigh(gram)
        values = values.clamp(min=0).where(values > 1e-14 * values[-1], 0.0)
        root = (vectors * values.sqrt()).unsqueeze(2)
        return root[:modes], root[modes:]
    ones = torch.ones(len(geometry.spectrum), dtype=torch.float64)
    if theta is not None:
        means, given = check_theta(geometry.mixture, theta)
        return rotated(means, geometry.axes).unsqueeze(1), rotated(given, geometry.axes)[:, None]
    if geometry.means is None:
        means = psd_root(geometry.mixture.overlaps).unsqueeze(2) * ones
    else:
        means = geometry.means.unsqueeze(1)
    drawn = torch.eye(width, dtype=torch.float64).unsqueeze(2) * ones
    return (
        torch.cat([means, means.new_zeros(modes, width, len(ones))], 1),
        torch.cat([drawn.new_zeros(width, means.shape[1], len(ones)), drawn], 1),
    )
