"""The price of choosing, beside a simulation that knows the truth."""

import numpy as np
import pytest

from decoupled_descent.evaluation.choice import price_of_choice


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.2])
def test_the_price_is_the_optimism_of_the_winner(spread):
    """Models with known errors: how far is that of the winner below its own?"""
    rng = np.random.default_rng(0)
    truth = spread * np.arange(8)
    optimism, price = [], []
    for _ in range(200):
        losses = truth[:, None] + rng.normal(size=(8, 100))
        best = losses.mean(1).argmin()
        optimism.append(truth[best] - losses[best].mean())
        price.append(price_of_choice(losses))
    stderr = np.hypot(np.std(optimism), np.std(price)) / 200**0.5
    slack = 0.02 if spread else 0.0  # at least 0, so never too low when models differ
    assert np.mean(price) == pytest.approx(np.mean(optimism), abs=3 * stderr + slack)


def test_groups_are_chosen_by_together():
    rng = np.random.default_rng(0)
    alone = rng.normal(size=(5, 50))
    copied = np.repeat(alone, 4, axis=1)
    groups = np.repeat(np.arange(50), 4)
    assert price_of_choice(copied, units=groups) == pytest.approx(price_of_choice(alone))
    assert price_of_choice(copied) < 0.8 * price_of_choice(alone)


def test_a_model_that_is_always_better_costs_nothing():
    losses = np.random.default_rng(0).normal(size=100)
    assert price_of_choice(np.stack([losses, losses + 1])) == pytest.approx(0, abs=1e-12)
    assert price_of_choice(losses[None]) == 0
