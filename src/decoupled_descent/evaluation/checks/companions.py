r"""Rows that are unusually similar, and their effect on the estimate.

Rows of one patient are alike in their columns, and the model learns the patient. Errors of single
rows left out do not show it, because the companions are still in training. So companions are left
out together, and the rise of the error is compared with the rise if as many of the next neighbours
are left out instead. Independent rows of a smooth law have about the same rise in both cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Companions are so near that fewer neighbours than this are expected within their distance: 22 %
#: of independent rows have such a neighbour by chance.
NEARER = 0.25
#: The most rows that are left out together.
MOST = 10
#: With more rows than this, not all pairs are compared.
MOST_COMPARED = 2000
#: A rise counts as chance below this many of its standard errors. 1 of 49 draws of real tables
#: without groups passes it.
CHANCE = 3

Indices = NDArray[np.intp]
Floats = NDArray[np.float64]


class CompanionEffect(NamedTuple):
    """How much more the error rises when companions are left out than with other neighbours."""

    rise: float  # in the units of the loss
    stderr: float  # of the rise, from sums over what is left out together
    share: float  # of rows that have a companion

    @property
    def certain_rise(self) -> float:
        """The rise, or 0 if it may be chance."""
        return self.rise if self.rise > CHANCE * self.stderr else 0.0


def companion_effect(
    losses_without: Callable[[Indices], Floats | None], X: Floats
) -> CompanionEffect | None:
    """Leave companions out together, then as many other neighbours, and compare the losses.

    Args:
        losses_without: The losses of all rows if those with the same number are left out together;
            None if that is not known. Then None is returned, as it is if no row has a companion.
        X: The columns in which rows may be similar, of equal scale, shape (n, d).
    """
    squares = np.square(X).sum(1)
    distances = np.maximum(squares[:, None] + squares - 2 * (X @ X.T), 0)
    np.fill_diagonal(distances, np.inf)
    together = companions(distances)
    counts = np.bincount(together)
    if counts.max() == 1:
        return None
    n, parts = len(X), []
    alone = losses_without(np.arange(n))
    for groups in (together, neighbour_groups(distances, together)):
        losses = losses_without(groups)
        if alone is None or losses is None:
            return None
        rise = losses - alone
        sums = np.bincount(groups, rise - rise.mean())
        parts.append((float(rise.mean()), float(np.square(sums).sum()) / n**2))
    (near, variance), (far, other) = parts
    return CompanionEffect(
        near - far, math.sqrt(variance + other), float(np.mean(counts[together] > 1))
    )


def companions(distances: Floats) -> Indices:
    r"""Number the groups of unusually near rows, given squared distances.

    If the k-th neighbour is at distance D in m dimensions, k (δ/D)^m rows are expected within δ.
    The nearest pairs with fewer than ``NEARER`` are joined first, in groups of up to ``MOST`` rows.
    """
    n = len(distances)
    k = min(n - 1, max(4, math.isqrt(n)))
    near = np.partition(distances, (k // 2, k - 1), 1)
    far, half = near[:, k - 1], near[:, k // 2]
    grows = (half > 0) & (far > half)
    growth = np.log(far[grows]) - np.log(half[grows])
    m = max(1.0, 2 * math.log(k / (k // 2 + 1)) / float(np.median(growth))) if len(growth) else 1.0
    with np.errstate(over="ignore"):  # infinite: beyond all neighbours
        expected = k * (distances / np.maximum(far, np.finfo(float).tiny)[:, None]) ** (m / 2)
    left, right = np.nonzero(np.triu(np.minimum(expected, expected.T) < NEARER, 1))
    groups, sizes = np.arange(n), np.ones(n, dtype=int)
    order = np.argsort(distances[left, right], kind="stable")
    for one, two in zip(groups[left[order]].tolist(), groups[right[order]].tolist(), strict=True):
        a, b = groups[one], groups[two]
        if a != b and sizes[a] + sizes[b] <= MOST:
            groups[groups == b] = a
            sizes[a] += sizes[b]
    return np.unique(groups, return_inverse=True)[1].reshape(-1)


def neighbour_groups(distances: Floats, together: Indices) -> Indices:
    """Groups of the same sizes, each of near rows that are no companions of each other."""
    n, free = len(together), np.ones(len(together), dtype=bool)
    counts = np.bincount(together)
    groups = np.arange(n) + len(counts)
    for group in np.argsort(-counts, kind="stable")[: int((counts > 1).sum())]:
        left = np.flatnonzero(free & (together == group))
        if len(left) == 0:
            continue
        chosen, used = [int(left[0])], {int(together[left[0]])}
        for row in np.argsort(distances[left[0]], kind="stable").tolist():
            if len(chosen) == counts[group]:
                break
            if free[row] and together[row] not in used:
                chosen.append(row)
                used.add(int(together[row]))
        free[chosen] = False
        groups[chosen] = group
    return np.unique(groups, return_inverse=True)[1].reshape(-1)
