"""Prediction intervals beside the predictions of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from decoupled_descent.tables.prediction.saved import PredictionModel

Floats = NDArray[np.float64]

#: The level of the intervals, that of ``predict_interval``; the names of the columns have it.
LEVEL = 0.9
ENDS = (f"lower_{LEVEL:.0%}".rstrip("%"), f"upper_{LEVEL:.0%}".rstrip("%"))
NO_INTERVALS = (
    "predictions have no lower and upper ends, because the verdict at training was “do not trust”: "
    "the ends would rest on the same errors"
)


def has_intervals(saved: PredictionModel) -> bool:
    """Whether a model has intervals that can be relied on: of one number, and of trusted errors."""
    return saved.has_one_output and saved.verdict != "do not trust"


def interval_ends(saved: PredictionModel, rows: Any) -> Floats:
    """The ends of the interval of each row, shape (m, 2); missing where they are infinite."""
    ends: Floats = np.asarray(saved.intervals(rows, LEVEL), np.float64)
    return np.where(np.isfinite(ends), ends, np.nan)


def moved(saved: PredictionModel, ends: Floats, before: Floats, after: Floats) -> Floats:
    """Intervals around other predictions (m, 1): moved by the difference, or by the ratio of logs.

    Training rows get leave-one-out predictions, and their intervals go with them.
    """
    if saved.has_logarithm:
        return ends * (after / before)
    return ends + (after - before)
