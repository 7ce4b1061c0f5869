r"""Rows (h, y) that stand for a mixture: nodes of a quadrature rule, or stratified samples."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.data.responses import Discrete, Noisy
from decoupled_descent.state_evolution.gaussian import Normals, product_rule, psd_root
from decoupled_descent.state_evolution.laws import Atom, MixtureLaw, atoms

#: Gauss–Hermite nodes per coordinate, by L; wider heads are sampled.
ORDERS = {1: 64, 2: 64}


class Population(NamedTuple):
    """Rows that stand for a mixture: whose mode, which response, how much weight.

    Attributes:
        responses: y, shape (N,).
        modes: j, shape (N,).
        weights: Sum to one, and to p_j over the rows of mode j; shape (N,).
        total: J.
    """

    responses: Tensor
    modes: Tensor
    weights: Tensor
    total: int

    def by_mode(self, values: Tensor) -> Tensor:
        """Return p_j E[values | mode j], shape (J, …)."""
        weighted = values * self.weights.reshape(-1, *[1] * (values.ndim - 1))
        return values.new_zeros(self.total, *values.shape[1:]).index_add_(0, self.modes, weighted)


class Nodes(NamedTuple):
    """A population with standard normals, ready to be placed at any (m, Ω).

    Attributes:
        population: Modes, responses and weights.
        normals: z, shape (N, L).
    """

    population: Population
    normals: Tensor

    def place(self, alignment: Tensor, overlap: Tensor) -> Tensor:
        """Return h = m_j + Ω^{1/2} z, shape (N, L)."""
        return alignment[self.population.modes] + self.normals @ psd_root(overlap)


def quadrature_nodes(mixture: MixtureLaw, width: int, order: int | None = None) -> Nodes | None:
    """Gauss–Hermite nodes for every mode and response.

    Args:
        mixture: The mixture.
        width: L.
        order: Nodes per coordinate; chosen by L when not given.

    Returns:
        The nodes, atom by atom; None when a response law cannot be enumerated, or when L is too
        large and no order was given.

    Example:
        >>> from decoupled_descent.data.mixtures import xor
        >>> len(quadrature_nodes(xor(dimension=2), width=2, order=10).normals)
        400
    """
    support = atoms(mixture)
    order = ORDERS.get(width) if order is None else order
    if support is None or order is None:
        return None
    nodes, weights = product_rule(width, order)
    population = _repeat(support, weights, len(mixture.weights))
    return Nodes(population, nodes.repeat(len(support), 1))


def _repeat(support: list[Atom], weights: Tensor, modes: int) -> Population:
    """Give every atom its own copy of a rule with these weights."""
    size = len(weights)
    return Population(
        _column([a.response for a in support]).repeat_interleave(size),
        torch.tensor([a.mode for a in support]).repeat_interleave(size),
        torch.cat([a.weight * weights for a in support]),
        modes,
    )


def sampled_population(mixture: MixtureLaw, normals: Normals, seed: int) -> Population:
    r"""Give every path a mode and a response, stratified.

    The first auxiliary Sobol coordinate sorts the paths into modes (and the values of discrete
    responses), so that each holds its share of paths to within one, each again well spread; weights
    make the probabilities exact. The second one makes Gaussian responses.

    Args:
        mixture: The mixture.
        normals: Paths with two auxiliary coordinates; they are reordered.
        seed: For responses drawn from arbitrary samplers.

    Returns:
        The population, M rows.
    """
    strata = _strata(mixture)
    half = normals.auxiliary.shape[1]
    if len(strata) > half:
        raise ValueError(
            f"paths={2 * half} are too few for {len(strata)} modes and response values; use at "
            f"least {1 << (2 * len(strata) - 1).bit_length()}"
        )
    counts = _shares([weight for _, _, weight in strata], half)
    repeats = torch.tensor(counts)
    weights = _column([w / (2 * c) for (_, _, w), c in zip(strata, counts, strict=True)])
    weights = weights.repeat_interleave(repeats).repeat(2)
    normals.sort(weights)
    gaussian = torch.special.ndtri(normals.auxiliary[1]).split(counts)
    generator = torch.Generator().manual_seed(seed)
    responses = []
    for (mode, value, _), z in zip(strata, gaussian, strict=True):
        law = mixture.responses[mode]
        if value is not None:
            drawn = torch.full((2 * len(z),), value, dtype=torch.float64)
        elif isinstance(law, Noisy) and law.sampler is None:
            drawn = (law.mean + law.scale * z).repeat(2)
        else:
            drawn = law(2 * len(z), generator).double()
        responses.append(drawn.reshape(2, -1))
    modes = torch.tensor([mode for mode, _, _ in strata]).repeat_interleave(repeats)
    return Population(
        torch.cat(responses, 1).flatten(),
        modes.repeat(2),
        weights,
        len(mixture.weights),
    )


def sampled_nodes(mixture: MixtureLaw, width: int, count: int, seed: int) -> Nodes:
    """Stratified Sobol points for every mode, for heads too wide for quadrature.

    Args:
        mixture: The mixture.
        width: L.
        count: How many points, a power of two.
        seed: Of this randomisation.

    Returns:
        The nodes.
    """
    normals = Normals(count, width, seed, auxiliary=2)
    population = sampled_population(mixture, normals, seed)
    return Nodes(population, normals.columns(width).T)


def _column(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _strata(mixture: MixtureLaw) -> list[tuple[int, float | None, float]]:
    """(mode, response, probability), with None for a response to be drawn path by path."""
    found: list[tuple[int, float | None, float]] = []
    for mode, (p, law) in enumerate(zip(mixture.weights.tolist(), mixture.responses, strict=True)):
        if isinstance(law, Discrete):
            pairs = zip(law.values, law.probabilities, strict=True)
            found += [(mode, y, p * q) for y, q in pairs if p * q > 0]
        elif p > 0:
            found.append((mode, None, p))
    return found


def _shares(weights: list[float], total: int) -> list[int]:
    """Split ``total`` paths in proportion to the weights, at least one each."""
    spare = total - len(weights)
    ideal = [weight * spare for weight in weights]
    counts = [1 + int(share) for share in ideal]
    order = sorted(range(len(weights)), key=lambda s: int(ideal[s]) - ideal[s])
    for s in order[: total - sum(counts)]:
        counts[s] += 1
    return counts
