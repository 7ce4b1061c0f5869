"""Members of the mixture that are not Newton fits: when they are trained, and on which rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from torch import Tensor

from decoupled_descent.tables.features.scaling import is_sparse
from decoupled_descent.tables.members.interface import MemberFit, Recipe, TrainingTable
from decoupled_descent.tables.search.deadline import Deadline
from decoupled_descent.tables.search.fits import effective_count, smoothed
from decoupled_descent.tables.search.ranking import Sample

#: With fewer rows, or groups, than this, parts of them are too few to train on.
FEWEST = 20


def training_table(sample: Sample, folds: Tensor) -> TrainingTable | None:
    """The rows in memory; None if there are too few, or if they are sparse, divided or on disk."""
    X, objective = sample.X, sample.objective
    if is_sparse(X) or not X.in_memory:
        return None
    units = len(sample.y) if sample.groups is None else int(sample.groups.max()) + 1
    classes = objective.loss.classes(sample.y)
    if units < FEWEST or (objective.loss.has_classes and classes is None):
        return None
    rows = np.asarray(X.X.cpu())
    outputs, common = objective.width or 1, (sample.weights, sample.groups)
    return TrainingTable(rows, sample.y, objective.loss, outputs, *common, folds)


def train_members(
    recipes: Iterable[Recipe], table: TrainingTable, seed: int, deadline: Deadline
) -> Iterator[MemberFit]:
    """Train one member after the other, with probabilities bounded away from 0 as those of fits.

    After the deadline no further one is trained.
    """
    count = effective_count(len(table.y), table.weights, table.groups)
    size = table.size
    for number, recipe in enumerate(recipes):
        if not recipe.suits(size) or deadline.leaves_out(recipe.name, recipe.operations(size)):
            continue
        for fit in recipe.train(table, seed + number):
            yield fit._replace(predictions=smoothed(table.loss, fit.predictions, count))
