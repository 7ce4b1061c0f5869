"""Mini-batches in the limit: row i of ĥ is multiplied by s_i, n/|B| in a batch and 0 outside."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from decoupled_descent.theory.populations import Population

#: Its multiples modulo one are spread evenly over [0, 1], for any number of them.
GOLDEN = (5**0.5 - 1) / 2


def batch_sizes(n: int, size: int) -> list[int]:
    """Rows of the batches of a pass."""
    full, rest = divmod(n, size)
    return [size] * full + [rest] * (rest > 0)


def batch_masks(sizes: list[int], n: int, updates: int) -> Tensor:
    r"""E[s_r s_t] for the row factors s of two updates by mini-batches, shape (T, T).

    E s² = n/|B|; updates of different passes are independent, E s_r s_t = 1; within a pass, batches
    without a common row have E s_r s_t = 0.
    """
    per_pass = len(sizes)
    masks = torch.ones(updates, updates, dtype=torch.float64)
    for t in range(updates):
        first = t - t % per_pass
        masks[first : first + per_pass, t] = 0.0
        masks[t, t] = n / sizes[t % per_pass]
    return masks


def path_factors(
    sizes: list[int],
    n: int,
    population: Population,
    generator: torch.Generator,
) -> Iterator[Tensor]:
    """Yield s of every path, update by update, of weighted mean one, shape (M,).

    Every batch contains the same share of every mode.
    """
    ends = torch.tensor([0, *sizes], dtype=torch.float64).cumsum(0) / n
    batches = list(pairwise(ends.tolist()))
    while True:
        ranks = _ranks(population, generator)
        for low, high in batches:
            inside = ((ranks >= low) & (ranks < high)).double()
            yield inside / (population.weights @ inside)


def _ranks(population: Population, generator: torch.Generator) -> Tensor:
    """Numbers that are uniform over [0, 1] within every mode, in random order."""
    drawn = torch.rand(len(population.modes) + 1, generator=generator).double()
    order = torch.argsort(population.modes + drawn[1:])
    spread = GOLDEN * torch.arange(len(order), dtype=torch.float64)
    return torch.empty_like(spread).index_copy_(0, order, (spread + drawn[0]) % 1.0)
