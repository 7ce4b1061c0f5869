r"""The limit of methods that reuse their rows without a correction, such as gradient descent.

Products with the noise of the rows are those of :mod:`decoupled_descent.theory.reused_noise`. Here
d = ∞, so that vectors of length d are coordinates in a growing orthonormal basis without any noise,
and n is a number of weighted paths. The response functions of dynamical mean-field theory are not
needed: the known part of the products contains them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Self

import torch
from torch import Tensor

from decoupled_descent.descent.rules import require_linear
from decoupled_descent.objective import Parameters
from decoupled_descent.theory.averages import Point
from decoupled_descent.theory.batches import path_factors
from decoupled_descent.theory.gaussian import Normals, psd_root
from decoupled_descent.theory.laws import check_theta
from decoupled_descent.theory.populations import Population, sampled_population
from decoupled_descent.theory.reused_noise import Basis, ReusedNoise
from decoupled_descent.theory.ridge import CovarianceGeometry, StartingOverlaps, rotated

if TYPE_CHECKING:
    from decoupled_descent.theory.state_evolution import StateEvolution


class Axes(NamedTuple):
    """The coordinates of vectors of length d: N = (K + new directions) S numbers."""

    means: Tensor  # the means in these coordinates, shape (J, N)
    root: Tensor  # √τ at the eigenvalue of every coordinate, shape (N,)
    weights: Tensor  # 1/S each, shape (N,)
    points: int  # S, the number of eigenvalues
    spanned: int  # K S, the coordinates in which the means and θ_1 are given

    @classmethod
    def of(
        cls, geometry: CovarianceGeometry, start: tuple[Tensor, Tensor], rank: int
    ) -> tuple[Self, Tensor]:
        """Add room for new directions to the means and θ_1; return the axes, and θ_1 in them."""
        means, theta = (_extended(part, rank) for part in start)
        points = len(geometry.spectrum)
        root = geometry.spectrum.sqrt().repeat(means.shape[1] // points)
        weights = torch.full_like(root, 1 / points)
        return cls(means, root, weights, points, start[0][0].numel()), theta


class SampledColumns:
    r"""The columns of the rows themselves, for steps that map every entry of θ.

    N samples of (entries of the means, entry of θ_1) have the weights 1/N. A new direction e has
    one independent normal per sample. Coordinates would not do: a map of entries has a meaning for
    entries only.
    """

    def __init__(self, means: Tensor, theta: Tensor, samples: int, rank: int, seed: int) -> None:
        d = means.shape[1]
        every = torch.arange(d).repeat(max(1, math.ceil(samples / (2 * d)))).repeat(2)
        self.means, self.theta = means[:, every], theta[:, every]
        self.root = torch.ones(len(every), dtype=torch.float64)
        self.weights = self.root / len(every)
        self.generator = torch.Generator().manual_seed(seed)
        self.frame = Basis(self.weights, len(means) + len(theta) + 2 * rank)
        self.frame.add(self.means)

    def fresh(self, width: int, known: Tensor) -> Tensor:
        """Unit vectors orthogonal to the known ones and to all before, shape (width, N)."""
        self.frame.add(known)
        drawn = torch.randn((width, len(self.root) // 2), generator=self.generator).double()
        return self.frame.add(torch.cat([drawn, -drawn], 1))


class Fluctuations(NamedTuple):
    """How averages along the means differ from their limits in runs of n rows."""

    counts: Population  # the paths with the weights that they have in these averages
    spread: float  # standard deviation of the components of e, d^{−1/2}; 0 for infinitely many rows
    generator: torch.Generator

    @classmethod
    def of(
        cls, population: Population, generator: torch.Generator, ratio: float, rows: int | None
    ) -> Self:
        """Draw them for n rows; none if there are infinitely many."""
        if rows is None:
            return cls(population, 0.0, generator)
        drawn = torch.randn(len(population.weights), generator=generator).double()
        counts = population.weights + (population.weights / rows).sqrt() * drawn
        counted = population._replace(weights=counts / counts.sum())
        return cls(counted, math.sqrt(ratio / rows), generator)


class ReuseIterate(NamedTuple):
    """What one step leaves behind; vectors of length d are multiplied by the root of C."""

    theta: Tensor  # θ_t, shape (L, N)
    tilde: Tensor  # θ̃_t, shape (L, N)
    direction: Tensor  # ĥ_t, shape (L, M)


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
        rank = steps * model.width
        self.axes: Axes | SampledColumns
        if theory.step.entrywise:
            self.axes = SampledColumns(*start, theory.paths, rank, seed)
            self.theta = self.axes.theta
        else:
            require_linear(self.algorithm.update, torch.eye(model.width, dtype=torch.float64))
            self.axes, self.theta = Axes.of(theory.geometry, start, rank)
        self.slots = self.algorithm.update.slots(self.theta)
        normals = Normals(theory.paths, rank, seed, auxiliary=2)
        population = self.population = sampled_population(model.mixture, normals)
        self.fluctuations = Fluctuations.of(population, normals.generator, self.ratio, rows)
        self.sizes, self.batches = theory.batch_sizes(), None
        if len(self.sizes) > 1:
            plan = (self.sizes, theory.rows(), population, normals.generator)
            self.batches = path_factors(*plan)
        self.noise = ReusedNoise(population, normals, self.ratio, self.axes.weights, rank)
        self.iterates: list[ReuseIterate] = []
        self.heads: list[Parameters] = []
        self.losses: list[dict[str, Tensor]] = []  # errors and overlaps of every iterate

    def advance(self) -> float:
        """Make step t and return the test error of iterate t; infinite if overlaps are."""
        t, population, model, axes = len(self.losses), self.population, self.model, self.axes
        theta, parameters = self.theta, self.parameters
        coloured = theta * axes.root
        alignment = (axes.means * axes.weights) @ theta.T
        overlap = (coloured * axes.weights) @ coloured.T
        if not bool(overlap.isfinite().all() and alignment.isfinite().all()):
            return math.inf
        noise = self.noise.multiply(coloured)
        h = self.preactivations = (alignment.T[:, population.modes] + noise).T
        self.heads.append(parameters)
        counts, factors = self.fluctuations.counts, None
        if self.batches is not None:
            factors = next(self.batches)
            counts = counts._replace(weights=counts.weights * factors)
        averages = model.observe(counts, h, parameters)
        train = averages.loss
        if counts is not population:
            train = population.weights @ model.losses(h, population.responses, parameters)
        hats = averages.direction if factors is None else averages.direction * factors.unsqueeze(1)
        back = axes.root * self.noise.multiply_transposed(hats.T.contiguous(), self._fresh(t))
        tilde = back + self.ratio * averages.signal.T @ axes.means
        test = model.test_error(self.nodes, Point(alignment, overlap, parameters))
        head = {f"head.{name}": value for name, value in parameters.items()}
        errors = {"test_error": test, "train_error": train}
        limits = {"alignment": alignment, "overlap": overlap, "signal": averages.signal}
        self.losses.append(errors | limits | head)
        self.iterates.append(ReuseIterate(coloured, axes.root * tilde, hats.T))
        self.theta, self.slots = self.algorithm.update(theta, tilde, self.slots, t, self.scale)
        self.parameters, self.head_slots = self.algorithm.step_head(
            parameters, averages.head, self.head_slots, t
        )
        return float(test)

    def _fresh(self, t: int) -> Tensor:
        """Unit vectors in new directions, one per unit."""
        width, axes = self.model.width, self.axes
        if isinstance(axes, SampledColumns):
            return axes.fresh(width, self.noise.right.vectors)
        fresh, spanned = torch.zeros_like(self.theta), axes.spanned
        if self.fluctuations.spread:
            drawn = torch.randn((width, spanned), generator=self.fluctuations.generator).double()
            fresh[:, :spanned] = self.fluctuations.spread * drawn
            fresh = self.noise.right.rest(fresh)
        own = torch.eye(width, dtype=torch.float64).repeat_interleave(axes.points, 1)
        first = spanned + t * own.shape[1]
        fresh[:, first : first + own.shape[1]] = own
        return fresh

    def quantities(self, reached: int) -> dict[str, Tensor]:
        """Return everything up to the iterate reached, by name; pairs of times as (T, T, L, L)."""
        limits = {k: torch.stack([at[k] for at in self.losses[:reached]]) for k in self.losses[0]}
        parts = zip(*self.iterates[:reached], strict=True)
        theta, tilde, hats = (torch.stack(part) for part in parts)

        def pairs(left: Tensor, right: Tensor, weights: Tensor) -> Tensor:
            return torch.einsum("rli,smi->rslm", left * weights, right)

        limits["omega"] = pairs(theta, theta, self.axes.weights)
        limits["xi"] = pairs(theta, tilde, self.axes.weights)
        limits["gradient_overlap"] = pairs(tilde, tilde, self.axes.weights)
        limits["sigma"] = pairs(hats, hats, self.population.weights)
        return limits


def _extended(vectors: Tensor, directions: int) -> Tensor:
    """Vectors of shape (N, K, S), with room for further directions; flat, shape (N, (K + …) S)."""
    count, _, points = vectors.shape
    return torch.cat([vectors, vectors.new_zeros(count, directions, points)], 1).flatten(1)


def coordinates(
    geometry: CovarianceGeometry, start: StartingOverlaps, theta: Tensor | None
) -> tuple[Tensor, Tensor]:
    r"""Means (J, K, S) and θ_1 (L, K, S): coordinates in K directions at S eigenvalues of C.

    For C = I their Gram matrix says everything. Otherwise given vectors are taken as they are, in
    one direction, and random parts have other directions.
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
        means, columns = check_theta(geometry.mixture, theta)
        return rotated(means, geometry.axes).unsqueeze(1), rotated(columns, geometry.axes)[:, None]
    if geometry.means is None:
        means = psd_root(geometry.mixture.overlaps).unsqueeze(2) * ones
    else:
        means = geometry.means.unsqueeze(1)
    drawn = torch.eye(width, dtype=torch.float64).unsqueeze(2) * ones
    return (
        torch.cat([means, means.new_zeros(modes, width, len(ones))], 1),
        torch.cat([drawn.new_zeros(width, means.shape[1], len(ones)), drawn], 1),
    )
