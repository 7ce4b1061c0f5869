"""Bags of rows for ensembles of trees: bootstrap samples of rows or of groups."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.tables.members.interface import TrainingTable


def draw_bags(table: TrainingTable, count: int, seed: int) -> NDArray[np.int64]:
    """How often each row is in each bag, shape (count, n).

    Rows are drawn with replacement, or whole groups. With classes, each class has as many draws as
    it has rows (or groups, by their most frequent class): its share is the same in all bags, also
    in those without some row. Otherwise a tree without a row would predict its class too rarely.
    """
    units = table.units
    number = int(units.max()) + 1
    strata = _strata(units, table.classes, number)
    generator = np.random.default_rng(seed)
    drawn = np.zeros((count, number), dtype=np.int64)
    for members in strata:
        for bag in drawn:
            chosen = generator.integers(0, len(members), len(members))
            bag[members] = np.bincount(chosen, minlength=len(members))
            if len(members) == 1:  # it would be in every bag
                bag[members] = generator.random() > np.exp(-1.0)
    drawn[~drawn.any(1)] = 1  # only if every class has one row
    in_bags: NDArray[np.int64] = drawn[:, units.numpy()]
    return in_bags


def _strata(units: Tensor, classes: Tensor | None, number: int) -> list[NDArray[np.intp]]:
    """The units of each class, or all of them."""
    if classes is None:
        return [np.arange(number)]
    count = torch.zeros(number, int(classes.max()) + 1, dtype=torch.int64)
    count.index_put_((units, classes), torch.ones_like(units), accumulate=True)
    own = count.argmax(1).numpy()
    return [np.flatnonzero(own == one) for one in np.unique(own)]
