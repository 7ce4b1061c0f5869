"""Kinds of predictions: their losses are scikit-learn's, and large losses that did not occur."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from decoupled_descent.evaluation.decision_rule import DecisionRule
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.kinds import ANSWERS, DECISIONS, NUMBERS, PROBABILITIES


def drawn(n=200, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.01, 0.99, n)
    return (rng.uniform(size=n) < p).astype(int), np.stack([1 - p, p], 1)


def test_losses_are_those_of_scikit_learn():
    y, chances = drawn()
    assert PROBABILITIES.losses(y, chances).mean() == pytest.approx(metrics.log_loss(y, chances))
    said = PROBABILITIES.decisions(chances, DecisionRule())
    assert DECISIONS.losses(y, said).mean() == pytest.approx(metrics.zero_one_loss(y, said))
    values = chances[:, 0]
    expected = metrics.mean_squared_error(y, values)
    assert NUMBERS.losses(y, values).mean() == pytest.approx(expected)
    both = np.stack([y, 1 - y], 1)
    assert ANSWERS.losses(both, chances[:, ::-1]).mean() == pytest.approx(
        metrics.log_loss(y, chances)
    )


def test_probabilities_know_the_variance_of_their_loss():
    """Labels drawn from the probabilities: the variance of losses, to four standard errors."""
    rng = np.random.default_rng(0)
    chances = drawn(400)[1]
    expected = PROBABILITIES.least_variance(np.zeros(400), chances, None)
    variances = [
        PROBABILITIES.losses((rng.uniform(size=400) < chances[:, 1]).astype(int), chances).var()
        for _ in range(300)
    ]
    assert np.mean(variances) == pytest.approx(expected, abs=4 * np.std(variances) / 300**0.5)


def test_a_confident_model_without_mistakes_is_not_certain():
    """All 100 rows right at 0.99: one more row that is wrong would cost 4.6."""
    chances = np.tile([0.99, 0.01], (100, 1))
    found = Evaluation.of(np.zeros(100, int), chances)
    losses = np.append(np.full(100, -np.log(0.99)), -np.log(0.01))
    assert found.stderr == pytest.approx(losses.std(ddof=1) / 10)
    assert found.interval[1] > 0.05


def test_decisions_have_the_interval_of_a_share():
    found = Evaluation.of(np.arange(50) % 2, np.arange(50) % 2, DECISIONS)
    assert found.error == 0
    assert found.interval == pytest.approx((0.0, 1 - 0.025 ** (1 / 50)), abs=0.01)
    assert found.estimate("accuracy").value == 1
