"""From a file to a matrix and labels, for the commands."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.tables.columns import MOST_DECIMALS, Columns
from decoupled_descent.tables.reading import as_written, read_table
from decoupled_descent.tables.targets import (
    CLASSES,
    decimals_of,
    recognise_task,
    spellings_of,
    split_target,
)
from decoupled_descent.tables.values import is_number, listed, mark_missing

#: Fewer rows are too few to estimate an error from.
FEWEST = 10


class Prepared(NamedTuple):
    """A table that can be trained on.

    Attributes:
        X: Features, shape (n, d).
        y: Labels, shape (n,): classes, or float64 for regression.
        columns: How the features were made.
        task: ``"classification"`` or ``"regression"``.
        notes: What was done, in sentences.
        groups: The group of each row, or None.
        repeated: Columns whose values name groups of rows and that were not used, with their names.
        frame: The features as they were read.
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    columns: Columns
    task: str
    notes: list[str]
    groups: NDArray[Any] | None = None
    repeated: tuple[tuple[str, NDArray[Any]], ...] = ()
    frame: pd.DataFrame | None = None


class Wishes(NamedTuple):
    """What to do with columns, as told by options."""

    group: str | None = None  # rows with the same value here are left out together
    identifier: str | None = None  # carried to predictions
    drop: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  # that stand for missing values
    log_target: bool = False  # fit the logarithm of the target


def prepare(path: Path, target: str, task: str | None, wishes: Wishes | None = None) -> Prepared:
    """Read a table, take the target out, recognise the task and turn the rest into a matrix.

    Raises ``ValueError`` if something is wrong with the table, ``OSError`` if it cannot be read.
    """
    wishes = wishes or Wishes()
    frame = mark_missing(read_table(path), wishes.words)
    try:
        features, labels = split_target(frame, target, quantity=task == "regression")
        if len(labels) < FEWEST:
            count = "1 row is" if len(labels) == 1 else f"{len(labels)} rows are"
            raise ValueError(f"{count} too few; at least {FEWEST} with a label are needed")
        found = recognise_task(labels, task)
        _check_columns(features, target, wishes)
        if wishes.log_target:
            _check_positive(labels, found)
        groups, group = None, wishes.group
        if group is not None:
            groups = _groups(features, group)
        columns = Columns.learn(features, wishes.words, wishes.identifier or "", wishes.drop, group)
        notes = [*features.attrs["notes"], *([] if task else [_recognised(labels, found)])]
        y = _classes(labels) if found == "classification" else labels.to_numpy(dtype=np.float64)
        if wishes.log_target:
            notes.append(f"the logarithm of {target!r} is fitted; all results are in its own units")
        if groups is not None:
            different = len(set(groups.tolist()))
            notes.append(f"rows of the same {group!r} ({different} values) are left out together")
        repeated = tuple(
            (name, np.asarray(features[name].astype(str))) for name in columns.repeated
        )
        for name, values in repeated:
            notes.append(
                f"{name!r}: {len(set(values))} values in {len(values):,} rows, so rows with the "
                f"same one may belong together; --group {name} leaves them out together"
            )
        columns = _like_the_target(columns, path, labels, y, found)
        said = [*notes, *columns.notes]
        X = columns.apply(features)
        return Prepared(X, y, columns, found, said, groups, repeated, features)
    except ValueError as error:
        message = re.sub(r"task='(\w+)'", r"--task \1", str(error))
        raise ValueError(f"{path}: {message}") from error


def _check_columns(features: pd.DataFrame, target: str, wishes: Wishes) -> None:
    """Raise ``ValueError`` for options that name no column."""
    named = {"--group": [wishes.group], "--id": [wishes.identifier], "--drop": wishes.drop}
    for option, names in named.items():
        for name in names:
            if name is not None and name not in features.columns:
                why = "is the target" if name == target else "is not a column"
                raise ValueError(f"{option} {name!r} {why}; columns are {listed(features.columns)}")


def _like_the_target(
    columns: Columns, path: Path, labels: pd.Series, y: NDArray[Any], task: str
) -> Columns:
    """Note how the target is written, so that predictions can be written alike."""
    if task == "regression":
        return replace(columns, decimals=decimals_of(y, MOST_DECIMALS))
    texts = as_written(path, str(labels.name)) if is_number(labels.dtype) else None
    if texts is None:
        return columns
    return replace(columns, spellings=spellings_of(y, [texts[row - 1] for row in labels.index]))


def _check_positive(labels: pd.Series, task: str) -> None:
    """Raise ``ValueError`` where the target has no logarithm."""
    if task != "regression":
        raise ValueError(f"--log-target needs numbers to predict, and {labels.name!r} has classes")
    low = labels[labels <= 0]
    if len(low):
        raise ValueError(
            f"--log-target: {labels.name!r} is {low.iloc[0]:g} in row {low.index[0]}, which has no "
            "logarithm; leave out --log-target, or delete the rows that are not above 0"
        )


def _groups(features: pd.DataFrame, group: str) -> NDArray[Any]:
    """Return the group of each row as text."""
    column = features[group]
    if column.isna().any():
        raise ValueError(
            f"--group {group!r} has {int(column.isna().sum())} missing value(s); give every row a "
            "group, or delete those rows"
        )
    return np.asarray(column.astype(str))


def _classes(labels: pd.Series) -> NDArray[Any]:
    """Return the labels; fractions become text, because scikit-learn would take them as numbers."""
    if labels.dtype.kind != "f":
        return np.asarray(labels)
    return np.array([str(label).removesuffix(".0") for label in labels.tolist()], dtype=object)


def _recognised(labels: pd.Series, task: str) -> str:
    """Say which task was recognised, and how to choose the other one where that is possible."""
    different = labels.nunique()
    if task == "regression":
        counts = labels.value_counts()
        possible = different <= min(CLASSES, len(labels) // 2) and bool(counts.min() > 1)
        remedy = " (--task classification to take them as classes)" * possible
        return f"{labels.name!r} has {different} different numbers: taken as a quantity{remedy}"
    numeric = labels.dtype.kind in "iuf"
    remedy = " (--task regression to take them as quantities)" if numeric else ""
    return f"{labels.name!r} has {different} different values: taken as classes{remedy}"
