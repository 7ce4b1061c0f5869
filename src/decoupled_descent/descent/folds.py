r"""Heads that have not seen a row: the head's own optimism, taken out of the train error.

The memory takes each row's share in θ out of its own pre-activations. The head a is trained on the
same rows, and nothing takes their share out of it: row i moved a by about f_i/n, along which its
own loss falls, so the mean loss of n rows is too low by about (number of parameters)/n. With rows
in G folds and a second head for each, trained beside a on the rows of the *other* folds and by the
same optimiser, row i is judged by the head of its fold. A head that misses one of G parts of the
rows differs by G/(G − 1) times the shares of its rows, so the loss of row i becomes

.. math:: \Psi_i(a) + (1 - \tfrac1G)\, (\Psi_i(a^{(-k_i)}) - \Psi_i(a)) .

What fold k did to the losses of fold l, and fold l to those of fold k, vary together. The sum over
pairs of folds estimates how much this adds to the variance of the train error.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.head import HeadOptimizer, HeadSlots, starting_slots
from decoupled_descent.objective import BoundObjective, Parameters


class Folds(NamedTuple):
    """The heads of all folds; empty where there are none."""

    heads: Parameters  # by name, each with a first axis of G
    slots: HeadSlots  # what their optimiser carries, as "fold:name:key"


class Seen(NamedTuple):
    """What the heads of the folds say of some rows."""

    losses: Tensor  # Ψ_i without the share of row i in the head, shape (n,)
    directions: Parameters  # along which the heads of the folds move, stacked like them
    variance: Tensor | float  # of the mean loss, from pairs of folds


#: Where there are no folds.
NONE = Folds({}, {})


def starting_folds(count: int, head: Parameters, make: HeadOptimizer | None) -> Folds:
    """Let every fold start from the head itself."""
    if not count or not head:
        return NONE
    heads = {name: torch.stack([value] * count) for name, value in head.items()}
    return Folds(heads, starting_slots(make, apart(heads)))


@lru_cache(maxsize=8)
def fold_of(n: int, count: int, device: torch.device) -> Tensor:
    """Which fold each of n rows is in: a random order dealt out, the same for equal n."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(n, generator=generator, device=generator.device)
    folds = torch.empty(n, dtype=torch.int64, device=generator.device)
    folds[order] = torch.arange(n, device=generator.device) % count
    return folds.to(device)


class Layout(NamedTuple):
    """Which rows are in which fold."""

    place: Tensor  # the fold of each row, shape (1, n)
    inside: Tensor  # 1/n where a row is in a fold, shape (n, G)
    weights: Tensor  # how much rows count for the head of a fold, shape (G, n)


@lru_cache(maxsize=8)
def whole(n: int, count: int, device: torch.device, dtype: torch.dtype) -> Layout:
    """The layout of all n rows."""
    return layout(fold_of(n, count, device), count, dtype)


def layout(place: Tensor, count: int, dtype: torch.dtype) -> Layout:
    """The layout of rows by their folds; the rows outside of a fold count as n rows together."""
    inside = torch.nn.functional.one_hot(place, count).to(dtype)
    outside = 1 - inside.T
    weights = outside * (len(place) / outside.sum(1, keepdim=True).clamp_min(1))
    return Layout(place.unsqueeze(0), inside / len(place), weights)


def look(
    heads: Parameters, at: Layout, bound: BoundObjective, h: Tensor, y: Tensor, losses: Tensor
) -> Seen:
    """Judge rows by the heads of their folds.

    Args:
        heads: The heads, stacked.
        at: Which rows are in which fold.
        bound: Ψ.
        h: Pre-activations, shape (n, L).
        y: Labels.
        losses: Ψ(h, y, a) by the head itself, shape (n,).
    """
    others, directions = bound.several_heads(h, y, heads, at.weights)
    share = 1 - 1 / len(at.weights)
    between = ((losses - others) @ at.inside).fill_diagonal_(0)  # what fold k did to fold l
    left_out = torch.lerp(losses, others.gather(0, at.place)[0], share)
    return Seen(left_out, directions, (between * between.T).sum() * share**2)


def outputs(folds: Folds, bound: BoundObjective, h: Tensor, own: Tensor) -> Tensor:
    """Outputs of all n rows without their share in the head; ``own`` are those of the head."""
    count = len(next(iter(folds.heads.values())))
    place, found = fold_of(len(h), count, h.device), own.clone()
    for k in range(count):
        rows, head = place == k, {name: value[k] for name, value in folds.heads.items()}
        found[rows] = torch.lerp(own[rows], bound.outputs(h[rows], head), 1 - 1 / count)
    return found


def apart(stacked: Parameters) -> Parameters:
    """One parameter for each fold, as "fold:name": optimisers treat them one by one."""
    return {f"{k}:{name}": part for name, value in stacked.items() for k, part in enumerate(value)}


def stacked(parts: Parameters) -> Parameters:
    """Undo :func:`apart`."""
    found: dict[str, list[Tensor]] = {}
    for key, part in parts.items():
        found.setdefault(key.partition(":")[2], []).append(part)
    return {name: torch.stack(values) for name, values in found.items()}
