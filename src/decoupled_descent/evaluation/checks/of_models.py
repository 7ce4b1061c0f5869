"""Checks of the rows of a fitted model: similar rows that are not left out together, and leaks."""

from __future__ import annotations

from collections.abc import Callable

from decoupled_descent.evaluation.checks.check import Finding
from decoupled_descent.evaluation.checks.companions import (
    MOST_COMPARED,
    Floats,
    Indices,
    companion_effect,
)
from decoupled_descent.evaluation.checks.table import Table
from decoupled_descent.evaluation.checks.table_checks import LEAK_CHECK
from decoupled_descent.evaluation.task import Task

#: With fewer rows, no row is unusually near to another.
FEWEST = 10


def leak(task: Task) -> Finding | None:
    """Whether one column alone predicts the labels almost perfectly."""
    columns = task.columns
    if columns is None:
        return None
    targets = task.labels if task.classes is None else task.one_hot()[:, 1:]
    names = [f"X[:, {name}]" if isinstance(name, int) else str(name) for name in columns]
    found = LEAK_CHECK.evaluate(Table(names, columns.to_numpy(), targets.reshape(task.n, -1)))
    return None if found is None else found[0]


def similar_rows(
    task: Task, losses_without: Callable[[Indices], Floats | None]
) -> dict[str, float]:
    """The rise of the error if unusually similar rows are left out together, and their share.

    Args:
        task: The rows.
        losses_without: The losses if rows with the same number are left out together.
    """
    if task.groups is not None or not FEWEST <= task.n <= MOST_COMPARED or task.columns is None:
        return {}
    X = task.columns.to_numpy()
    spread = X.std(0)
    X = (X - X.mean(0))[:, spread > 0] / spread[spread > 0]
    effect = companion_effect(losses_without, X)
    if effect is None:
        return {}
    return {"rise_without_similar": effect.certain_rise, "similar": effect.share}
