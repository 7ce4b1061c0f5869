"""The price of choosing the best of several models by the rows that estimate its error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: The choice is made without each of so many parts of the units, …
PARTS = 10
#: … for so many random divisions into parts.
DIVISIONS = 20


def price_of_choice(losses: Any, weights: Any = None, units: Any = None) -> float:
    """How much higher the error of the model with the lowest error is than it seems.

    The choice is *cross-fitted*: the rows of a part are predicted by the model that is the best for
    the other rows.

    Args:
        losses: Losses of the rows for each model, shape (K, n).
        weights: Weights of the rows, shape (n,).
        units: The number of the group of each row, which is in one part, shape (n,).

    Returns:
        The error of the cross-fitted choice minus the lowest error, at least 0.

    Example:
        >>> losses = np.random.default_rng(0).random((20, 400))
        >>> 0.005 < price_of_choice(losses) < 0.05
        True
    """
    losses = np.asarray(losses, np.float64)
    count, n = losses.shape
    shares = np.full(n, 1 / n) if weights is None else weights / np.sum(weights)
    codes = np.arange(n) if units is None else units
    size, generator = int(codes.max()) + 1, np.random.default_rng(0)
    errors, chosen = losses @ shares, 0.0
    if count < 2:
        return 0.0
    for _ in range(DIVISIONS):
        part = (generator.permutation(size) % PARTS)[codes]
        own = np.stack([(losses * shares) @ (part == k) for k in range(PARTS)])  # (parts, K)
        best = (errors - own).argmin(1)
        chosen += float(own[np.arange(PARTS), best].sum())
    return max(0.0, chosen / DIVISIONS - float(errors.min()))
