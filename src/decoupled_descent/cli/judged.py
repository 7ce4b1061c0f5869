"""What left-out rows show: predictions, widths of intervals, and the effect of more rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.cli.findings import is_interrupted
from decoupled_descent.cli.tables import Prepared
from decoupled_descent.report.judged import LEVELS, Width
from decoupled_descent.report.learning import MoreRows

#: With fewer rows, the coverage of intervals in each third of the rows is not computed.
FEWEST = 30
#: If the fit took more seconds than this, no learning curve is computed.
PATIENCE = 60.0


def predicted(estimator: Any) -> NDArray[Any]:
    """The prediction of every training row by models that were fitted without it."""
    if hasattr(estimator, "classes_"):
        return np.asarray(estimator.classes_[estimator.corrected_proba_.argmax(1)])
    return np.asarray(estimator.corrected_prediction_)


def widths(prepared: Prepared, estimator: Any) -> list[Width]:
    """Half the width of prediction intervals, and the share of left-out rows that they cover."""
    if prepared.task != "regression" or len(prepared.y) < FEWEST:
        return []
    found = []
    for level in LEVELS:
        places, ends = estimator.training_intervals(level)
        true, middle = prepared.y[places], estimator.corrected_prediction_[places]
        held = (ends[:, 0] <= true) & (true <= ends[:, 1])
        parts = np.array_split(np.argsort(middle, kind="stable"), 3)
        half = [float(np.median(np.diff(ends[part], axis=1))) / 2 for part in parts]
        shares = [float(held[part].mean()) for part in parts]
        typical = float(np.median(np.diff(ends, axis=1))) / 2
        found.append(Width(level, typical, float(held.mean()), tuple(half), tuple(shares)))
    return found


def more_rows(prepared: Prepared, estimator: Any, seconds: float) -> MoreRows | None:
    """The expected error with twice as many rows, or None if it takes too long or is unknown."""
    if estimator.method_ != "newton" or seconds > PATIENCE or is_interrupted(estimator):
        return None
    try:
        curve = estimator.learning_curve(prepared.X, prepared.y, groups=prepared.groups, repeats=1)
    except ValueError:  # too few rows, or too few rows of a class, to train on a quarter of them
        return None
    return MoreRows.of(curve, roots=prepared.task == "regression")
