"""The report's section on categories whose rows are predicted worse than others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.tables import Column, Table, numbers
from decoupled_descent.app.report.text import INTERVAL, number, together
from decoupled_descent.checks import percent

#: The most categories listed.
MOST = 20


def subgroups(data: ReportData) -> dict[str, Any] | None:
    """The categories with the largest errors, and a sentence on the worst of them."""
    every = data.analyses.subgroups
    if not every:
        return None
    rows, has_areas = list[list[str]](), any(one.area for one in every)
    for one in every[:MOST]:
        size = number(data.shown(one.error), 3)
        cells = [f"{one.column} = {one.value}", f"{one.rows:,}", size]
        cells += [] if one.accuracy is None else [percent(one.accuracy)]
        cells += [_area(one.area)] if has_areas else []
        rows.append([*cells, "worse" if one.is_worse else "as others"])
    shown = [data.error_name, "right"] if data.has_classes else [data.error_name]
    shown += [f"AUC ({INTERVAL})"] if has_areas else []
    columns = [Column("category"), *numbers("rows", *shown), Column("against the other rows")]
    return {
        "table": Table(columns, rows),
        "sentence": worst(data),
        "count": len(every),
        "not_listed": len(every) - len(rows),
    }


def _area(area: Sequence[float]) -> str:
    """An area under the curve with its interval."""
    if len(area) != 3 or not all(map(math.isfinite, area)):
        return "–"
    value, low, high = together(area, 0.01)
    return f"{value} ({low} to {high})"


def worst(data: ReportData) -> str:
    """Name the worst category, if it is worse than chance explains."""
    every = data.analyses.subgroups
    if not every:
        return ""
    clearly = [one for one in every if one.is_worse]
    if not clearly:
        return (
            f"No category is clearly worse than the other rows: the differences among {len(every)} "
            "categories can be due to chance."
        )
    first = clearly[0]
    size, name = number(data.shown(first.error), 3), data.error_name
    more = len(clearly) - 1
    rest = f" {more} more {'categories are' if more > 1 else 'category is'} worse too." * bool(more)
    return (
        f"Rows with {first.column} = {first.value} are predicted clearly worse than others: "
        f"{name} {size}, {first.rows:,} rows.{rest}"
    )
