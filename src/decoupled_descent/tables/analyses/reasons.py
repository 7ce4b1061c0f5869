"""Which values of a row misled the model that was fitted without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from decoupled_descent.tables.analyses.importance import MOST_COLUMNS
from decoupled_descent.tables.analyses.left_out_models import LeftOutModels
from decoupled_descent.tables.analyses.table import AnalysedTable
from decoupled_descent.tables.columns.rules import Columns

#: The most values named for a row.
MOST_NAMED = 2
#: A value is named if the loss falls by at least this share without it.
NOTABLE = 0.1


def reasons(
    model: Any, X: Any, rows: Sequence[int], columns: Columns | None = None
) -> dict[int, str]:
    """For each of some training rows, the values without which its loss would be smaller.

    The values of one column are replaced by the averages of the column, and the row is predicted
    by the model that was fitted without it. The result is empty for more than 60 columns.

    Args:
        model: A fitted :class:`DecoupledClassifier` or :class:`DecoupledRegressor`.
        X: The rows of ``fit``.
        rows: The numbers of the rows to explain.
        columns: Rules that made a matrix X of a table before ``fit``, if that was done.
    """
    table = AnalysedTable.of(model, X, columns)
    if not len(rows) or len(table.spans) > MOST_COLUMNS:
        return {}
    chosen = np.array(rows)
    left_out = LeftOutModels(table, chosen)
    own, average = table.X[chosen], table.X.mean(0)
    before = table.losses(left_out.predict(own), chosen)
    falls = []
    for span in table.spans:
        replaced = own.copy()
        replaced[:, span] = average[span]
        falls.append(before - table.losses(left_out.predict(replaced), chosen))
    named = {}
    for k, row in enumerate(rows):
        order = np.argsort([-fall[k] for fall in falls], kind="stable")[:MOST_NAMED]
        notable = [c for c in order if falls[c][k] >= NOTABLE * before[k] > 0]
        named[int(row)] = ", ".join(_written(table, c, own[k, table.spans[c]]) for c in notable)
    return named


def _written(table: AnalysedTable, number: int, values: Any) -> str:
    """The value of a column: a number, a category, or its name alone."""
    if table.columns is None:
        return f"{table.names[number]} = {values[0]:g}"
    return table.columns.columns[number].written(values)
