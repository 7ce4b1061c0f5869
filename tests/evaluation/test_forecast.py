"""The next of some means: coverage with and without a trend."""

import numpy as np
import pytest

from decoupled_descent.evaluation.forecast import next_mean


def test_the_next_of_several_means():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(2000):
        values = 5 + rng.normal(size=6)
        value, stderr, _ = next_mean(values[:5], np.zeros(5))
        inside.append(abs(value - values[5]) <= 2 * stderr)
    assert np.mean(inside) > 0.97
    line = np.arange(6) + 0.1 * rng.normal(size=6)
    value, stderr, rises = next_mean(line[:5], np.zeros(5))
    assert rises
    assert abs(value - line[5]) <= 2 * stderr
    assert abs(value - 5) < 0.5
    assert next_mean(np.ones(5), np.full(5, 0.5))[:2] == (1.0, pytest.approx(0.5 * 2.1**0.5))
    assert not next_mean(np.ones(5), np.full(5, 0.5))[2]


@pytest.mark.parametrize("slope", [0.0, 0.3, 0.6, 1.0, 3.0])
def test_trends_that_five_means_hardly_show(slope):
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(2000):
        values = 5 + slope * np.arange(6) + rng.normal(size=6)
        value, stderr, _ = next_mean(values[:5], np.zeros(5))
        inside.append(abs(value - values[5]) <= 2 * stderr)
    assert np.mean(inside) > 0.95 - 0.01  # two standard errors of this share
