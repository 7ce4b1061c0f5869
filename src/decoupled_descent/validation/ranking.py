"""The first round of the search: feature maps ranked by kernel ridge regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.candidates import as_features, fit_all
from decoupled_descent.rows.interface import Features
from decoupled_descent.rows.ridge_path import ridge_path

#: The largest number of rows for the ranking of feature maps; with more the order hardly changes.
RANKED = 400
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
    """Exact leave-one-out of kernel ridge regression for every feature map, best first."""
    n, targets = len(y), _targets(y, loss, outputs)
    rows = some_rows(n, RANKED, common["groups"], seed)
    part = {name: None if each is None else each[rows] for name, each in common.items()}
    weights = part["weights"]
    share = torch.ones(len(rows), dtype=torch.float64) if weights is None else weights
    ridges = 10.0 ** torch.arange(HIGHEST, LOWEST - STEP / 2, -STEP, dtype=torch.float64)
    whole, ranked, losses = n <= RANKED, [], []
    maps = tried if whole else as_features(list(tried))  # others, which are gone afterwards
    fitted = fit_all(maps, part_of(X, rows), weights)
    for features, (_, phi) in zip(tried, fitted, strict=True):
        path = ridge_path(
            phi, targets[rows], ridges, weights, part["removed"], groups=part["groups"]
        )
        errors = path.losses @ share / share.sum()
        best = int(errors.argmin())
        start = float(ridges[best]) * (1.0 if loss == "squared" else SHARE)
        losses.append(path.losses * share)
        ranked.append((features, float(errors[best]), start, phi if whole else None))
    names = [features.name for features in tried]
    held = folds[rows].unsqueeze(1) == torch.arange(int(folds.max()) + 2)  # the last has no row
    known = _known(torch.stack(losses), names, held if n <= NESTED else torch.zeros_like(held))
    found = [Ranked(*one, known=own) for one, own in zip(ranked, known, strict=True)]
    return sorted(found, key=lambda one: one.error)


def _known(losses: Tensor, names: Sequence[str], held: Tensor) -> Tensor:
    """Which maps are kept if the ranking leaves out a fold: booleans, shape (maps, folds).

    Args:
        losses: Of the ranked rows, for every map and ridge, shape (maps, ridges, m).
        names: Of the maps.
        held: Whether a fold has a row: the rows to leave out for each fold, shape (m, folds).

    Returns:
        True for the best few, each with its best ridge, and for the linear model.
    """
    without = (losses.sum(2, keepdim=True) - losses @ held.to(losses)).amin(1)
    places = without.argsort(dim=0, stable=True).argsort(dim=0)
    linear = torch.tensor([name == "linear" for name in names]).unsqueeze(1)
    return (places < KEPT) | linear


def keep(ranked: Sequence[Ranked]) -> list[Ranked]:
    """The best few and the linear model, then maps that are kept only if some fold is left out."""
    kept = [one for one in ranked if bool(one.known.any())]
    return sorted(kept, key=lambda one: not one.known[-1])
