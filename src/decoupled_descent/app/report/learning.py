"""The learning curve: the error with a quarter, half, three quarters, all and twice the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from decoupled_descent.app.report.data import ErrorsByRows, ReportData
from decoupled_descent.app.report.figures import learning_curve
from decoupled_descent.app.report.tables import Column, Table, numbers
from decoupled_descent.app.report.text import INTERVAL, error_interval, number, together
from decoupled_descent.checks import Z95, percent

#: The text instead of the curve if the verdict is "do not trust".
NO_FORECAST = "The error itself cannot be trusted, so there is no forecast for more rows."
#: A fall of the error by less than this share is called small.
SMALL = 0.02
#: The precision of an accuracy, in points, for which the number of rows is stated.
PRECISE = 3.0
#: Where the five errors come from.
KINDS = ("measured", "measured", "measured", "now", "expected")


def sentence(forecast: ErrorsByRows) -> str:
    """Say whether twice as many rows would lower the error."""
    now, then = forecast.errors[-2:]
    share, margin = -forecast.change / now, Z95 * forecast.change_stderr / now
    low, high = max(0.0, share - margin), min(1.0, share + margin)
    expected = (
        f"with {forecast.rows[-1]:,} rows instead of {forecast.rows[-2]:,}, expect a "
        f"{forecast.name} of {number(then, 3)} instead of {number(now, 3)} "
        f"({percent(share)} less; {INTERVAL} {percent(low)} to {percent(high)})"
    )
    if low > 0 and share >= SMALL:
        return f"Twice as many rows would help: {expected}."
    if high < 2 * SMALL:
        return f"Twice as many rows would hardly help: {expected}."
    if share < SMALL:
        return (
            f"Twice as many rows would probably help little, but that is not certain: {expected}."
        )
    return f"Twice as many rows may help, but that is not certain: {expected}."


def precision(data: ReportData) -> str:
    """How precisely the accuracy is known, and with how many rows it would be to 3 points."""
    if not data.has_classes or len(data.estimate.score_interval) != 2:
        return ""
    low, high = data.estimate.score_interval
    half = 100 * (high - low) / 2
    known = f"The accuracy is known to ± {half:.1f} points."
    if not math.isfinite(half) or half <= PRECISE:
        return known if math.isfinite(half) else ""
    rows = float(f"{data.n_rows * (half / PRECISE) ** 2:.2g}")
    return f"{known} With about {rows:,.0f} rows it would be known to ± {PRECISE:.0f} points."


def _losses(forecast: ErrorsByRows) -> tuple[Sequence[float], Sequence[float]]:
    """Mean losses and their standard errors: errors, or the squares of roots."""
    if not forecast.roots:
        return forecast.errors, forecast.stderrs
    pairs = zip(forecast.errors, forecast.stderrs, strict=True)
    return [one**2 for one in forecast.errors], [2 * one * stderr for one, stderr in pairs]


def more_rows(data: ReportData) -> dict[str, Any] | None:
    """The errors over the number of rows, or the reason why there are none."""
    forecast = data.analyses.more_rows
    if forecast is None:
        return None
    if isinstance(forecast, str):
        return {"reason": forecast}
    if not data.is_trusted:
        return {"reason": NO_FORECAST}
    title = f"{forecast.name} over the number of rows"
    ends = [error_interval(*one)[1:] for one in zip(*_losses(forecast), strict=True)]
    if forecast.roots:
        ends = [tuple(math.sqrt(max(0.0, end)) for end in pair) for pair in ends]
    stderr = min(forecast.stderrs)
    columns = (forecast.errors, *zip(*ends, strict=True))
    written = zip(forecast.rows, *(together(one, stderr) for one in columns), KINDS, strict=True)
    rows = [[f"{n:,}", error, f"{low} to {high}", kind] for n, error, low, high, kind in written]
    return {
        "sentence": sentence(forecast),
        "precision": precision(data),
        "drawing": learning_curve(forecast.rows, forecast.errors, ends, forecast.name, title),
        "title": title,
        "table": Table([*numbers("rows", forecast.name, INTERVAL), Column("")], rows),
    }
