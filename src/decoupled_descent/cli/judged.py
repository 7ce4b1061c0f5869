"""What rows that were left out tell: widths of intervals, and what more rows would bring."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoupled_descent.cli.tables import Prepared
from decoupled_descent.report.judged import LEVELS, Width
from decoupled_descent.report.learning import MoreRows

#: Fewer rows do not show how often intervals hold in each third of them.
FEWEST = 30
#: After a longer training, in seconds, rows are not divided and trained on once more.
PATIENCE = 60.0


def widths(prepared: Prepared, estimator: Any) -> list[Width]:
    """Half the width of prediction intervals, and how often they hold for rows left out."""
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
    """What twice as many rows would bring, unless that takes too long or cannot be told."""
    if estimator.method_ != "newton" or seconds > PATIENCE:
        return None
    try:
        curve = estimator.learning_curve(prepared.X, prepared.y, groups=prepared.groups, repeats=1)
    except ValueError:  # too few rows, or rows of a class, for quarters
        return None
    return MoreRows.of(curve, roots=prepared.task == "regression")
