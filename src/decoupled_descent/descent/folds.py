r"""Cross-fitting of the head: its optimism is removed from the train error.

The memory removes each row's share in θ from its own pre-activations. The head a is trained on the
same rows, and nothing removes their shares from it. Row i moved a by about f_i/n, which lowers its
own loss, so the mean loss of n rows is too low by about (number of parameters)/n. Therefore the
rows are divided into G folds. Each fold k has a second head, trained beside a by the same optimiser
along

.. math:: \tfrac1n \textstyle\sum_j w_j f_j, \qquad w_j = \tfrac1G \text{ in fold } k,
          \quad 1 + \tfrac1G \text{ outside.}

To first order it differs from a by the centred shares of the rows in fold k, −Σ (f_j − f̄)/n. To
second order it is also worse than a for every row, by about p/(2nG) for p parameters. Rows outside
of the fold measure this. With Δ_ik the change of the loss of row i when the head of fold k replaces
a, row i in fold k has the loss

.. math:: \Psi_i + (1 - \tfrac1G)\,(\Delta_{ik} - \text{mean of } \Delta_{jk} \text{ over } j
          \text{ outside}) ,

where 1 − 1/G corrects for what the rows outside gain when the shares of fold k are removed.

The effect of fold k on the losses of fold l and that of fold l on the losses of fold k are
correlated. The sum over pairs of folds estimates how much this adds to the variance of the train
error.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.head import HeadOptimizer, HeadSlots, starting_slots
from decoupled_descent.objective import BoundObjective, Parameters
from decoupled_descent.rows.blocks import Rows


class Folds(NamedTuple):
    """The heads of all folds; empty if there are no folds."""

    heads: Parameters  # by name, each with a first axis of G
    slots: HeadSlots  # what their optimiser carries, as "fold:name:key"

    @property
    def number(self) -> int:
        """G."""
        return len(next(iter(self.heads.values())))

    def evaluate(self, bound: BoundObjective, h: Tensor, rows: Rows, losses: Tensor) -> FoldLosses:
        """Losses of the rows by the heads of their folds.

        ``losses`` are those by the head itself, which are returned where there are no folds.
        """
        if not self.heads:
            return FoldLosses(losses, {}, 0.0)
        at = _layout(rows.population, self.number, h.device, h.dtype)
        if rows.index is not None:
            at = layout(at.fold[0, rows.index], self.number, h.dtype)
        others, directions = bound.several_heads(h, rows.y, self.heads, at.weights)
        changes = others - losses
        sums = changes @ at.inside  # effect of leaving fold k out on the losses of fold l, (G, G)
        own, shares = sums.diagonal(), at.inside.sum(0)
        common = (sums.sum(1) - own) / (1 - shares).clamp_min(1 / len(h))
        change = changes.gather(0, at.fold)[0] - common[at.fold[0]]
        between = sums - torch.diag(own)
        left_out = losses + (1 - shares[at.fold[0]]) * change
        return FoldLosses(left_out, directions, (between * between.T).sum())

    def outputs(self, bound: BoundObjective, h: Tensor) -> Tensor:
        """Outputs of all n rows, each by the head of its fold."""
        fold = fold_of(len(h), self.number, h.device)
        by_fold = [
            bound.outputs(h[fold == k], {name: value[k] for name, value in self.heads.items()})
            for k in range(self.number)
        ]
        return torch.cat(by_fold)[torch.argsort(torch.argsort(fold, stable=True))]


class FoldLosses(NamedTuple):
    """Losses and directions of some rows by the heads of the folds."""

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
    return Folds(heads, starting_slots(make, unstacked(heads)))


@lru_cache(maxsize=8)
def fold_of(n: int, count: int, device: torch.device) -> Tensor:
    """The fold of each of n rows: random, of equal sizes, and the same for the same n."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(n, generator=generator, device=generator.device)
    folds = torch.empty(n, dtype=torch.int64, device=generator.device)
    folds[order] = torch.arange(n, device=generator.device) % count
    return folds.to(device)


class Layout(NamedTuple):
    """Which rows are in which fold."""

    fold: Tensor  # the fold of each row, shape (1, n)
    inside: Tensor  # 1/n where a row is in a fold, shape (n, G)
    weights: Tensor  # how much rows count for the head of a fold, shape (G, n)


@lru_cache(maxsize=8)
def _layout(n: int, count: int, device: torch.device, dtype: torch.dtype) -> Layout:
    """The layout of all n rows."""
    return layout(fold_of(n, count, device), count, dtype)


def layout(fold: Tensor, count: int, dtype: torch.dtype) -> Layout:
    """The layout of rows by their folds."""
    inside = torch.nn.functional.one_hot(fold, count).to(dtype)
    weights = 1 + inside.mean(0).unsqueeze(1) - inside.T
    return Layout(fold.unsqueeze(0), inside / len(fold), weights)


def unstacked(stacked: Parameters) -> Parameters:
    """One parameter for each fold, as "fold:name": optimisers treat them one by one."""
    return {f"{k}:{name}": part for name, value in stacked.items() for k, part in enumerate(value)}


def restacked(parts: Parameters) -> Parameters:
    """Undo :func:`unstacked`."""
    lists: dict[str, list[Tensor]] = {}
    for key, part in parts.items():
        lists.setdefault(key.partition(":")[2], []).append(part)
    return {name: torch.stack(values) for name, values in lists.items()}
