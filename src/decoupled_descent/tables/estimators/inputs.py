"""Rows, weights and levels that users give, checked."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.gathered import all_labels, is_divided
from decoupled_descent.rows.sources import Source, as_source
from decoupled_descent.rows.store import SMALL
from decoupled_descent.tables.columns.frames import as_frame
from decoupled_descent.tables.columns.values import listed
from decoupled_descent.tables.features.scaling import is_sparse


def streamed(X: Any) -> Source | None:
    """The source of rows that are not in memory; None for arrays and sparse matrices.

    Small memory maps are read into memory, so they have no source either.
    """
    small = isinstance(X, np.memmap) and X.nbytes <= SMALL
    return None if small or is_sparse(X) else as_source(X)


def of_all_processes(X: Any, name: str, values: Any) -> Any:
    """Weights or groups of the rows of all processes, from those of this process."""
    if values is None or not is_divided(X):
        return values
    own = np.asarray(values)
    if own.shape != (X.here,) or pd.isna(own).any():
        raise ValueError(
            f"{name} has shape {own.shape} and {int(pd.isna(own).sum())} missing value(s); pass "
            f"one value for each of the {X.here} rows of this process"
        )
    return all_labels(X, own)


def selected(X: Any, kept: NDArray[np.bool_]) -> Any:
    """The rows of positive weight, or ``ValueError`` for rows that are read block by block."""
    if isinstance(X, Rows):
        row = int(np.argmin(kept))
        raise ValueError(
            f"sample_weight is 0 in row {row}; rows that are read block by block cannot be left "
            "out here: leave them out of X"
        )
    return X[kept]


def without_named(X: Any, **given: Any) -> tuple[Any, ...]:
    """A table without the columns that are named instead of values, and these values.

    Args:
        X: The rows.
        given: Values of the rows, None, or the name of a column, by argument.

    Example:
        >>> table = pd.DataFrame({"a": [1, 2], "site": ["x", "y"]})
        >>> rows, groups = without_named(table, groups="site")
        >>> list(rows.columns), groups.tolist()
        (['a'], ['x', 'y'])
    """
    names = {argument: name for argument, name in given.items() if isinstance(name, str)}
    if not names:
        return X, *given.values()
    frame = as_frame(X)
    for argument, name in names.items():
        if frame is None or name not in frame.columns:
            has = "X has no names of columns" if frame is None else f"columns are {listed(frame)}"
            raise ValueError(f"{argument}={name!r} names no column of X; {has}")
    assert frame is not None
    values = [frame[names[one]] if one in names else value for one, value in given.items()]
    return frame.drop(columns=list(names.values())), *values


def check_names(X: Any) -> None:
    """Raise ``ValueError`` for a table with names of columns that are not all texts."""
    kinds = {type(name).__name__ for name in getattr(X, "columns", ())}
    if len(kinds) > 1 and "str" in kinds:
        raise ValueError(
            f"X has column names of the types {', '.join(sorted(kinds))}; make all of them text: "
            "X.columns = X.columns.astype(str)"
        )


def check_label_values(y: Any) -> None:
    """Raise ``ValueError`` for labels that are missing or bytes."""
    labels = np.asarray(y, dtype=object) if hasattr(y, "dtype") or isinstance(y, list) else None
    if labels is None or labels.ndim != 1:
        return
    missing = np.asarray(pd.isna(labels))
    if missing.any():
        raise ValueError(
            f"y has {missing.sum()} missing value(s), the first in row {missing.argmax()}; leave "
            "those rows out: X[~pandas.isna(y)], y[~pandas.isna(y)]"
        )
    if any(isinstance(label, bytes) for label in labels[:1000]):
        raise ValueError("y has labels that are bytes; decode them first: y.astype(str)")


def check_level(level: Any) -> float:
    """Return a level of confidence, or raise ``ValueError``."""
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(f"level={level!r} must be between 0 and 1, such as 0.9")
    return float(level)
