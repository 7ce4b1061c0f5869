"""The jackknife+ by literal refits, in NumPy alone."""

import math

import numpy as np

from tests.oracles.newton import fit, predict, squared


def left_out_models(features, y, ridges, shares, new, weights=None, groups=None):
    """Mixtures refitted without each row, or its group: of the row itself, and of new rows.

    ``features`` and ``new`` have one matrix per member. Returns (n, K) and (m, n, K).
    """
    n, outputs = y.shape
    weights = np.ones(n) if weights is None else weights
    groups = np.arange(n) if groups is None else groups
    own, others = np.zeros((n, outputs)), np.zeros((len(new[0]), n, outputs))
    for group in np.unique(groups):
        out = groups == group
        left = np.where(out, 0.0, weights)
        for phi, fresh, ridge, share in zip(features, new, ridges, shares, strict=True):
            beta = fit(phi, y, squared, ridge, left, outputs)
            own[out] += share * predict(phi[out], beta)
            others[:, out] += share * predict(fresh, beta)[:, None]
    return own, others


def jackknife_plus(own, others, y, level):
    """Ends of the intervals, (m, K, 2), from Barber et al. (2021), equation (8)."""
    n, outputs = y.shape
    errors = np.abs(y - own)
    place = math.ceil((n + 1) * level)
    ends = np.empty((len(others), outputs, 2))
    for row in range(len(others)):
        for k in range(outputs):
            low = np.sort(-(others[row, :, k] - errors[:, k]))
            high = np.sort(others[row, :, k] + errors[:, k])
            beyond = place > n
            ends[row, k, 0] = -math.inf if beyond else -low[place - 1]
            ends[row, k, 1] = math.inf if beyond else high[place - 1]
    return ends
