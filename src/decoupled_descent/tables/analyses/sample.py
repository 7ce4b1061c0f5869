"""The rows of a table by class: what each column looks like in each of them ("Table 1")."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.checks import percent
from decoupled_descent.tables.analyses.table import AnalysedTable
from decoupled_descent.tables.columns.rules import Columns

#: With more classes or columns there is no such table.
MOST_CLASSES, MOST_COLUMNS = 4, 60


class SampleRow(NamedTuple):
    """A column, or one of its categories, in all rows and in those of each class."""

    name: str
    all: str
    classes: tuple[str, ...]


def sample_by_class(model: Any, X: Any, columns: Columns | None = None) -> list[SampleRow]:
    """Median and quartiles of numbers, counts of categories, and missing values, by class.

    The first row counts the rows. The list is empty for numbers, many classes or many columns.

    Args:
        model: A fitted :class:`DecoupledClassifier`.
        X: The rows of ``fit``.
        columns: Rules that made a matrix X of a table before ``fit``, if that was done.

    Example:
        >>> import decoupled_descent as dd, pandas as pd
        >>> table = pd.DataFrame({"age": [30, 40, 50, 60] * 9, "sex": [*"fmmf"] * 9})
        >>> model = dd.DecoupledClassifier(ridge=1.0, features="linear")
        >>> model = model.fit(table, [*"abab"] * 9)
        >>> [(one.name, one.all) for one in sample_by_class(model, table)][:2]
        [('rows', '36'), ('age: median (quartiles)', '45 (37.5 to 52.5)')]
    """
    table = AnalysedTable.of(model, X, columns)
    classes, labels = table.evaluation.classes, np.asarray(table.evaluation.labels)
    rules = table.columns
    if classes is None or rules is None:
        return []
    if len(classes) > MOST_CLASSES or len(table.spans) > MOST_COLUMNS:
        return []
    parts = [np.ones(len(labels), bool), *(labels == k for k in range(len(classes)))]

    def row(name: str, of: Any) -> SampleRow:
        every, *each = (of(part) for part in parts)
        return SampleRow(name, every, tuple(each))

    rows = [row("rows", lambda part: f"{part.sum():,}")]
    for column, span in zip(rules.columns, table.spans, strict=True):
        values = table.X[:, span]
        absent = values[:, -1] == 1 if column.missing else np.zeros(len(values), bool)
        if column.categories:
            for k, category in enumerate(column.categories):
                rows.append(row(f"{column.name} = {category}", _counts(values[:, k] == 1)))
            continue
        if column.range:
            rows.append(row(f"{column.name}: median (quartiles)", _quartiles(values[:, 0], absent)))
        if absent.any():
            rows.append(row(f"{column.name}: missing", _counts(absent)))
    return rows


def _counts(inside: NDArray[np.bool_]) -> Any:
    return lambda part: f"{(inside & part).sum():,} ({percent((inside & part).sum(), part.sum())})"


def _quartiles(values: NDArray[np.floating[Any]], absent: NDArray[np.bool_]) -> Any:
    def written(part: NDArray[np.bool_]) -> str:
        known = values[part & ~absent]
        if not len(known):
            return "–"
        low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
        return f"{middle:.4g} ({low:.4g} to {high:.4g})"

    return written
