"""Means and deviations of columns for members."""

from __future__ import annotations

import numpy as np

from decoupled_descent.tables.members.interface import Floats, TrainingTable


def column_moments(table: TrainingTable) -> tuple[Floats, Floats]:
    """Means and deviations of the columns; 1 for constant ones."""
    X, weights = np.asarray(table.X, np.float64), table.row_weights
    share = weights / weights.sum()
    mean = share @ X
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = np.sqrt(share @ (X - mean) ** 2)
    usable = np.isfinite(deviation) & (deviation > 0)
    return mean, np.where(usable, deviation, 1.0)
