r"""Logistic regression as a Bayesian fits it: posterior draws, and leave-one-out by importance.

The ridge is the prior N(0, I/λ) of the slopes; the intercept's is flat. Draws are by Hamiltonian
Monte Carlo in coordinates in which the posterior's curvature at its top is the unit matrix. A
prediction is the mean probability over the draws. Without row i the posterior has the density

.. math:: p(\beta \mid y_{-i}) \propto p(\beta \mid y) / p(y_i \mid \beta),

so that weights 1/p(y_i | β) turn draws of the one into draws of the other. The largest weights are
replaced by quantiles of a generalised Pareto distribution that is fitted to them (Vehtari, Gelman
and Gabry 2017); its shape k tells whether they can be relied on. Ridges with a row of k above 0.7,
where the authors ask for a refit, are not chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import expit, logsumexp

from benchmarks.versus.scaling import scaler
from benchmarks.versus.ways import Answer, Array, RowLosses, Way, lowest, mean_and_stderr

#: Data sets for which draws are made, by training rows: they take long.
DATA_SETS = {100: 4, 400: 2}
#: The largest shape k with which a row counts as known.
RELIABLE = 0.7
#: Chains side by side, states of each that count, and states before those.
CHAINS, KEPT, BURNT = 100, 10, 10
#: Length and number of leapfrog steps: a quarter of the way round, about.
LEAP, LEAPS = 0.2, 8


def psis_loo(
    standardise: bool, ridges: Array, path: Callable[[Array, Array, Array], tuple[Array, Array]]
) -> Way:
    """Draw from the posterior of every ridge; the one with the best leave-one-out score is kept."""

    def way(X: Array, y: Array) -> Answer:
        scale, rng = scaler(X, standardise), np.random.default_rng(0)
        A = scale(X)
        slopes, intercepts = path(A, y, ridges)
        tops = np.column_stack([slopes, intercepts])
        found = [
            draws(with_ones(A), y, top, ridge, rng) for top, ridge in zip(tops, ridges, strict=True)
        ]
        judged = [left_out(log_chances(with_ones(A), y, each)) for each in found]
        losses = np.array([losses for losses, _ in judged])
        reliable = np.array([shapes.max() <= RELIABLE for _, shapes in judged])
        if reliable.any():
            losses[~reliable] = np.inf
        best = lowest(losses)
        return Answer(*mean_and_stderr(losses[best]), averaged(scale, found[best]))

    return way


def averaged(scale: Callable[[Array], Array], betas: Array) -> RowLosses:
    """The log loss of the mean probability over the draws."""

    def losses(X: Array, y: Array) -> Array:
        log_chance = log_chances(with_ones(scale(X)), y, betas)
        return np.asarray(math.log(len(betas)) - logsumexp(log_chance, axis=0))

    return losses


def with_ones(A: Array) -> Array:
    return np.column_stack([A, np.ones(len(A))])


def log_chances(B: Array, y: Array, betas: Array) -> Array:
    """log p(y_i | β_s), shape (draws, rows)."""
    outputs = betas @ B.T
    return np.asarray(y * outputs - np.logaddexp(0, outputs))


def draws(B: Array, y: Array, top: Array, ridge: float, rng: np.random.Generator) -> Array:
    """Draws of (slopes, intercept), shape (CHAINS · KEPT, d + 1)."""
    penalty = np.full(len(top), ridge)
    penalty[-1] = 0.0
    chance = expit(B @ top)
    curvature = B.T @ ((chance * (1 - chance))[:, None] * B) + np.diag(penalty)
    # β = top + R⁻¹u, with curvature RᵀR: u is nearly N(0, I)
    unwhiten = solve_triangular(cholesky(curvature), np.eye(len(top)))

    def energy(u: Array) -> tuple[Array, Array]:
        """−log density of each chain and its gradient."""
        beta = top + u @ unwhiten.T
        outputs = beta @ B.T
        value = (np.logaddexp(0, outputs) - y * outputs).sum(1) + (penalty * beta**2).sum(1) / 2
        return value, ((expit(outputs) - y) @ B + penalty * beta) @ unwhiten

    u = rng.standard_normal((CHAINS, len(top)))
    value, gradient = energy(u)
    kept = []
    for _ in range(BURNT + KEPT):
        u, value, gradient = leap(energy, u, value, gradient, rng)
        kept.append(u)
    return top + np.concatenate(kept[BURNT:]) @ unwhiten.T


def leap(
    energy: Callable[[Array], tuple[Array, Array]],
    u: Array,
    value: Array,
    gradient: Array,
    rng: np.random.Generator,
) -> tuple[Array, Array, Array]:
    """One Hamiltonian proposal for every chain, accepted or not."""
    speed = rng.standard_normal(u.shape)
    size = LEAP * rng.uniform(0.8, 1.2)
    before = value + (speed**2).sum(1) / 2
    new, push = u, gradient
    for _ in range(LEAPS):
        speed = speed - size / 2 * push
        new = new + size * speed
        level, push = energy(new)
        speed = speed - size / 2 * push
    accepted = np.log(rng.uniform(size=len(u))) < before - level - (speed**2).sum(1) / 2
    take = accepted[:, None]
    return (
        np.where(take, new, u), np.where(accepted, level, value), np.where(take, push, gradient),
    )  # fmt: skip


def left_out(log_chance: Array) -> tuple[Array, Array]:
    """−log p(y_i | y without i) of every row, from log p(y_i | β_s) (draws, rows); and k."""
    losses, shapes = np.empty((2, log_chance.shape[1]))
    for row, each in enumerate(log_chance.T):
        weights, shapes[row] = smoothed(-each)
        losses[row] = logsumexp(weights) - logsumexp(weights + each)
    return losses, shapes


def smoothed(log_weights: Array) -> tuple[Array, float]:
    """Log weights with their largest ones smoothed, and the shape k of the tail."""
    count = len(log_weights)
    tail = math.ceil(min(0.2 * count, 3 * math.sqrt(count)))
    found = log_weights - log_weights.max()
    order = np.argsort(found)
    largest, cut = order[-tail:], found[order[-tail - 1]]
    shape, scale = pareto(np.exp(found[largest]) - math.exp(cut))
    steps = (np.arange(tail) + 0.5) / tail
    excess = (
        -scale * np.log1p(-steps)
        if abs(shape) < 1e-12
        else (scale * np.expm1(-shape * np.log1p(-steps)) / shape)
    )
    found[largest] = np.minimum(np.log(math.exp(cut) + excess), 0.0)
    return found, shape


def pareto(excess: Array) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution (Zhang and Stephens 2009).

    ``excess`` is sorted. The posterior mean of θ = −k/σ on a grid, under their prior; k is drawn
    towards ½ by ten rows' worth, as PSIS wants it.
    """
    n, points = len(excess), 30 + math.isqrt(len(excess))
    grid = 1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    grid = grid / (3 * excess[int(n / 4 + 0.5) - 1]) + 1 / excess[-1]
    shapes = np.log1p(-np.outer(grid, excess)).mean(1)
    profile = n * (np.log(-grid / shapes) - shapes - 1)
    theta = float(grid @ np.exp(profile - logsumexp(profile)))
    shape = float(np.log1p(-theta * excess).mean())
    return (n * shape + 5) / (n + 10), -shape / theta
