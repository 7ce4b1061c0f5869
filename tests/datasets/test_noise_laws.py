"""Noise laws: moments within standard errors, exact supports, and laws that are not unit."""

import math

import pytest
import torch
from scipy import stats

from decoupled_descent.datasets.noise_laws import NOISES, get_noise, three_point

COUNT = 200_000
#: Fourth moments, for the standard error of the second.
KURTOSIS = {"gaussian": 3.0, "three_point": 2.0, "rademacher": 1.0, "uniform": 1.8}


def draws(law, seed=0):
    return law((COUNT,), torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", NOISES)
def test_mean_zero_variance_one(name):
    values = draws(get_noise(name))
    assert values.dtype == torch.float64
    assert abs(values.mean()) < 4 / math.sqrt(COUNT)
    spread = math.sqrt(KURTOSIS[name] - 1)
    assert abs(values.square().mean() - 1) <= 4 * spread / math.sqrt(COUNT) + 1e-12


def test_three_point_support_and_probabilities():
    values, counts = draws(three_point).unique(return_counts=True)
    assert values.tolist() == [-math.sqrt(2), 0.0, math.sqrt(2)]
    assert stats.chisquare(counts.numpy(), COUNT * torch.tensor([0.25, 0.5, 0.25])).pvalue > 1e-3


@pytest.mark.parametrize(
    ("name", "law"), [("gaussian", stats.norm), ("uniform", stats.uniform(-(3**0.5), 2 * 3**0.5))]
)
def test_continuous_laws(name, law):
    assert stats.kstest(draws(get_noise(name))[:20_000].numpy(), law.cdf).pvalue > 1e-3


def test_a_law_of_ones_own():
    def laplace(shape, generator):
        u = torch.rand(shape, generator=generator) - 0.5
        return -u.sign() * torch.log1p(-2 * u.abs()) / math.sqrt(2)

    assert get_noise(laplace) is laplace


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (lambda s, g: torch.rand(s, generator=g), "mean 0.5 and second moment 0.33"),
        (lambda s, g: 0.97 * torch.randn(s, generator=g), "second moment 0.94.*variance 1"),
        (lambda s, g: torch.randn(s, generator=g) + 0.05, "mean 0.0476.*mean 0"),
        (lambda s, g: torch.full(s, math.nan), "mean nan"),
        (lambda s, g: torch.randn(s[0], generator=g), r"shape \(400,\) when asked for"),
        ("cauchy", "noise='cauchy' is unknown; use one of gaussian, three_point"),
    ],
)
def test_laws_that_will_not_do(law, message):
    with pytest.raises(ValueError, match=message):
        get_noise(law)


@pytest.mark.parametrize("name", NOISES)
def test_draws_are_where_the_generator_is(name):
    with torch.device("meta"):
        found = draws(NOISES[name])
    assert torch.equal(found, draws(NOISES[name]))
