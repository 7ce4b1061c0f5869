"""The measures that have names in the literature, with their intervals, in a table."""

from __future__ import annotations

from typing import Any

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.tables import Column, Table, numbers
from decoupled_descent.app.report.text import INTERVAL, written_interval


def measures(data: ReportData) -> dict[str, Any] | None:
    """The table of measures, if there are any."""
    listed = data.estimate.measures
    if not listed:
        return None
    rows = []
    for one in listed:
        value, between = written_interval(one.with_interval, percent=one.is_share)
        rows.append([one.name, value, between.removeprefix(f"{INTERVAL} "), one.words])
    columns = [Column("measure"), *numbers("estimate", INTERVAL), Column("what it is")]
    name = data.rows.classes[data.rows.class_to_find] if data.rows.classes is not None else ""
    return {
        "table": Table(columns, rows),
        "caption": "Measures and their intervals",
        "name": name,
        "threshold": data.written_threshold,
    }
