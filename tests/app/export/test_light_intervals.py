"""The quantile of the intervals, beside its definition."""

import math

import numpy as np

from decoupled_descent.app.export.light_intervals import quantiles


def test_the_quantile_is_the_smallest_value_with_enough_weight():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(4, 11)), rng.uniform(0.5, 2, 11)
    for level in (0.3, 0.8, 0.97):
        for row, found in zip(values, quantiles(values, weights, level), strict=True):
            limit = level * (weights.sum() + 1)
            enough = [v for v in row if weights[row <= v].sum() >= limit - 1e-9]
            assert found == min(enough, default=math.inf)
