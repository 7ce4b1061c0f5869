r"""Rows (h, y) that represent a mixture: nodes of a quadrature rule, or stratified samples."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.theory.gaussian import Normals, product_rule, psd_root
from decoupled_descent.theory.laws import (
    RESPONSE_NODES,
    Atom,
    MixtureLaw,
    atoms,
    is_gaussian,
)

#: Grids of normals end here; the probability beyond is below 1e-18.
REACH = 9.0


class Population(NamedTuple):
    """Rows that represent a mixture, with their modes, responses and weights."""

    responses: Tensor  # y, shape (N,)
    modes: Tensor  # j, shape (N,)
    weights: Tensor  # sum to one, and to p_j over the rows of mode j; shape (N,)
    total: int  # J

    def by_mode(self, values: Tensor) -> Tensor:
        """Return p_j E[values | mode j], shape (J, …)."""
        weighted = values * self.weights.reshape(-1, *[1] * (values.ndim - 1))
        return values.new_zeros(self.total, *values.shape[1:]).index_add_(0, self.modes, weighted)


class Nodes(NamedTuple):
    """A population with standard normals z, shape (N, L), to be placed at any (m, Ω)."""

    population: Population
    normals: Tensor

    def noise(self, overlap: Tensor) -> Tensor:
        """Return Ω^{1/2} z, shape (N, L)."""
        return self.normals @ psd_root(overlap)

    def preactivations(self, alignment: Tensor, overlap: Tensor) -> Tensor:
        """Return h = m_j + Ω^{1/2} z, shape (N, L)."""
        return alignment[self.population.modes] + self.noise(overlap)

    def joined(self, other: Nodes) -> Nodes:
        """Combine these nodes with others, with half of the weight each."""
        responses, modes, weights = (
            torch.cat([first, second])
            for first, second in zip(self.population[:3], other.population[:3], strict=True)
        )
        population = Population(responses, modes, weights / 2, self.population.total)
        return Nodes(population, torch.cat([self.normals, other.normals]))

    def turned(self, generator: torch.Generator) -> Nodes:
        """Rotate the normals at random: the law N(0, I) stays, the errors of a rule change."""
        width = self.normals.shape[1]
        drawn = torch.randn(width, width, generator=generator, dtype=torch.float64)
        return self._replace(normals=self.normals @ torch.linalg.qr(drawn).Q)


def quadrature_nodes(
    mixture: MixtureLaw, width: int, order: int, responses: int = RESPONSE_NODES
) -> Nodes:
    """Return Gauss–Hermite nodes for every mode and response, which must be discrete or Gaussian.

    ``order`` is the number of nodes per coordinate, ``responses`` that for a Gaussian response.
    """
    support = atoms(mixture, responses)
    nodes, weights = product_rule(width, order)
    population = _spread(support, weights.expand(len(support), -1), len(mixture.weights))
    return Nodes(population, nodes.repeat(len(support), 1))


def _spread(support: list[Atom], weights: Tensor, modes: int) -> Population:
    """Spread every atom over its own quadrature rule, with weights of shape (atoms, points)."""
    size = weights.shape[1]
    return Population(
        torch.tensor([a.response for a in support], dtype=torch.float64).repeat_interleave(size),
        torch.tensor([a.mode for a in support]).repeat_interleave(size),
        (weights.new_tensor([a.weight for a in support]).unsqueeze(1) * weights).flatten(),
        modes,
    )


def sampled_population(mixture: MixtureLaw, normals: Normals) -> Population:
    r"""Give each of M paths a mode and a response, stratified; the paths are reordered.

    The first auxiliary Sobol coordinate sorts the paths into modes (and the values of discrete
    responses), so that the number of paths of each is proportional to its probability, to within
    one, and its paths are evenly spread. Weights make the probabilities exact. The second
    coordinate gives Gaussian responses. Arbitrary samplers draw with the generator of the normals.
    """
    strata = atoms(mixture, order=None)
    half = normals.auxiliary.shape[1]
    if len(strata) > half:
        raise ValueError(
            f"paths={2 * half} are too few for {len(strata)} modes and response values; use at "
            f"least {1 << (2 * len(strata) - 1).bit_length()}"
        )
    counts = _shares([atom.weight for atom in strata], half)
    repeats = torch.tensor(counts)
    shares = [atom.weight / (2 * count) for atom, count in zip(strata, counts, strict=True)]
    weights = torch.tensor(shares, dtype=torch.float64).repeat_interleave(repeats).repeat(2)
    normals.sort(weights)
    gaussian = torch.special.ndtri(normals.auxiliary[1]).split(counts)
    responses = []
    for (mode, value, _), z in zip(strata, gaussian, strict=True):
        law = mixture.responses[mode]
        if value is not None:
            drawn = torch.full((2 * len(z),), value, dtype=torch.float64)
        elif is_gaussian(law):
            drawn = (law.mean + law.scale * z).repeat(2)
        else:
            drawn = law(2 * len(z), normals.generator).double()
        responses.append(drawn.reshape(2, -1))
    modes = torch.tensor([atom.mode for atom in strata]).repeat_interleave(repeats).repeat(2)
    return Population(torch.cat(responses, 1).flatten(), modes, weights, len(mixture.weights))


def sampled_nodes(mixture: MixtureLaw, width: int, count: int, seed: int) -> Nodes:
    r"""Return random points for every mode, for heads too wide for quadrature and for kinks.

    Grids at random offsets where possible, else stratified Sobol points. ``count`` is a power of
    two.
    """
    grids = offset_grids(mixture, width, count, seed)
    if grids is not None:
        return grids
    normals = Normals(count, width, seed, auxiliary=2)
    population = sampled_population(mixture, normals)
    return Nodes(population, normals.columns(width).T)


def offset_grids(mixture: MixtureLaw, width: int, count: int, seed: int) -> Nodes | None:
    """Return grids of normals at random offsets, weighted by the density, for L = 1.

    With spacing δ the error is O(δ) across jumps, O(δ²) across kinks, and negligible for smooth
    functions, also in the tails, where even thousands of Sobol points have hardly one. Every mode
    and response gets its share of the points. None for wider heads and continuous responses.
    """
    support = atoms(mixture, order=None)
    if width > 1 or any(atom.response is None for atom in support):
        return None
    size = max(64, count // len(support))
    spacing = 2 * REACH / size
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.rand(len(support), 1, generator=generator, dtype=torch.float64)
    normals = spacing * (torch.arange(size, dtype=torch.float64) + offsets) - REACH
    weights = torch.softmax(-normals.square() / 2, 1)
    return Nodes(_spread(support, weights, len(mixture.weights)), normals.reshape(-1, 1))


def independent_seeds(seed: int, count: int) -> list[int]:
    """Draw a seed for every randomisation."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2**31, (count,), generator=generator).tolist()


def _shares(weights: list[float], total: int) -> list[int]:
    """Split ``total`` paths in proportion to the weights, at least one each."""
    spare = total - len(weights)
    ideal = [weight * spare for weight in weights]
    counts = [1 + int(share) for share in ideal]
    order = sorted(range(len(weights)), key=lambda s: int(ideal[s]) - ideal[s])
    for s in order[: total - sum(counts)]:
        counts[s] += 1
    return counts
