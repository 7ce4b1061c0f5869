"""Errors of the rows of each category, compared with those of all other rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.tables.analyses.table import AnalysedTable
from decoupled_descent.tables.columns.rules import Columns

#: Categories with fewer rows are not compared: their errors would be too uncertain to name.
FEWEST = 20
#: The probability that any of the categories is called worse by chance.
BY_CHANCE = 0.05


class Subgroup(NamedTuple):
    """The rows of one category, compared with all other rows."""

    column: str
    value: str
    rows: int
    error: float  # mean log loss or squared error
    accuracy: float | None  # None for numbers
    gap: float  # mean loss minus that of the other rows
    gap_stderr: float
    is_worse: bool = False  # by more than chance explains, with an allowance for all categories
    area: tuple[float, ...] = ()  # of two classes, the AUC with the ends of its interval


def subgroups(model: Any, X: Any, columns: Columns | None = None) -> list[Subgroup]:
    """The categories of all columns of text, the largest error first.

    A category is worse if its mean loss exceeds that of the other rows by more than the quantile
    of a one-sided test, divided by the number of categories (Bonferroni).

    Args:
        model: A fitted :class:`DecoupledClassifier` or :class:`DecoupledRegressor`.
        X: The rows of ``fit``.
        columns: Rules that made a matrix X of a table before ``fit``, if that was done.
    """
    table = AnalysedTable.of(model, X, columns)
    evaluation = table.evaluation
    losses = table.losses(evaluation.predictions)
    right = None
    if evaluation.decisions is not None:
        right = 1.0 * (evaluation.decisions == evaluation.labels)
    compared = []
    for column, value, inside in categories(table):
        (here, stderr), (there, other) = (
            table.mean(losses[rows], rows) for rows in (inside, ~inside)
        )
        accuracy = None if right is None else table.mean(right[inside], inside).value
        error = table.mean(evaluation.losses[inside], inside).value
        gap = here - there, math.hypot(stderr, other)
        one = Subgroup(column, value, int(inside.sum()), error, accuracy, *gap)
        compared.append(one._replace(area=_area(evaluation, inside)))
    limit = NormalDist().inv_cdf(1 - BY_CHANCE / max(1, len(compared)))
    named = [one._replace(is_worse=one.gap > limit * one.gap_stderr) for one in compared]
    return sorted(named, key=lambda one: -one.gap)


def _area(evaluation: Evaluation, inside: NDArray[np.bool_]) -> tuple[float, ...]:
    """The area under the curve of some rows, if they have two classes."""
    try:
        found = evaluation.part(inside).estimate("auc")
    except ValueError:
        return ()
    return (found.value, *found.interval)


def categories(table: AnalysedTable) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Column, value and rows of each category with enough rows inside and outside of it."""
    if table.columns is None:
        return
    for column, span in zip(table.columns.columns, table.spans, strict=True):
        for k, value in enumerate(column.categories):
            inside = table.X[:, span.start + k] == 1
            if FEWEST <= inside.sum() <= len(inside) - FEWEST:
                yield column.name, value, inside
