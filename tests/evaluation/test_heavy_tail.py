"""Intervals of means of losses with long tails: they cover, and do so without tails, too."""

import math

import numpy as np
import pytest

from decoupled_descent.checks import error_interval
from decoupled_descent.evaluation import heavy_tail
from decoupled_descent.evaluation.heavy_tail import mean_interval, tail_size

#: Errors, and the mean of their squares.
LAWS = {
    "normal": (lambda rng, n: rng.normal(size=n), 1.0),
    "t5": (lambda rng, n: rng.standard_t(5, n), 5 / 3),
    "t3": (lambda rng, n: rng.standard_t(3, n), 3.0),
}


@pytest.mark.parametrize("law", LAWS)
def test_coverage(law):
    """200 intervals: 95 % less three standard errors of that share are 90 %; the usual ones 80."""
    draw, mean = LAWS[law]
    rng = np.random.default_rng(0)
    inside = {"tail": 0, "usual": 0}
    for _ in range(200):
        losses = draw(rng, 200) ** 2
        usual = error_interval(losses.mean(), losses.std(ddof=1) / 200**0.5)
        for name, (low, high) in (("tail", mean_interval(losses)), ("usual", usual)):
            inside[name] += low <= mean <= high
    assert inside["tail"] >= 180
    assert inside["usual"] < 175 or law != "t3"


def test_the_posterior_is_that_of_a_grid_by_hand():
    """Means under the posterior of shape and scale, by sums over the grid instead of draws."""
    losses = np.sort(np.random.default_rng(1).exponential(size=60)) / 7
    m = tail_size(60)
    limit = (losses[-m] + losses[-m - 1]) / 2
    excess = losses[-m:] - limit
    weights, tails = [], []
    for k in heavy_tail.SHAPES:
        for scale in excess.mean() * np.exp(heavy_tail.SCALES):
            inside = 1 + k * excess / scale
            prior = math.exp(-0.5 * ((k - heavy_tail.SHAPE) / heavy_tail.SPREAD) ** 2)
            possible = inside.min() > 0
            density = np.prod(inside ** (-1 / k - 1) / scale * excess.mean()) if possible else 0.0
            weights.append(prior * density)
            tails.append(limit + scale / (1 - k))
    expected = np.average(tails, weights=weights)
    shape, scale = heavy_tail._posterior(excess, np.random.default_rng(0))
    drawn = limit + scale / (1 - shape)
    assert drawn.mean() == pytest.approx(expected, abs=4 * drawn.std() / len(drawn) ** 0.5)


def test_units_do_not_matter_and_more_doubt_is_wider():
    losses = np.random.default_rng(2).normal(size=100) ** 2
    low, high = mean_interval(losses)
    assert mean_interval(1e200 * losses) == pytest.approx((1e200 * low, 1e200 * high))
    wider = mean_interval(losses, stderr=0.3)
    assert wider[0] < low < losses.mean() < high < wider[1]


@pytest.mark.parametrize("losses", [np.zeros(50), np.ones(5), np.array([1.0, math.inf] * 10)])
def test_edges(losses):
    with np.errstate(invalid="ignore"):
        low, high = mean_interval(losses)
    assert not low > high
