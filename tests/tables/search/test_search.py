"""The search over features and ridges: what it finds, and how far its estimate is right."""

import numpy as np
import pytest
import torch

from decoupled_descent.tables.estimators.mixture import Mixture
from decoupled_descent.tables.search import ranking, ridge_fits
from decoupled_descent.tables.search.search import search_models
from tests.tables.search.problems import evaluated

FEW = ["linear", "rbf(1)", "matern(2)"]


def products(n=150, seed=0, noise=0.0):
    """y = sign(x₀ x₁): nothing for a linear model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, torch.tensor((X[:, 0] * X[:, 1] + noise * rng.normal(size=n) > 0).astype(float))


def straight(n=100, d=5, seed=0):
    """Logistic regression of columns that are independent."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    chances = 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1]))
    return X, torch.tensor((rng.random(n) < chances).astype(float))


def several(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, torch.tensor((X[:, :3] + 0.5 * rng.normal(size=(n, 3))).argmax(1))


def numbers(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, torch.tensor(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n))


def predicted(found, X):
    return torch.from_numpy(Mixture.of(found).predict(X))


def log_loss(said, y):
    return -np.log(said.numpy()[np.arange(len(y)), y.long().numpy()])


def test_it_finds_curvature():
    X, y = products()
    result = search_models(X, y, "logistic", progress=False)
    assert "linear" not in result.best.features.name
    fresh, labels = products(1000, seed=1)
    predictions = predicted(result, fresh)
    assert float((predictions.argmax(1) == labels).double().mean()) > 0.85
    linear = [one for one in result.fits if one.features.name == "linear"]
    assert linear  # it is fitted in any case
    assert min(one.error for one in linear) > evaluated(result).error + 0.2


def test_linear_data_keep_the_linear_model():
    X, y = straight(200)
    result = search_models(X, y, "logistic", features=FEW, progress=False)
    linear = [one for one in result.fits if one.features.name == "linear"]
    assert min(one.error for one in linear) < result.best.error + 0.01


@pytest.mark.parametrize(
    ("draw", "loss", "outputs"),
    [
        (straight, "logistic", 1),
        (several, "cross_entropy", 3),
        (numbers, "squared", 1),
        (products, "logistic", 1),
    ],
)
def test_the_estimate_is_the_error_on_fresh_rows(draw, loss, outputs):
    X, y = draw()
    result = search_models(X, y, loss, outputs=outputs, features=FEW, progress=False)
    fresh, labels = draw(3000, seed=7)
    predictions = predicted(result, fresh)
    if loss == "squared":
        losses = 0.5 * (predictions[:, 0] - labels).square().numpy()
    else:
        losses = log_loss(predictions, labels)
    assert abs(evaluated(result).error - losses.mean()) < 3 * evaluated(result).stderr
    assert evaluated(result).stderr > 0.5 * losses.std() / np.sqrt(len(y))
    assert evaluated(result).error == pytest.approx(float(result.losses.mean()))


def test_the_same_seed_gives_the_same_model():
    X, y = straight()
    first, second = (
        search_models(X, y, "logistic", features=FEW, seed=3, progress=False) for _ in "ab"
    )
    assert torch.equal(predicted(first, X), predicted(second, X))
    assert evaluated(first).error == evaluated(second).error


def test_ridge_and_features_given():
    X, y = straight()
    result = search_models(X, y, "logistic", features="rbf(0.5)", ridge=0.3, progress=False)
    (only,) = result.fits
    assert (only.features.name, only.ridge) == ("rbf(0.5)", 0.3)
    assert result.weights.tolist() == [1.0]
    assert only.name == "rbf(0.5), ridge=0.3"


def test_without_stacking_there_is_one_member():
    X, y = straight()
    one = search_models(X, y, "logistic", features=FEW, stack=False, progress=False)
    ((share, member),) = one.members
    assert share == 1.0
    assert member is one.best
    own = log_loss(one.left_out, y).mean()
    assert evaluated(one).error >= own - 1e-12  # choosing is paid for
    assert one.optimism >= 0


def interrupting(monkeypatch, after):
    """Let training be interrupted after some fits."""
    real, calls = ridge_fits.fit, []

    def fit(*args, **options):
        calls.append(1)
        if len(calls) > after:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(ridge_fits, "fit", fit)


def test_an_interrupted_search_keeps_what_it_has(monkeypatch):
    X, y = straight()
    complete = search_models(X, y, "logistic", features=FEW, progress=False)
    assert not complete.interrupted
    count = len(complete.fits) - 1
    interrupting(monkeypatch, count)
    result = search_models(X, y, "logistic", features=FEW, progress=False)
    assert result.interrupted
    assert [one.name for one in result.fits] == [one.name for one in complete.fits[:count]]
    assert np.isfinite(evaluated(result).error)


def test_an_interruption_before_the_first_fit_is_raised(monkeypatch):
    X, y = straight()
    interrupting(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt):
        search_models(X, y, "logistic", features=FEW, progress=False)


def test_groups_raise_the_estimate_where_rows_of_a_group_are_alike():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 4)
    X = rng.normal(size=(40, 6))[groups] + 0.1 * rng.normal(size=(160, 6))
    y = torch.tensor(rng.integers(0, 2, 40)[groups].astype(float))  # nothing to learn of new groups
    plain = search_models(X, y, "logistic", features=FEW, progress=False)
    grouped = search_models(
        X, y, "logistic", features=FEW, groups=torch.tensor(groups), progress=False
    )
    assert evaluated(plain).error < 0.4
    assert evaluated(grouped).error > np.log(2) - 0.05
    assert len(grouped.losses) == 160


def test_weights_are_copies_in_one_group():
    X, y = straight(60)
    weights = 1.0 + torch.arange(60) % 2
    copies = torch.arange(60).repeat_interleave(weights.long())
    options = {"features": "linear", "stack": False, "progress": False}
    alone = {"weights": weights.double(), "groups": torch.arange(60)}
    once = search_models(X, y, "logistic", **alone, **options)
    twice = search_models(X[copies], y[copies], "logistic", groups=copies, **options)
    assert [one.ridge for one in once.fits] == [one.ridge for one in twice.fits]
    torch.testing.assert_close(predicted(once, X), predicted(twice, X), atol=1e-6, rtol=0)
    assert once.best.error == pytest.approx(twice.best.error, rel=1e-6)


@pytest.mark.parametrize("factor", [0.5, 2.0, 100.0])
def test_a_constant_weight_changes_nothing(factor):
    X, y = straight(60)
    options = {"features": FEW, "progress": False}
    plain = search_models(X, y, "logistic", **options)
    weights = torch.full((60,), factor, dtype=torch.float64)
    weighted = search_models(X, y, "logistic", weights=weights, **options)
    torch.testing.assert_close(weighted.left_out, plain.left_out, atol=1e-6, rtol=0)
    assert evaluated(weighted).error == pytest.approx(evaluated(plain).error, rel=1e-6)
    assert evaluated(weighted).stderr == pytest.approx(evaluated(plain).stderr, rel=1e-6)


def test_the_ranking_takes_some_of_many_rows(monkeypatch):
    monkeypatch.setattr(ranking, "RANKED", 50)
    X, y = straight()
    result = search_models(X, y, "logistic", features=FEW, progress=False)
    assert result.best.rows.n == 100
    assert len(result.losses) == 100
