"""From a file to a matrix and labels, for the commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.tables.columns import Columns
from decoupled_descent.tables.reading import read_table
from decoupled_descent.tables.targets import CLASSES, recognise_task, split_target

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
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    columns: Columns
    task: str
    notes: list[str]
    groups: NDArray[Any] | None = None


def prepare(path: Path, target: str, task: str | None, group: str | None = None) -> Prepared:
    """Read a table, take the target out, recognise the task and turn the rest into a matrix.

    A column of groups is taken out, too.

    Raises ``ValueError`` if something is wrong with the table, ``OSError`` if it cannot be read.
    """
    frame = read_table(path)
    try:
        features, labels = split_target(frame, target)
        if len(labels) < FEWEST:
            count = "1 row is" if len(labels) == 1 else f"{len(labels)} rows are"
            raise ValueError(f"{count} too few; at least {FEWEST} with a label are needed")
        found = recognise_task(labels, task)
        groups = None
        if group is not None:
            groups, features = _take_groups(features, group, target)
        columns = Columns.learn(features)
        notes = [*features.attrs["notes"], *([] if task else [_recognised(labels, found)])]
        y = _classes(labels) if found == "classification" else labels.to_numpy(dtype=np.float64)
        if groups is not None:
            different = len(set(groups.tolist()))
            notes.append(f"rows of the same {group!r} ({different} values) are left out together")
        said = [*notes, *columns.notes]
        return Prepared(columns.apply(features), y, columns, found, said, groups)
    except ValueError as error:
        message = re.sub(r"task='(\w+)'", r"--task \1", str(error))
        raise ValueError(f"{path}: {message}") from error


def _take_groups(
    features: pd.DataFrame, group: str, target: str
) -> tuple[NDArray[Any], pd.DataFrame]:
    """Take the column of groups out of the features."""
    if group not in features.columns:
        names = ", ".join(map(repr, list(features.columns)[:10]))
        why = "is the target" if group == target else "is not a column"
        raise ValueError(f"--group {group!r} {why}; columns are {names}")
    column, notes = features[group], features.attrs["notes"]
    if column.isna().any():
        raise ValueError(
            f"--group {group!r} has {int(column.isna().sum())} missing value(s); give every row a "
            "group, or delete those rows"
        )
    rest = features.drop(columns=group)
    rest.attrs["notes"] = notes
    return column.astype(str).to_numpy(), rest


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
