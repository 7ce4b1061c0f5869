"""The report's table of the rows by class."""

from __future__ import annotations

from typing import Any

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.tables import Column, Table, numbers


def sample(data: ReportData) -> dict[str, Any] | None:
    """What each column looks like in the rows of each class."""
    rows, classes = data.analyses.sample, data.rows.classes
    if not rows or classes is None:
        return None
    columns = [Column("column"), *numbers("all", *map(str, classes))]
    return {"table": Table(columns, [[one.name, one.all, *one.classes] for one in rows])}
