"""How much the error rises when the values of one column are shuffled among the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.cli.tables import Prepared

#: The most rows that are predicted again, and the most columns that are shuffled.
MOST_ROWS, MOST_COLUMNS = 300, 60


def importance(prepared: Prepared, estimator: Any) -> list[tuple[str, float]]:
    """Return columns of the table with the relative rise of the error, largest first.

    All columns that were made from one column are shuffled together. The rows are the same for
    every column, so that the rises can be compared. Nothing is returned for wide tables.
    """
    columns = prepared.columns.columns
    if not 1 < len(columns) <= MOST_COLUMNS:
        return []
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(prepared.y))[:MOST_ROWS]
    X, y = prepared.X[chosen], prepared.y[chosen]
    before, found, start = _error(estimator, X, y), [], 0
    order = rng.permutation(len(y))
    for column in columns:
        stop = start + len(column.outputs)
        shuffled = X.copy()
        shuffled[:, start:stop] = X[order, start:stop]
        found.append((column.name, _error(estimator, shuffled, y) / max(before, 1e-300) - 1))
        start = stop
    return sorted(found, key=lambda one: -one[1])


def _error(estimator: Any, X: NDArray[np.float64], y: NDArray[Any]) -> float:
    if not hasattr(estimator, "classes_"):
        return float(np.square(estimator.predict(X) - y).mean())
    shares = estimator.predict_proba(X)[np.arange(len(y)), np.searchsorted(estimator.classes_, y)]
    return float(-np.log(np.maximum(shares, np.finfo(float).tiny)).mean())
