r"""The next of some numbers in order, with its standard error.

Rows of a table may be in order of time. Models of the past then predict one period after the other,
and a mean over the next period is wanted: the line through the means of the periods is extended,
with a slope that is shrunk by its noise. The standard error contains how much periods differ, which
errors of left-out rows do not show, and the sampling error of the next one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.checks import Z95

Floats = NDArray[np.floating[Any]]

#: A piece has this share of the rows; the first model is trained on the first half.
PIECES, FIRST = 10, 5
#: The fewest rows: each piece has four.
FEWEST = 40
#: Numbers are said to rise or fall if this share of the slope is not noise.
CLEAR = 0.75


class Next(NamedTuple):
    """The next of some numbers."""

    value: float
    stderr: float
    rises: bool = False  # whether the numbers clearly rise or fall


def next_mean(means: Floats, stderrs: Floats) -> Next:
    """Predict the next of some means in order.

    The line through the means is extended, with its slope shrunk by what noise adds to its square.
    The standard error is that of an extended line, with the quantile of Student's distribution for
    few means: two of them cover the next mean in at least 95 % of the cases, whether the means have
    a trend or not. It contains the noise of the slope even where the slope is shrunk to zero: five
    means do not show a trend that is as large as this noise. It is never below what the standard
    errors of the single means imply.

    Example:
        >>> round(next_mean(np.array([1.0, 2.0, 3.0]), np.full(3, 0.01)).value, 3)
        4.0
    """
    from scipy.special import stdtrit

    count, own = len(means), float(np.sqrt(np.mean(stderrs**2))) if len(means) else math.nan
    if count < 2 or not np.isfinite(means).all():
        return Next(math.nan, math.nan)
    slope = shrunk = 0.0
    away = (count + 1) / 2  # from the middle of the means to the next one
    places = np.arange(count) - (count - 1) / 2
    squares = float(places @ places)
    if count > 2 and np.ptp(means) > 0:
        slope = float(places @ means) / squares
        rest = means - means.mean() - slope * places
        noise = max(math.sqrt(float(rest @ rest) / (count - 2)), own) / math.sqrt(squares)
        shrunk = max(0.0, 1 - noise**2 / slope**2) if slope else 0.0
    spread = float(means.std(ddof=1)) * float(stdtrit(count - 1, 0.975)) / Z95
    wider = 1 + 1 / count + (away**2 / squares if count > 2 else 0.0)
    value = float(means.mean()) + shrunk * slope * away
    return Next(value, float(max(spread, own)) * math.sqrt(wider), shrunk > CLEAR)


def pieces_of(values: Floats) -> list[NDArray[np.intp]]:
    """Return the rows of each piece, oldest first; the first half of the rows is one piece.

    Rows of the same time are in the same piece. Raises ``ValueError`` if there are too few rows or
    times.

    Example:
        >>> [len(piece) for piece in pieces_of(np.arange(40.0))]
        [20, 4, 4, 4, 4, 4]
    """
    if len(values) < FEWEST:
        raise ValueError(f"time needs at least {FEWEST} rows, not {len(values)}; leave it out")
    order = np.argsort(values, kind="stable")
    ranks = np.searchsorted(values[order], values)  # equal times have equal ranks
    numbers = np.maximum(PIECES * ranks // len(values), FIRST - 1)
    pieces = [np.flatnonzero(numbers == k) for k in range(FIRST - 1, PIECES)]
    pieces = [piece[np.argsort(values[piece], kind="stable")] for piece in pieces if len(piece)]
    if len(pieces) < 3:
        raise ValueError(
            f"time has {len(np.unique(values))} different values in the later half of the rows, "
            "too few to predict later rows from earlier ones; leave it out"
        )
    return pieces
