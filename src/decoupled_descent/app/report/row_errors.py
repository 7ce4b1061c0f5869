"""The report's sections on single rows and columns, from errors of left-out rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.app.report.data import ReportData, RowPredictions
from decoupled_descent.app.report.tables import Column, Table, numbers
from decoupled_descent.app.report.text import INTERVAL, number
from decoupled_descent.checks import interval, percent
from decoupled_descent.tables.analyses.importance import Importance

#: The most rows listed as probably wrong, and the most columns listed by importance.
MOST_WRONG, MOST_COLUMNS = 10, 20
#: If an error rises by more than this factor, the rise is written as “times”, not in percent.
LARGE = 10
#: A column has a direction if its rank correlation with the predictions is above this.
CLEAR = 0.2
DIRECTIONS = {1: "more", -1: "less", 0: "–"}


def largest_errors(data: ReportData) -> dict[str, Any] | None:
    """The rows with the largest errors: their labels may be wrong."""
    if not len(data.rows.row_names):
        return None
    chosen, table = rows_to_check(data.rows), None
    if chosen:
        table = _classes(data, chosen) if data.has_classes else _numbers(data, chosen)
    if table is None:
        return None
    reasons = data.analyses.reasons
    if reasons:
        rows = [[*row, reasons.get(k, "")] for k, row in zip(chosen, table.rows, strict=True)]
        table = Table([*table.columns, Column("unusual for the prediction")], rows)
    missed = bool(data.rows.mostly_missed)
    return {"table": table, "any_missed": missed, "has_reasons": bool(reasons)}


def rows_to_check(rows: RowPredictions) -> list[int]:
    """The numbers of the rows with the largest errors; of classes, only those that are missed."""
    if rows.classes is None:
        true, predicted = (np.asarray(one, dtype=float) for one in (rows.labels, rows.predictions))
        order = np.argsort(-np.abs(true - predicted), kind="stable")[:MOST_WRONG]
        return [int(k) for k in order]
    if rows.probabilities is None:
        return []
    order = np.argsort(_of_label(rows), kind="stable")[:MOST_WRONG]
    return [int(k) for k in order if str(rows.labels[k]) != str(rows.predictions[k])]


def _of_label(rows: RowPredictions) -> NDArray[np.float64]:
    """The probability of the label of each row."""
    assert rows.classes is not None
    index = {str(name): k for k, name in enumerate(rows.classes)}
    codes = [index[str(one)] for one in rows.labels]
    shares: NDArray[np.float64] = np.asarray(rows.probabilities, dtype=float)
    return shares[np.arange(len(codes)), codes]


def _numbers(data: ReportData, chosen: list[int]) -> Table:
    names = data.rows.row_names
    true = np.asarray(data.rows.labels, dtype=float)
    predicted = np.asarray(data.rows.predictions, dtype=float)
    rows = [
        [names[k], number(true[k]), number(predicted[k]), number(true[k] - predicted[k])]
        for k in chosen
    ]
    return Table([Column("row"), *numbers("true value", "predicted", "error")], rows)


def _classes(data: ReportData, chosen: list[int]) -> Table:
    of_label, rows = _of_label(data.rows), data.rows
    cells = [
        [rows.row_names[k], rows.labels[k], rows.predictions[k], percent(of_label[k])]
        for k in chosen
    ]
    columns = [Column("row"), Column("label"), Column("predicted")]
    return Table([*columns, *numbers("probability of the label")], cells)


def importance(data: ReportData) -> dict[str, Any] | None:
    """Columns by how much the error rises when one of them is shuffled."""
    rises, name = data.analyses.importance, data.error_name
    if isinstance(rises, str):
        return {"table": None, "why_not": rises} if rises else None
    if not rises:
        return None
    if data.task.roots:  # in the units of the target
        rises = [_of_root(one) for one in rises]
    largest = max(max(one.rise for one in rises), 1e-300)
    listed = rises[:MOST_COLUMNS]
    rows = [
        [
            one.column,
            f"{max(one.rise, 0) / largest:.3f}",
            _rise(one.rise),
            _ends(one),
            DIRECTIONS[int(np.sign(one.direction)) if abs(one.direction) > CLEAR else 0],
        ]
        for one in listed
    ]
    names = (Column(f"{name} rises", "number"), Column(INTERVAL, "number"))
    columns = [Column("column"), Column("", "bar"), *names, Column("larger values predict")]
    return {"table": Table(columns, rows), "not_listed": len(rises) - len(rows)}


def _of_root(one: Importance) -> Importance:
    """The same for the root of the error."""
    root = math.sqrt(max(0.0, 1 + one.rise))
    return one._replace(rise=root - 1, stderr=one.stderr / (2 * max(root, 1e-300)))


def _ends(one: Importance) -> str:
    """The 95 % interval of a rise."""
    if not math.isfinite(one.stderr):
        return "–"
    low, high = interval(one.rise, one.stderr)
    if one.rise >= LARGE:
        return f"{number(low + 1, 3)} to {number(high + 1, 3)} times"
    return f"{percent(low, decimals=0)} to {percent(high, decimals=0)}".replace("-", "−")


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
