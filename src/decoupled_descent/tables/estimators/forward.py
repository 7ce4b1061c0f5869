r"""The error on rows after the last one: models of the past predict the next piece.

The rows are sorted by time. The later half is cut into pieces of a tenth of the rows each, and each
piece is predicted by a model that is trained on all rows before it, with its own choice of features
and ridges. The errors of these pieces estimate the error on the next tenth of the rows: the line
through them is extended, with a slope that is shrunk by its noise.

The standard error is for the mean error of the next piece. It contains how much the errors of the
pieces differ, which leave-one-out errors do not show, and the sampling error of that piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from decoupled_descent.checks import Z95
from decoupled_descent.tables.columns.times import pieces_of

Floats = NDArray[np.floating[Any]]

#: The error is said to rise or fall if this share of the slope is not noise.
CLEAR = 0.75


class Piece(NamedTuple):
    """Rows that were predicted by a model of the rows before them."""

    start: str  # the first time in it, as text
    stop: str  # the last time in it
    rows_before: int  # rows that the model was trained on
    rows: int
    error: float
    stderr: float  # of the error, for rows of the same time
    score: float  # accuracy or R²


class Forecast(NamedTuple):
    """The mean of a quantity over the next piece, its standard error and its 95 % interval."""

    value: float
    stderr: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class TimeEstimate:
    """The error on rows after the last one.

    Attributes:
        pieces: The pieces of the rows that were predicted from the rows before them.
        error: The expected error on the next piece.
        score: The expected accuracy or R² on it.
        rises: Whether the errors of the pieces clearly rise or fall with time.
    """

    pieces: tuple[Piece, ...]
    error: Forecast
    score: Forecast
    rises: bool

    def table(self) -> pd.DataFrame:
        """The pieces as a table."""
        return pd.DataFrame(self.pieces)


def next_mean(means: Floats, stderrs: Floats) -> tuple[float, float, bool]:
    """Predict the next of some means in order; return it, its standard error, and if a line rises.

    The line through the means is extended, with its slope shrunk by what noise adds to its square.
    The standard error is that of an extended line, with the quantile of Student's distribution for
    few means: two of them cover the next mean in at least 95 % of the cases, whether the means have
    a trend or not. It contains the noise of the slope even where the slope is shrunk to zero: five
    means do not show a trend that is as large as this noise. It is never below what the standard
    errors of the single means imply.
    """
    count, own = len(means), float(np.sqrt(np.mean(stderrs**2)))
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
    return value, float(max(spread, own)) * math.sqrt(wider), shrunk > CLEAR


class PieceErrors(NamedTuple):
    """What a model of the past makes of the rows after it."""

    losses: Floats  # of the rows, in the units of the estimated error
    scores: Floats  # of the rows; their mean is an accuracy, or one minus their mean an R²
    weights: Floats


def forward_estimate(
    values: Floats,
    texts: list[str],
    predicted: Callable[[NDArray[np.intp], NDArray[np.intp]], PieceErrors | None],
    limits: tuple[float, float],
) -> TimeEstimate:
    """Predict every piece from the rows before it, and estimate the error of the next one.

    Args:
        values: The time of each row.
        texts: The same as text.
        predicted: Trains on the first rows, and returns the errors of the second ones; None if
            the first rows cannot be trained on.
        limits: The least and largest score.
    """
    before, *pieces = pieces_of(np.asarray(values, np.float64))
    kept: list[Piece] = []
    for rows in pieces:
        errors = predicted(before, rows)
        if errors is not None:
            kept.append(_piece(errors, len(before), texts[rows[0]], texts[rows[-1]]))
        before = np.concatenate([before, rows])
    if len(kept) < 2:
        raise ValueError(
            "the rows before the later ones have one class only, or the same groups; leave out time"
        )
    stderrs = np.array([one.stderr for one in kept])
    value, stderr, rises = next_mean(np.array([one.error for one in kept]), stderrs)
    value = max(value, 0.0)
    error = Forecast(value, stderr, (max(0.0, value - Z95 * stderr), value + Z95 * stderr))
    scores = np.array([one.score for one in kept])
    score, of_score, _ = next_mean(scores, np.zeros(len(kept)))
    low, high = limits
    score = min(max(score, low), high)
    ends = max(low, score - Z95 * of_score), min(high, score + Z95 * of_score)
    return TimeEstimate(tuple(kept), error, Forecast(score, of_score, ends), rises)


def _piece(errors: PieceErrors, before: int, start: str, stop: str) -> Piece:
    losses, scores, weights = errors
    shares = weights / weights.sum()
    error, score = float(shares @ losses), float(shares @ scores)
    stderr = math.sqrt(float(np.square(shares) @ np.square(losses - error)))
    stderr *= math.sqrt(len(losses) / max(1, len(losses) - 1))
    return Piece(start, stop, before, len(losses), error, stderr, score)
