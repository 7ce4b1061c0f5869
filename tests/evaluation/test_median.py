"""The median of errors: against numpy and the binomial law, its coverage, and groups."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from decoupled_descent.evaluation.median import median

RNG = np.random.default_rng(0)


def naive_interval(values):
    """Order statistics k and n − k + 1, with the largest k of error probability at most 5 %."""
    ordered, n = np.sort(values), len(values)
    ranks = [k for k in range(1, n // 2 + 1) if 2 * binom.cdf(k - 1, n, 0.5) <= 0.05]
    return (ordered[ranks[-1] - 1], ordered[n - ranks[-1]]) if ranks else (0.0, math.inf)


@pytest.mark.parametrize("n", [1, 5, 6, 7, 20, 41, 300])
def test_independent_rows(n):
    values = RNG.exponential(size=n)
    found = median(values, np.full(n, 2.5), np.arange(n))
    assert found.value == pytest.approx(np.median(values), rel=1e-14)
    assert found.interval == pytest.approx(naive_interval(values), rel=1e-14)


def test_whole_weights_are_repeated_rows_of_a_group():
    values, weights = RNG.exponential(size=60), RNG.integers(1, 4, 60)
    found = median(values, weights.astype(float), np.arange(60))
    rows = np.repeat(np.arange(60), weights)
    repeated = median(values[rows], np.ones(len(rows)), rows)
    assert found.value == repeated.value == np.median(values[rows])
    assert found.interval == repeated.interval


def test_rows_of_weight_zero_do_not_count():
    values = RNG.exponential(size=30)
    more = np.append(values, [100.0, 200.0])
    weights = np.append(np.ones(30), [0.0, 0.0])
    assert median(more, weights, np.arange(32)) == median(values, np.ones(30), np.arange(30))


@pytest.mark.parametrize("rows_each", [1, 5])
def test_intervals_cover(rows_each):
    """Of 400 draws; rows of a group share half of the variance of their logarithm."""
    groups, covered = np.repeat(np.arange(40), rows_each), 0
    for _ in range(400):
        own = RNG.normal(size=len(groups)) + RNG.normal(size=40)[groups]
        low, high = median(np.exp(own), np.ones(len(groups)), groups).interval
        covered += low <= 1 <= high
    assert covered / 400 > 0.95 - 3 * math.sqrt(0.05 * 0.95 / 400)
