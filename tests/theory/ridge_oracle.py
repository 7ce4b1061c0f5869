"""Limits of ridge regression on a mixture; second moments are derivatives of first ones."""

from typing import NamedTuple

import numpy as np

STEP = 1e-5


class Limits(NamedTuple):
    """Of b = c A⁻¹Xᵀq: e, M b/d, bᵀCb/d and vᵀCb/d."""

    e: float
    alignment: np.ndarray
    overlap: np.ndarray
    cross: np.ndarray


def ridge_limits(tau, means, p, ratio, ridge, second, signal, vector):
    """For E[q qᵀ] = second and l = signal; −d/dε qᵀX(A + εC)⁻¹Xᵀq = bᵀCb gives the overlap."""
    at = (tau, means, p, ratio, ridge * ratio * tau.mean())
    _, m, e = first_order(*at, 0.0, second, signal)
    c = tau.mean() * (1 + e) / e
    higher, lower = (first_order(*at, tilt, second, signal)[0] for tilt in (STEP, -STEP))
    # vᵀCb/d is the alignment with one more mode, at Cv, that no row comes from
    joined = np.vstack([means, tau * vector])
    silent = (tau, joined, np.append(p, 0.0), *at[3:], 0.0, second)
    _, with_vector, _ = first_order(*silent, np.vstack([signal, 0 * signal[:1]]))
    return Limits(e, c * m, -(c**2) * (higher - lower) / (2 * STEP), c * with_vector[-1])


def first_order(tau, means, p, ratio, shift, tilt, second, signal):
    """lim qᵀXA⁻¹Xᵀq/d, lim M A⁻¹Xᵀq/d and e for A = XᵀX + μI + εC, by fixed-point iteration."""
    e, change = 0.0, np.inf
    while change > 1e-14:
        k = ratio / (1 + e)
        before, e = e, float(np.mean(tau / (k * tau + shift + tilt * tau)))
        change = abs(e - before) / e
    pulled = k * (means / (k * tau + shift + tilt * tau)) @ means.T / len(tau)
    m = np.linalg.solve(np.eye(len(p)) + pulled @ np.diag(p), pulled @ signal)
    fitted = second - (second - signal.T @ m) / (1 + e)
    return ratio * fitted, m, e
