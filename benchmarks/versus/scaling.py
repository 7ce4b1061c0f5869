"""Columns scaled by the rows that train, so that folds and hold-outs scale by their own rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.versus.ways import Array
from decoupled_descent.datasets.whitening import Whitening

Map = Callable[[Array], Array]


def scaler(X: Array, standardise: bool) -> Map:
    """Columns of mean 0 and variance 1/d; rows of a model are left as they are."""
    if not standardise:
        return lambda rows: rows
    fitted = Whitening("vanilla").fit(X)
    return lambda rows: np.asarray(fitted.transform(rows))
