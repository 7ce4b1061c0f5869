"""The report's section on coefficients of linear models."""

from __future__ import annotations

from typing import Any

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.tables import Column, Table, numbers
from decoupled_descent.app.report.text import number
from decoupled_descent.checks import percent


def coefficients(data: ReportData) -> dict[str, Any] | None:
    """The coefficients of the average linear model, and the columns that sparse models select."""
    part = data.analyses.coefficients
    if part is None:
        return None
    effects = [[name, number(unit, 3), number(sd, 3)] for name, unit, sd in part.effects]
    selected = [[name, number(one, 3), percent(kept)] for name, one, kept in part.selected]
    each = numbers("coefficient", "effect of one standard deviation")
    stays = numbers("coefficient", "stays selected")
    return {
        "effects": Table([Column("feature"), *each], effects) if effects else None,
        "selected": Table([Column("feature"), *stays], selected) if selected else None,
        "share": percent(part.share),
        "unit": part.unit,
    }
