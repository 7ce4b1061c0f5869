"""The nodes of all trees of an ensemble, as arrays of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


def leaves_of(
    X: Floats,
    roots: NDArray[np.int64],
    feature: NDArray[np.int32],
    threshold: Floats,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
) -> NDArray[np.int64]:
    """The leaf of each row in each tree, shape (m, trees)."""
    count = len(roots)
    node = np.tile(roots, len(X))
    active = np.flatnonzero(feature[node] >= 0)
    while len(active):
        at = node[active]
        goes_left = X[active // count, feature[at]] <= threshold[at]
        at = np.where(goes_left, left[at], right[at])
        node[active] = at
        active = active[feature[at] >= 0]
    return node.reshape(len(X), count)
