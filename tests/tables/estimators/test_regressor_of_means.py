"""Counts and proportions: honest estimates, intervals, files, and what is refused."""

import numpy as np
import pytest
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance

import decoupled_descent as dd
from decoupled_descent.tables.prediction.saved import read_model

N = 150


def drawn(loss, seed, n=N, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 3000, d))
    score = 0.2 + X @ np.linspace(0.6, -0.4, d)
    if loss == "poisson":
        return X, rng.poisson(np.exp(score)).astype(float)
    chance = 1 / (1 + np.exp(-score))
    return X, rng.binomial(8, chance) / 8


def linear(loss, **options):
    return dd.DecoupledRegressor(loss=loss, features="linear", **options)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["poisson", "proportion"])
def test_the_estimate_is_honest(loss):
    """Over 25 draws z has mean 0 within 3 standard errors and a mean square of about 1."""
    z, covered = [], []
    for seed in range(25):
        X, y = drawn(loss, seed)
        model = linear(loss).fit(X[:N], y[:N])
        truth = model._kind.losses(y[N:], model.predict(X[N:])).mean()
        z.append((truth - model.estimated_test_error_) / model.estimated_test_error_stderr_)
        ends = model.predict_interval(X[N:], 0.9)
        covered.append(((ends[:, 0] <= y[N:]) & (y[N:] <= ends[:, 1])).mean())
    assert abs(np.mean(z)) < 3 / 5
    assert np.mean(np.square(z)) < 1 + 3 * np.sqrt(2 / 25)
    assert 0.87 < np.mean(covered) < 0.97


def test_a_single_fit_is_that_of_scikit_learn():
    """Here the ridge is for a sum over rows, counts in units of their mean, and columns by √d."""
    X, y = drawn("poisson", 1)
    X, y = X[:N] / X[:N].std(0), y[:N]
    model = linear("poisson", ridge=3.0, stack=False).fit(X, y)
    other = PoissonRegressor(alpha=3.0 * X.shape[1] * y.mean() / N, tol=1e-12).fit(X - X.mean(0), y)
    smoothed = (N * other.predict(X - X.mean(0)) + y.mean()) / (N + 1)
    clipped = np.abs((X - X.mean(0)) / X.std(0)).max(1) < 5
    np.testing.assert_allclose(model.predict(X)[clipped], smoothed[clipped], rtol=1e-6)


def test_metrics_of_counts():
    X, y = drawn("poisson", 2)
    model = linear("poisson").fit(X[:N], y[:N])
    own = model.corrected_prediction_
    assert model.estimated_test_error_ == pytest.approx(mean_poisson_deviance(y[:N], own), rel=1e-9)
    assert model.estimate("poisson_deviance").interval == model.estimated_test_error_interval_
    assert model.estimate("mse").value == pytest.approx(np.square(own - y[:N]).mean())
    assert model.estimated_r2_ == model.estimate("r2").value


def test_units_of_counts_do_not_matter():
    X, y = drawn("poisson", 3)
    one, ten = (linear("poisson").fit(X[:N], unit * y[:N]) for unit in (1, 10))
    np.testing.assert_allclose(ten.predict(X), 10 * one.predict(X), rtol=1e-9)
    assert ten.estimated_test_error_ == pytest.approx(10 * one.estimated_test_error_)


@pytest.mark.parametrize("loss", ["poisson", "proportion"])
def test_all_members_and_files(loss, tmp_path):
    X, y = drawn(loss, 4)
    members = ["random forest", "boosting", "sparse linear"]
    model = dd.DecoupledRegressor(loss=loss, members=members).fit(X[:N], y[:N])
    names = {one["features"] for one in model.candidates_}
    assert "random forest" in names
    assert ("boosting" in names) == (loss == "poisson")
    assert not any("sparse" in name for name in names)
    path = dd.save_model(model, tmp_path / "model.safetensors")
    loaded, saved = dd.load_model(path), read_model(path)
    ends = model.predict_interval(X)
    assert (loaded.predict(X) == model.predict(X)).all()
    assert (loaded.predict_interval(X) == ends).all()
    np.testing.assert_array_equal(saved.outputs(X)[:, 0], model.predict(X))
    np.testing.assert_array_equal(saved.intervals(X, 0.9), ends)
    assert ends.min() >= 0
    assert loss == "poisson" or ends.max() <= 1


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({"loss": "gamma"}, lambda y: y, "loss='gamma' must be one of squared, poisson"),
        ({"loss": "poisson", "log_target": True}, lambda y: y + 1, "log_target=True is for"),
        ({"loss": "poisson"}, lambda y: y - 1, "y is -1 in row .*for numbers from 0 on"),
        ({"loss": "proportion"}, lambda y: y + 0.5, "for numbers from 0 to 1; use loss='squared'"),
        ({"loss": "poisson"}, lambda y: 0 * y, "y is 0 in every row"),
        ({"loss": "poisson"}, lambda y: np.stack([y, y], 1), "y has 2 columns, but loss='poisson'"),
    ],
)
def test_refusals(options, change, message):
    X, y = drawn("poisson", 5)
    with pytest.raises(ValueError, match=message):
        dd.DecoupledRegressor(**options).fit(X[:N], change(y[:N]))
