"""Members of the mixture that are not Newton fits: when they are trained, and on which rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from decoupled_descent.tables.features.scaling import is_sparse
from decoupled_descent.tables.members.interface import MemberFit, Recipe, TrainingTable
from decoupled_descent.tables.search.deadline import Deadline
from decoupled_descent.tables.search.fits import effective_count
from decoupled_descent.tables.search.ranking import Sample
from decoupled_descent.tables.search.stacking import least_squares_weights

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
    recipes: Iterable[Recipe],
    table: TrainingTable,
    fitted: Sequence[Tensor],
    seed: int,
    deadline: Deadline,
) -> Iterator[tuple[int, MemberFit]]:
    """Train one member after the other, with probabilities bounded away from 0 as those of fits.

    Those that take less time come first: the others see what these predict, together with the fits,
    whose honest predictions are ``fitted``. After the deadline no further one is trained.

    Yields:
        The place of the recipe, and what it has trained.
    """
    count = effective_count(len(table.y), table.weights, table.groups)
    size = table.size
    suiting = [pair for pair in enumerate(recipes) if pair[1].suits(size)]
    predictions, shares = list(fitted), torch.from_numpy(table.row_weights)
    for number, recipe in sorted(suiting, key=lambda pair: pair[1].operations(size)):
        if deadline.leaves_out(recipe.name, recipe.operations(size)):
            continue
        every = torch.stack(predictions)
        weights = least_squares_weights(every, table.targets, shares)
        mixed = torch.einsum("f,fnk->nk", weights, every)
        for fit in recipe.train(table._replace(mixed=mixed), seed + number):
            bounded = fit._replace(predictions=table.loss.smoothed(fit.predictions, count))
            predictions.append(bounded.predictions)
            yield number, bounded
