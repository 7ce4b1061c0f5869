"""Mixtures drawn towards the model without columns: how far, and what it changes."""

import math

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.tables.search.shrinkage import SHARES, towards_reference


def naive(weights, own, shares, extra, reference):
    """The share with the largest lower bound of the gain, row by row."""
    best, chosen = -math.inf, None
    for share in SHARES:
        gains = []
        for row in range(own.shape[1]):
            mixed = sum(w * p for w, p in zip(weights, own[:, row], strict=True))
            usual = own[reference, row]
            gains.append(math.log((1 - share) * mixed + share * usual) - math.log(usual))
        total = sum(shares)
        mean = sum(s * g for s, g in zip(shares, gains, strict=True)) / total
        square = sum(s * (g - mean) ** 2 for s, g in zip(shares, gains, strict=True)) / total
        bound = mean - math.sqrt(square / (total / extra))
        if bound > best:
            best, chosen = bound, share
    drawn = [(1 - chosen) * w for w in weights]
    drawn[reference] += chosen
    return drawn


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_bound_of_the_gain(seed):
    rng = np.random.default_rng(seed)
    own = rng.uniform(0.1, 0.9, size=(3, 4, 30))
    own[:, 0] += 0.1 * seed * (1 - own[:, 0])  # from no signal to a clear one
    own[:, 3] = 0.5
    weights = rng.dirichlet(np.ones(4), 3)
    shares = rng.integers(0, 3, size=(3, 30)).astype(float)
    given = [torch.from_numpy(one) for one in (weights, own, shares)]
    found = towards_reference(*given, 0.8, 3)
    for k in range(3):
        expected = naive(weights[k], own[k], shares[k], 0.8, 3)
        np.testing.assert_allclose(found[k], expected, rtol=1e-10)
    torch.testing.assert_close(found.sum(1), torch.ones(3).double())


def test_a_clear_gain_needs_no_reference():
    own = torch.stack([torch.full((50,), 0.9), torch.full((50,), 0.5)]).double().unsqueeze(0)
    own[0, 0, :5] = 0.3
    weights = torch.tensor([[1.0, 0.0]]).double()
    torch.testing.assert_close(towards_reference(weights, own, torch.ones(1, 50), 1.0, 1), weights)
    few = towards_reference(weights, own[:, :, 3:8], torch.ones(1, 5), 1.0, 1)
    assert float(few[0, 1]) > 0.1  # two of five rows are worse: the same model, and much doubt


def losses(model, X, y):
    return -np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean()


@pytest.mark.slow
def test_tables_without_signal_are_predicted_with_less_confidence():
    """The error on new rows is lower in the mean of the draws than without the constant model."""
    changes, names = [], ["random forest", "naive Bayes"]
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(40, 5)), rng.normal(size=(2000, 5))
        y, truth = np.arange(40) % 2, rng.integers(0, 2, 2000)
        given = {"features": ["linear", "rbf(1)"]}
        plain, drawn = (
            dd.DecoupledClassifier(members=one, **given).fit(X, y)
            for one in (names, [*names, "constant"])
        )
        changes.append(losses(drawn, new, truth) - losses(plain, new, truth))
        order = [one.predict_proba(new[:50])[:, 1] for one in (plain, drawn)]
        assert np.corrcoef(*order)[0, 1] > 0.9  # the order stays
    assert np.mean(changes) < -0.005
    assert max(changes) < 0.005


def test_a_signal_is_not_drawn_away():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=100) > 0).astype(int)
    model = dd.DecoupledClassifier(features=["linear"], members=["constant"]).fit(X, y)
    assert sum(one.share for one in model.mixture_.others) == 0


def test_numbers_are_not_drawn():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    model = dd.DecoupledRegressor(features=["linear"], members=["constant"]).fit(X, y)
    assert model.mixture_.others == ()


def test_the_constant_part_does_not_widen_standard_errors():
    """What does not respond to other rows adds no covariance: 20 groups of 6 without signal."""
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(120, 4)), np.arange(120) % 2, np.arange(120) // 6
    drawn, plain = (
        dd.DecoupledClassifier(members=members, random_state=0).fit(X, y, groups=groups)
        for members in (["constant"], [])
    )
    assert drawn.estimated_test_error_stderr_ < plain.estimated_test_error_stderr_
    assert drawn.estimated_accuracy_stderr_ < 1.5 * plain.estimated_accuracy_stderr_
