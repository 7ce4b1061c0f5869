r"""An interval for a mean of losses of which the largest may not have occurred.

Squared errors have a long tail: a few rows hold much of their mean. If the sample has none of them,
both the mean and its standard error are too low. So the largest m of n losses, those above u, are
described by a generalised Pareto distribution with shape k and scale σ, as in Pareto-smoothed
importance sampling, and k and σ stay uncertain:

.. math:: \mu = (1 - p)\, b + p \left(u + \frac{\sigma}{1 - k}\right), \qquad p \sim B(m, n - m),

where b is the mean of the other losses. The interval has the quantiles of μ under the posterior
distribution of (k, σ), with a normal prior of k and a flat prior of log σ.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.checks import error_interval, standard_error

Floats = NDArray[np.float64]

#: Mean and standard deviation of the prior of the shape k. Squares of normal errors have about 0.1
#: in samples of this size, squares of errors with a t distribution of ν degrees of freedom 2/ν.
#: Chosen on simulated losses (studies/heavy_tails.py). There, with 30 to 1000 rows, intervals
#: cover 96 to 97 % for normal and 90 to 95 % for t₃ errors; by the standard error, 74 to 82 %.
SHAPE, SPREAD = 0.25, 0.3
#: Shapes that are compared; from 1 on the mean does not exist.
SHAPES = np.linspace(-0.6, 0.95, 62)
#: Scales that are compared, in logarithms relative to the mean excess.
SCALES = np.linspace(-2.0, 1.5, 71)
#: The smallest number of losses, and of those in the tail.
FEWEST, SMALLEST_TAIL = 12, 6
#: The number of draws from the posterior distribution.
DRAWS = 4000


def tail_size(n: int) -> int:
    """How many of n losses are the tail: a fifth, at most 3 √n, as in Pareto smoothing."""
    return max(SMALLEST_TAIL, math.ceil(min(0.2 * n, 3 * math.sqrt(n))))


def mean_interval(losses: Floats, stderr: float = 0.0, seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of the mean of positive losses with a long tail.

    Args:
        losses: Losses of independent rows or groups, shape (n,).
        stderr: A further standard error of the mean, for what these losses have in common.
        seed: Of the draws.

    Example:
        >>> losses = np.random.default_rng(0).normal(size=200) ** 2
        >>> [round(end, 2) for end in mean_interval(losses)]
        [0.78, 1.21]
    """
    n, ordered = len(losses), np.sort(losses)
    largest = float(ordered[-1])
    if n < FEWEST or not 0 < largest < math.inf:
        spread = float(standard_error(losses)) if n > 1 else 0.0
        return error_interval(float(losses.mean()), math.hypot(spread, stderr))
    ordered = ordered / largest
    m, rng = tail_size(n), np.random.default_rng(seed)
    body, tail = ordered[:-m], ordered[-m:]
    limit = float(body[-1] + tail[0]) / 2
    shape, scale = _posterior(np.maximum(tail - limit, 1e-12), rng)
    share = rng.beta(m, n - m, DRAWS)
    centre = rng.normal(body.mean(), float(standard_error(body)), DRAWS)
    means = (1 - share) * centre + share * (limit + scale / (1 - shape))
    means += rng.normal(0.0, stderr / largest, DRAWS)
    low, high = largest * np.quantile(means, [0.025, 0.975])
    return max(0.0, float(low)), float(high)


def _posterior(excess: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draws of the shape k and the scale σ, given losses above the limit."""
    scales = excess.mean() * np.exp(SCALES)
    likelihood = np.full((len(SHAPES), len(scales)), -np.inf)
    for row, k in enumerate(SHAPES):
        terms = 1 + k * excess / scales[:, None]
        possible = (terms > 0).all(1)
        logs = np.log(terms[possible]).sum(1)
        likelihood[row, possible] = -len(excess) * np.log(scales[possible]) - (1 + 1 / k) * logs
    likelihood -= 0.5 * np.square((SHAPES - SHAPE) / SPREAD)[:, None]
    weights = np.exp(likelihood - likelihood.max()).ravel()
    chosen = rng.choice(weights.size, DRAWS, p=weights / weights.sum())
    return SHAPES[chosen // len(scales)], scales[chosen % len(scales)]
