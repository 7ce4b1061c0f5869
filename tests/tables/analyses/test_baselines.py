"""Baselines: the same numbers as by leaving out every row, or group, one after the other."""

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.tables.analyses.baselines import baselines, better_than_guessing

LINEAR = {"features": "linear", "ridge": 1.0}


@pytest.mark.parametrize("grouped", [False, True])
def test_guesses_leave_rows_or_groups_out_and_keep_the_shares_of_classes(grouped):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    groups = rng.integers(6, size=30) if grouped else None
    own = np.arange(30) if groups is None else groups
    expected = [y[own != own[k]].mean() for k in range(30)]
    model = dd.DecoupledRegressor(**LINEAR).fit(X, y, groups=groups)
    _, guess = baselines(model, X, y, groups=groups)
    np.testing.assert_allclose(guess.evaluation.predictions, expected, rtol=0, atol=1e-12)
    labels = rng.choice(["a", "b", "c"], size=30)
    counts = np.array([(labels == name).sum() for name in "abc"]) + 0.5
    model = dd.DecoupledClassifier(**LINEAR).fit(X, labels, groups=groups)
    _, guess = baselines(model, X, labels, groups=groups)
    for row in guess.evaluation.predictions:
        np.testing.assert_allclose(row, counts / counts.sum(), rtol=0, atol=1e-12)


def test_later_rows_are_guessed_from_those_before_them():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(100, 2)), np.arange(100.0)
    model = dd.DecoupledRegressor(**LINEAR).fit(X, y, time=np.arange(100))
    linear, guess = baselines(model, X, y, time=np.arange(100))
    starts = np.repeat(np.arange(50, 100, 10), 10)
    np.testing.assert_allclose(guess.evaluation.predictions, (starts - 1) / 2)
    assert linear.evaluation.how == "later rows"
    assert linear.evaluation.error == pytest.approx(model.estimated_test_error_)


@pytest.mark.slow
def test_random_labels_are_seldom_better_than_guessing():
    """The level is 5 %: of 60 tables, more than 7 are below it with a probability of 1 %."""
    said = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(100, 4)), rng.permutation(np.arange(100) % 2)
        model = dd.DecoupledClassifier(**LINEAR).fit(X, y)
        said += better_than_guessing(model.evaluation_, baselines(model, X, y)[1])
    assert said <= 7


def test_signal_is_seen_by_the_ranks():
    """250 rows with a true AUC of about 0.7, few of one class: the ranks show it in most draws."""
    said = by_loss = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(250, 5))
        y = (rng.random(250) < 1 / (1 + np.exp(1.7 - 0.75 * X[:, 0]))).astype(int)
        model = dd.DecoupledClassifier(**LINEAR).fit(X, y)
        _, guess = baselines(model, X, y)
        said += better_than_guessing(model.evaluation_, guess)
        by_loss += guess.is_worse
    assert said >= 17
    assert said > by_loss


def test_weights_count_for_all():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(80, 2)), np.arange(80) % 2
    weights = np.where(y == 1, 3.0, 1.0)
    model = dd.DecoupledClassifier(**LINEAR).fit(X, y, sample_weight=weights)
    _, guess = baselines(model, X, y, sample_weight=weights)
    assert guess.evaluation.predictions[0, 1] == pytest.approx((80 * 0.75 + 0.5) / 81)
    assert guess.evaluation.estimate("accuracy").value == pytest.approx(0.75)
