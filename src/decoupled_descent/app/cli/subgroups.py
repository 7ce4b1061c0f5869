"""Errors of the rows of each category, compared with those of all other rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.app.cli.baselines import losses_of, mean, predictions_of
from decoupled_descent.app.cli.tables import Prepared
from decoupled_descent.app.report.data import Subgroup

#: Categories with fewer rows are not compared: their errors would be too uncertain to name.
FEWEST = 20
#: The probability that any of the categories is called worse by chance.
BY_CHANCE = 0.05


def subgroups(prepared: Prepared, estimator: Any) -> list[Subgroup]:
    """The categories of all columns of text, the largest error first.

    A category is worse if its mean loss exceeds that of the other rows by more than the quantile
    of a one-sided test, divided by the number of categories (Bonferroni). The list is empty if the
    train error does not estimate the test error, and for rows on disk or in several processes.
    """
    on_disk = prepared.sample is not None or prepared.rows is not None
    if on_disk or not estimator.algorithm_.estimates_test_error:
        return []
    predicted = predictions_of(estimator)
    losses = losses_of(estimator, predicted, prepared.y)
    shown = np.square(predicted - prepared.y) if prepared.task == "regression" else losses
    right = _right(prepared, estimator, predicted)
    compared = []
    for column, value, inside in categories(prepared):
        gap, stderr = difference(losses, inside, prepared.groups)
        accuracy = None if right is None else float(right[inside].mean())
        size, error = int(inside.sum()), float(shown[inside].mean())
        compared.append(Subgroup(column, value, size, error, accuracy, gap, stderr))
    limit = NormalDist().inv_cdf(1 - BY_CHANCE / max(1, len(compared)))
    named = [one._replace(is_worse=one.gap > limit * one.gap_stderr) for one in compared]
    return sorted(named, key=lambda one: -one.gap)


def categories(prepared: Prepared) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Column, value and rows of each category with enough rows inside and outside of it."""
    start = 0
    for column in prepared.columns.columns:
        values = [*column.levels, *["other"] * column.other, *["missing"] * column.missing]
        for k, value in enumerate(values if column.levels else ()):
            inside = prepared.X[:, start + k] == 1
            if FEWEST <= inside.sum() <= len(inside) - FEWEST:
                yield column.name, value, inside
        start += len(column.outputs)


def difference(
    losses: NDArray[np.float64], inside: NDArray[np.bool_], groups: NDArray[Any] | None
) -> tuple[float, float]:
    """Mean loss inside minus that outside, and its standard error; groups are independent."""
    parts = []
    for rows in (inside, ~inside):
        parts.append(mean(losses[rows], None if groups is None else groups[rows]))
    (here, stderr), (there, other) = parts
    return here - there, math.hypot(stderr, other)


def _right(prepared: Prepared, estimator: Any, predicted: Any) -> NDArray[np.bool_] | None:
    """Whether the class of each row is predicted right; None for numbers."""
    if prepared.task == "regression":
        return None
    return np.asarray(estimator.classes_[predicted.argmax(1)] == prepared.y)
