"""The learning curve: the error with a quarter, half, all and twice the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from decoupled_descent.checks import Z95
from decoupled_descent.report.svg import learning_curve
from decoupled_descent.report.text import number, percent, table

if TYPE_CHECKING:
    from decoupled_descent.estimators.learning_curve import LearningCurve

#: A fall of the error by less than this share is called small.
SMALL = 0.02


class MoreRows(NamedTuple):
    """Errors at n/4, n/2, n and 2n rows: log loss, or RMSE in the units of the target."""

    name: str
    rows: Sequence[int]
    errors: Sequence[float]
    stderrs: Sequence[float]
    change: float  # of the error if the rows are doubled; at most 0
    change_stderr: float

    @classmethod
    def of(cls, curve: LearningCurve, roots: bool) -> MoreRows:
        """Take the errors of a learning curve; ``roots`` takes the root of squared errors."""
        rows, errors, stderrs = curve.rows, curve.errors, curve.stderrs
        change, doubt = curve.change, curve.change_stderr
        if not roots:
            return cls("log loss", rows, errors, stderrs, change, doubt)
        sizes = [math.sqrt(max(error, 0.0)) for error in errors]
        scales = [2 * max(size, 1e-300) for size in sizes]
        halved = [stderr / scale for stderr, scale in zip(stderrs, scales, strict=True)]
        return cls(
            "typical error (RMSE)", rows, sizes, halved, sizes[3] - sizes[2], doubt / scales[2]
        )


def sentence(found: MoreRows) -> str:
    """Say whether twice as many rows would lower the error."""
    now, then = found.errors[2:]
    share, doubt = -found.change / now, Z95 * found.change_stderr / now
    low, high = max(0.0, share - doubt), min(1.0, share + doubt)
    expected = (
        f"with {found.rows[3]:,} rows instead of {found.rows[2]:,}, expect a {found.name} of "
        f"{number(then, 3)} instead of {number(now, 3)} ({percent(share)} less; 95 % interval "
        f"{percent(low)} to {percent(high)})"
    )
    if low > 0 and share >= SMALL:
        return f"Twice as many rows would help: {expected}."
    if high < 2 * SMALL:
        return f"Twice as many rows would hardly help: {expected}."
    return f"Twice as many rows may help, but that is not certain: {expected}."


def more_rows(found: MoreRows | None) -> str:
    """Draw the errors over the number of rows."""
    if found is None:
        return ""
    title = f"{found.name} over the number of rows"
    svg = learning_curve(found.rows, found.errors, found.stderrs, found.name, title)
    kinds = ["measured", "measured", "now", "expected"]
    cells = [
        [f"{rows:,}", number(error, 3), f"± {number(Z95 * stderr, 2)}", kind]
        for rows, error, stderr, kind in zip(
            found.rows, found.errors, found.stderrs, kinds, strict=True
        )
    ]
    listed = table(["rows", found.name, "95 % interval", ""], cells, title, "", (0, 1, 2))
    return (
        f'<p>{sentence(found)}</p><figure class="side">{svg}<figcaption>How to read it: the '
        "model was also trained on parts of the rows. All errors are out-of-sample. The last point "
        "is extrapolated. If it is hardly lower than the present one, better columns will help "
        f"more than more rows.</figcaption></figure>{listed}"
    )
