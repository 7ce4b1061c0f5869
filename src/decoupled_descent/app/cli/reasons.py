"""Which values of a row misled the model that was fitted without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from decoupled_descent.app.cli.baselines import losses_of
from decoupled_descent.app.cli.importance import MOST_COLUMNS, LeftOutModels, spans_of, why_not
from decoupled_descent.app.cli.tables import Prepared
from decoupled_descent.tables.columns.column import Column

#: The most values named for a row.
MOST_NAMED = 2
#: A value is named if the loss falls by at least this share without it.
NOTABLE = 0.1


def reasons(prepared: Prepared, estimator: Any, rows: Sequence[int]) -> dict[int, str]:
    """For each of some rows, the values without which its loss would be smaller.

    The values of one column are replaced by the averages of the column, and the row is predicted
    by the models that were fitted without it.
    """
    columns = prepared.columns.columns
    if not rows or len(columns) > MOST_COLUMNS or why_not(prepared):
        return {}
    chosen = np.array(rows)
    left_out = LeftOutModels(prepared, estimator, chosen)
    X, y, average = prepared.X[chosen], prepared.y[chosen], prepared.X.mean(0)
    before = losses_of(estimator, left_out.predict(X), y)
    falls = []
    for span in spans_of(prepared):
        replaced = X.copy()
        replaced[:, span] = average[span]
        falls.append(before - losses_of(estimator, left_out.predict(replaced), y))
    named = {}
    for k, row in enumerate(rows):
        order = np.argsort([-fall[k] for fall in falls], kind="stable")[:MOST_NAMED]
        spans = spans_of(prepared)
        texts = [
            written(columns[c], X[k, spans[c]])
            for c in order
            if falls[c][k] >= NOTABLE * before[k] > 0
        ]
        named[int(row)] = ", ".join(texts)
    return named


def written(column: Column, values: Any) -> str:
    """The value of a column that was turned into numbers: a number, a category, or its name."""
    if column.levels:
        names = [*column.levels, *["other"] * column.other, *["missing"] * column.missing]
        present = [name for name, value in zip(names, values, strict=True) if value]
        return f"{column.name} = {present[0] if present else 'other'}"
    if column.kind == "number" and not (column.missing and values[1]):
        return f"{column.name} = {values[0]:g}"
    return column.name
