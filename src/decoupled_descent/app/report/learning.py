"""The learning curve: the error with a quarter, half, all and twice the rows."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from decoupled_descent.app.report.comparison import is_trusted
from decoupled_descent.app.report.data import MoreRows, ReportData
from decoupled_descent.app.report.svg import learning_curve
from decoupled_descent.app.report.text import INTERVAL, error_interval, number, table, together
from decoupled_descent.checks import Z95, percent

#: What stands in place of the curve if the verdict is "do not trust".
NO_FORECAST = "The error itself cannot be trusted, so nothing is said about more rows."
#: A fall of the error by less than this share is called small.
SMALL = 0.02


def sentence(found: MoreRows) -> str:
    """Say whether twice as many rows would lower the error."""
    now, then = found.errors[2:]
    share, doubt = -found.change / now, Z95 * found.change_stderr / now
    low, high = max(0.0, share - doubt), min(1.0, share + doubt)
    expected = (
        f"with {found.rows[3]:,} rows instead of {found.rows[2]:,}, expect a {found.name} of "
        f"{number(then, 3)} instead of {number(now, 3)} ({percent(share)} less; {INTERVAL} "
        f"{percent(low)} to {percent(high)})"
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


def _losses(found: MoreRows) -> tuple[Sequence[float], Sequence[float]]:
    """Mean losses and their standard errors: errors, or the squares of roots."""
    if not found.roots:
        return found.errors, found.stderrs
    pairs = zip(found.errors, found.stderrs, strict=True)
    return [one**2 for one in found.errors], [2 * one * stderr for one, stderr in pairs]


def more_rows(data: ReportData) -> str:
    """Draw the errors over the number of rows, or say why there are none."""
    found = data.more
    if found is None:
        return ""
    if isinstance(found, str):
        return f"<p>{html.escape(found)}</p>"
    if not is_trusted(data.diagnosis):
        return f"<p>{NO_FORECAST}</p>"
    title = f"{found.name} over the number of rows"
    ends = [error_interval(*one)[1:] for one in zip(*_losses(found), strict=True)]
    if found.roots:
        ends = [tuple(math.sqrt(max(0.0, end)) for end in pair) for pair in ends]
    svg = learning_curve(found.rows, found.errors, ends, found.name, title)
    kinds = ["measured", "measured", "now", "expected"]
    doubt = min(found.stderrs)
    errors, lows, highs = (together(one, doubt) for one in (found.errors, *zip(*ends, strict=True)))
    cells = [
        [f"{rows:,}", error, f"{low} to {high}", kind]
        for rows, error, low, high, kind in zip(found.rows, errors, lows, highs, kinds, strict=True)
    ]
    listed = table(["rows", found.name, INTERVAL, ""], cells, title, "", (0, 1, 2))
    return (
        f'<p>{sentence(found)}</p><figure class="side">{svg}<figcaption>How to read it: the '
        "model was also trained on parts of the rows. All errors are out-of-sample. The last point "
        "is extrapolated. If it is hardly lower than the present one, better columns will help "
        f"more than more rows.</figcaption></figure>{listed}"
    )
