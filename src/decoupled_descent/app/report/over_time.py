"""The error over time: models of the past predict the next rows."""

from __future__ import annotations

from typing import Any

from decoupled_descent.app.report.data import ErrorsOverTime, ReportData
from decoupled_descent.app.report.figures import errors_over_time
from decoupled_descent.app.report.tables import Column, Table, numbers
from decoupled_descent.app.report.text import INTERVAL, number, together
from decoupled_descent.checks import Z95


def sentence(times: ErrorsOverTime) -> str:
    """Say what to expect on the rows after the last one."""
    expected = f"expect a {times.name} of {number(times.error, 3)}"
    low, high = (number(end, 3) for end in times.interval)
    rising = times.pieces[-1].error > times.pieces[0].error
    trend = (
        f" The error {'rises' if rising else 'falls'} with time, and this was continued."
        if times.rises
        else ""
    )
    return f"On the rows after the last one, {expected} ({INTERVAL} {low} to {high}).{trend}"


def over_time(data: ReportData) -> dict[str, Any] | None:
    """The errors of the pieces, if the estimate is for later rows."""
    times = data.analyses.over_time
    if times is None:
        return None
    errors = [one.error for one in times.pieces]
    ends = [
        (max(0.0, one.error - Z95 * one.stderr), one.error + Z95 * one.stderr)
        for one in times.pieces
    ]
    title = f"{times.name} over {times.column}"
    stderr = min((one.stderr for one in times.pieces if one.stderr > 0), default=1.0)
    written = together(errors, stderr)
    rows = [
        [f"{one.start} to {one.stop}", f"{one.rows:,}", f"{one.rows_before:,}", text]
        for one, text in zip(times.pieces, written, strict=True)
    ]
    return {
        "sentence": sentence(times),
        "drawing": errors_over_time(
            [*errors, times.error], [*ends, times.interval], times.name, title
        ),
        "title": title,
        "table": Table([Column(times.column), *numbers("rows", "rows before", times.name)], rows),
    }
