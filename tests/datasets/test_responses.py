"""Response laws: supports, probabilities and moments."""

import math

import pytest
import torch

from decoupled_descent.datasets.responses import Discrete, Noisy, dirac, flipped, get_modes

COUNT = 40_000


def draw(law, seed=0):
    return law(COUNT, torch.Generator().manual_seed(seed)).double()


def test_dirac():
    assert draw(dirac(2.5)).unique().tolist() == [2.5]


def test_flipped():
    values = draw(flipped(-1, 1, 0.1))
    assert values.unique().tolist() == [-1.0, 1.0]
    assert abs((values == 1).double().mean() - 0.1) < 4 * math.sqrt(0.09 / COUNT)


def test_discrete():
    values = draw(Discrete((0.0, 3.0, 7.0), (0.2, 0.3, 0.5)))
    for value, probability in ((0, 0.2), (3, 0.3), (7, 0.5)):
        error = math.sqrt(probability * (1 - probability) / COUNT)
        assert abs((values == value).double().mean() - probability) < 4 * error


def test_noisy():
    values = draw(Noisy(3.0, 0.5))
    assert abs(values.mean() - 3) < 4 * 0.5 / math.sqrt(COUNT)
    assert abs(values.var() / 0.25 - 1) < 4 * math.sqrt(2 / COUNT)


def test_noisy_with_a_sampler_of_ones_own():
    law = Noisy(1.0, 2.0, lambda count, generator: torch.ones(count))
    assert draw(law).unique().tolist() == [3.0]


def test_numbers_become_dirac_laws_and_samplers_stay():
    _, laws = get_modes([0.5, 0.5], [2, flipped(0, 1, 0.5)], 2)
    assert laws == [dirac(2), flipped(0, 1, 0.5)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Discrete((0.0, 1.0), (0.4, 0.4)), "sum to 1, not 0.8"),
        (lambda: Discrete((0.0, 1.0), (1.5, -0.5)), "must be at least 0"),
        (lambda: Discrete((0.0, 1.0), (math.nan, 0.5)), "probabilities="),
        (lambda: Discrete((0.0,), (0.5, 0.5)), "same length"),
        (lambda: Discrete((), ()), "at least 1"),
        (lambda: get_modes([0.5, 0.5], [0.0], 2), "responses has 1 entries but there are 2 means"),
    ],
)
def test_bad_laws(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("law", [dirac(2.0), flipped(1.0, 0.0, 0.1), Noisy(1.0, 2.0)])
def test_draws_are_where_the_generator_is(law):
    with torch.device("meta"):
        found = draw(law)
    assert torch.equal(found, draw(law))
