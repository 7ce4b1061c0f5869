"""The report's sections on single rows and columns, from errors of left-out rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.tables import Column, Table, numbers
from decoupled_descent.app.report.text import number
from decoupled_descent.checks import percent

#: The most rows listed as probably wrong, and the most columns listed by importance.
MOST_WRONG, MOST_COLUMNS = 10, 20
#: If an error rises by more than this factor, the rise is written as “times”, not in percent.
LARGE = 10


def largest_errors(data: ReportData) -> dict[str, Any] | None:
    """The rows with the largest errors: their labels may be wrong."""
    if not len(data.rows.row_names):
        return None
    table = _wrong_classes(data) if data.has_classes else _wrong_numbers(data)
    if table is None or not table.rows:
        return None
    return {"table": table, "any_missed": bool(data.rows.mostly_missed)}


def _wrong_numbers(data: ReportData) -> Table:
    names = data.rows.row_names
    true = np.asarray(data.rows.labels, dtype=float)
    predicted = np.asarray(data.rows.predictions, dtype=float)
    order = np.argsort(-np.abs(true - predicted), kind="stable")[:MOST_WRONG]
    rows = [
        [names[k], number(true[k]), number(predicted[k]), number(true[k] - predicted[k])]
        for k in map(int, order)
    ]
    return Table([Column("row"), *numbers("true value", "predicted", "error")], rows)


def _wrong_classes(data: ReportData) -> Table | None:
    labels, predicted, classes = data.rows.labels, data.rows.predictions, data.rows.classes
    if data.rows.probabilities is None or classes is None:
        return None
    index = {str(name): k for k, name in enumerate(classes)}
    of_label = np.asarray(data.rows.probabilities, dtype=float)[
        np.arange(len(labels)), [index[str(one)] for one in labels]
    ]
    rows = [
        [data.rows.row_names[k], labels[k], predicted[k], percent(of_label[k])]
        for k in map(int, np.argsort(of_label, kind="stable")[:MOST_WRONG])
        if str(labels[k]) != str(predicted[k])
    ]
    columns = [Column("row"), Column("label"), Column("predicted")]
    return Table([*columns, *numbers("probability of the label")], rows)


def importance(data: ReportData) -> dict[str, Any] | None:
    """Columns by how much the error rises when one of them is shuffled."""
    rises, name = data.analyses.importance, data.estimate.loss_name
    if not rises:
        return None
    if not data.has_classes:  # in the units of the target
        name = "typical error"
        rises = [(column, math.sqrt(max(0.0, 1 + rise)) - 1) for column, rise in rises]
    largest = max(max(rise for _, rise in rises), 1e-300)
    listed = rises[:MOST_COLUMNS]
    rows = [[column, f"{max(rise, 0) / largest:.3f}", _rise(rise)] for column, rise in listed]
    columns = [Column("column"), Column("", "bar"), Column(f"{name} rises", "number")]
    return {"table": Table(columns, rows), "not_listed": len(rises) - len(rows)}


def _rise(share: float) -> str:
    """The rise of an error in words: in percent, or how many times it is as large."""
    if share >= LARGE:
        return f"to {number(share + 1, 3)} times"
    return f"by {percent(share)}" if share > 0 else "not at all"


def intervals(data: ReportData) -> dict[str, Any] | None:
    """Widths of prediction intervals at several levels, and their coverage."""
    rows = [
        [percent(one.level, decimals=0), f"± {number(one.half_width, 3)}", percent(one.coverage),
         *(f"{percent(share)} (± {number(half, 3)})"
           for share, half in zip(one.coverages, one.half_widths, strict=True))]
        for one in data.analyses.intervals
    ]  # fmt: skip
    names = ("half width", "covered", "low predictions", "middle", "high")
    return {"table": Table([Column("level"), *numbers(*names)], rows)} if rows else None
