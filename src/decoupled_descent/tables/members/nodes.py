"""The nodes of all trees of a forest, as arrays of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


def are_consistent(
    feature: NDArray[np.int32],
    threshold: Floats,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    value: Floats,
    roots: NDArray[np.int64],
    low: Floats,
    high: Floats,
) -> bool:
    """Whether nodes lead to later nodes of the arrays, and all numbers are finite."""
    nodes, inner = len(feature), feature >= 0
    here = np.arange(nodes)[inner]
    good = roots.ndim == 1 and len(roots) > 0 and roots.min() >= 0 and roots.max() < nodes
    good = good and feature.min() >= -1 and feature.max() < len(low)
    for after in (left[inner], right[inner]):
        good = good and bool((after > here).all() and (after < nodes).all())
    finite = all(np.isfinite(each).all() for each in (threshold, value, low, high))
    return bool(good and finite and (low <= high).all())
