"""The first round of the search: feature maps ranked by kernel ridge regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.candidates import as_features, fit_all
from decoupled_descent.rows.interface import Features
from decoupled_descent.rows.ridge_path import losses_without, ridge_path

#: The largest number of rows for the ranking of feature maps, up to 1000 rows in all. With more it
#: grows as the square root of n, to at most ``MOST_RANKED``: of three draws of 400 among 100,000
#: rows, one ranked linear maps first, whose test error was 11 % above that of kernels.
RANKED, MOST_RANKED = 400, 1000
#: The number of feature maps that are kept beside the linear one; a third one hardly improved
#: results.
KEPT = 2
#: With more rows than this, the ranking leaves out no folds: its rows are then a small part of all
#: rows, and that they have chosen the maps hardly changes the estimate.
NESTED = 2000
#: Ridges are powers of ten in steps of half a decade, within these exponents.
STEP, LOWEST, HIGHEST = 0.5, -5.0, 3.0
#: With the real loss the first ridge is this share of the best ridge of the ranking, because the
#: curvature is smaller.
SHARE = 0.2


class Ranked(NamedTuple):
    """A feature map and its place.

    Attributes:
        features: The map, fitted if all rows were used for the ranking; else not.
        error: Its lowest leave-one-out error.
        start: The first ridge to try with the real loss.
        phi: The features of all rows, if all were used for the ranking; else None.
        known: Whether the map is kept in a ranking without each fold of rows, and in the ranking
            of all rows, which is the last entry.
    """

    features: Features
    error: float
    start: float
    phi: Tensor | None
    known: Tensor


def _targets(y: Tensor, loss: str, outputs: int) -> Tensor:
    if loss == "cross_entropy":
        return torch.nn.functional.one_hot(y.long(), outputs).double()
    return y.double().reshape(len(y), -1)


def some_rows(n: int, most: int, groups: Tensor | None, seed: int) -> Tensor:
    """At most so many rows, drawn without using labels; groups stay together."""
    if n <= most:
        return torch.arange(n)
    generator = torch.Generator().manual_seed(seed)
    if groups is None:
        return torch.randperm(n, generator=generator)[:most].sort().values
    order = torch.randperm(int(groups.max()) + 1, generator=generator)
    sizes = torch.bincount(groups)[order].cumsum(0)
    return torch.isin(groups, order[: max(2, int((sizes <= most).sum()))]).nonzero().squeeze(1)


def ranked_count(n: int) -> int:
    """How many of n rows rank the feature maps."""
    return min(n, round(RANKED * math.sqrt(max(1.0, n / 1000))), MOST_RANKED)


def part_of(X: Any, rows: Tensor) -> Any:
    """Some rows, as a matrix in memory, of :class:`Rows` or of a CSR matrix."""
    return X.gather(rows) if isinstance(X, Rows) else X[rows.numpy()]


def rank(
    X: Any,
    y: Tensor,
    loss: str,
    outputs: int,
    tried: Sequence[Features],
    common: dict[str, Any],
    seed: int,
    folds: Tensor,
) -> list[Ranked]:
    """Exact leave-one-out of kernel ridge regression for every feature map, best first.

    Every fold of rows is also left out as a whole, for ridges near the best one: which maps would
    be kept without these rows?
    """
    n = len(y)
    rows = some_rows(n, ranked_count(n), common["groups"], seed)
    everything = len(rows) == n
    targets = _targets(y, loss, outputs)[rows]
    weights, removed, groups = (
        None if common[name] is None else common[name][rows]
        for name in ("weights", "removed", "groups")
    )
    share = torch.ones(len(rows), dtype=torch.float64) if weights is None else weights
    ridges = 10.0 ** torch.arange(HIGHEST, LOWEST - STEP / 2, -STEP, dtype=torch.float64)
    held = torch.arange(int(folds.max()) + 1).unsqueeze(1) == folds[rows]
    maps = tried if everything else as_features(list(tried))  # others, which are gone afterwards
    fitted = fit_all(maps, part_of(X, rows), weights)
    found, errors = [], []
    for features, (_, phi) in zip(tried, fitted, strict=True):
        path = ridge_path(phi, targets, ridges, weights, removed, groups)
        own = path.losses @ share / share.sum()
        best = int(own.argmin())
        start = float(ridges[best]) * (1.0 if loss == "squared" else SHARE)
        found.append((features, float(own[best]), start, phi if everything else None))
        errors.append(own[best].repeat(len(held) + 1))
        if n <= NESTED:
            near = ridges[max(best - 1, 0) : best + 2]
            losses = losses_without(phi, targets, near, held, weights, removed, groups)
            others = share * ~held
            errors[-1][:-1] = ((losses * others).sum(2) / others.sum(1)).amin(0)
    places = torch.stack(errors).argsort(dim=0, stable=True).argsort(dim=0)
    linear = torch.tensor([features.name == "linear" for features in tried]).unsqueeze(1)
    known = (places < KEPT) | linear
    ranked = [Ranked(*one, known=own) for one, own in zip(found, known, strict=True)]
    return sorted(ranked, key=lambda one: one.error)


def keep(ranked: Sequence[Ranked]) -> list[Ranked]:
    """The best few and the linear model, then maps that are kept only if some fold is left out."""
    kept = [one for one in ranked if bool(one.known.any())]
    return sorted(kept, key=lambda one: not one.known[-1])
