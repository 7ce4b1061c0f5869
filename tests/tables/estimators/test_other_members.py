"""Estimators whose mixture has forests: predictions, intervals, files, weights, groups."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import decoupled_descent as dd

LINEAR = {"features": ["linear"], "members": ["extra trees"]}


def steps(n=120, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, size=(n, 4))
    noise = np.random.default_rng(seed + 1).normal(size=n)
    return X, np.sign(X[:, 0] * X[:, 1]) + 0.3 * noise


@pytest.fixture(scope="module")
def regressor():
    return dd.DecoupledRegressor(**LINEAR).fit(*steps())


def test_forests_are_candidates(regressor):
    record = regressor.candidates_[-1]
    assert record["features"] == "extra trees"
    assert record["share"] > 0.5
    assert not record["chosen"]
    assert record["ridge"] is None
    (other,) = regressor.mixture_.others
    assert other.share == record["share"]
    _, y = steps()
    fit = np.square(regressor.corrected_prediction_ - y).mean()
    assert record["error"] < 1.2 * fit


def test_predictions_are_mixed(regressor):
    fresh, _ = steps(9, seed=5)
    mixture = regressor.mixture_
    (linear, *_), (forest,) = mixture.members, mixture.others
    expected = forest.share * forest.model.predict(fresh)[:, 0]
    for one in mixture.members:
        expected += one.share * (one.features.transform(fresh) @ one.theta.T + one.bias)[:, 0]
    expected = expected.numpy() * regressor.target_scale_ + regressor.target_mean_
    np.testing.assert_allclose(regressor.predict(fresh), expected, rtol=1e-12)
    assert linear.share >= 0


def test_intervals_cover(regressor):
    fresh, truth = steps(1000, seed=7)
    ends = regressor.predict_interval(fresh, 0.8)
    covered = ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean()
    assert 0.7 < covered < 0.9  # its standard error, from 120 training rows, is 0.037
    _, y = steps()
    rows, own = regressor.training_intervals(0.8)
    inside = (own[:, 0] <= y[rows]) & (y[rows] <= own[:, 1])
    assert 0.69 < inside.mean() < 0.91


def test_files(regressor, tmp_path):
    again = dd.load_model(dd.save_model(regressor, tmp_path / "m.safetensors")).estimator
    fresh, _ = steps(20, seed=5)
    np.testing.assert_array_equal(again.predict(fresh), regressor.predict(fresh))
    np.testing.assert_array_equal(again.predict_interval(fresh), regressor.predict_interval(fresh))
    assert again.members == ("extra trees",)
    assert again.candidates_[-1]["features"] == "extra trees"


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_with_weights_and_groups(classes, tmp_path):
    X, y = steps(150)
    labels = np.digitize(y, [0.0] if classes == 2 else [-0.9, 0.9])
    model = dd.DecoupledClassifier(**LINEAR, class_weight="balanced")
    model.fit(X, labels, sample_weight=1 + np.arange(150) % 2, groups=np.arange(150) // 2)
    assert model.mixture_.others
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1, rtol=1e-12)
    order, _ = model.suspicious_rows()
    assert sorted(order) == list(range(150))
    again = dd.load_model(dd.save_model(model, tmp_path / "m.safetensors")).estimator
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_several_targets(tmp_path):
    X, y = steps(100)
    model = dd.DecoupledRegressor(**LINEAR).fit(X, np.stack([y, X[:, 2]], 1))
    assert model.predict(X).shape == (100, 2)
    assert model.predict_interval(X[:3]).shape == (3, 2, 2)
    again = dd.load_model(dd.save_model(model, tmp_path / "m.safetensors")).estimator
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_by_default_with_default_features_only():
    X, y = steps(60)
    names = [one["features"] for one in dd.DecoupledClassifier().fit(X, y > 0).candidates_]
    assert {"naive Bayes", "constant"} <= set(names)
    alone = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(X, y)
    assert [one["features"] for one in alone.candidates_] == ["linear"]


def test_the_learning_curve_has_them_too(regressor):
    X, y = steps()
    assert regressor.learning_curve(X, y, repeats=1).expected < np.var(y)


def test_options(regressor):
    assert clone(regressor).members == ["extra trees"]
    X, y = steps(30)
    with pytest.raises(ValueError, match="members="):
        dd.DecoupledRegressor(members="oak").fit(X, y)


def test_selected_columns(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 400)), columns=[f"gene {k}" for k in range(400)])
    y = (X["gene 5"] - X["gene 7"] + 0.2 * rng.normal(size=60) > 0).to_numpy()
    model = dd.DecoupledClassifier(features="linear", members=["sparse linear"]).fit(X, y)
    first, second = model.selected_columns_[:2]
    assert {first["column"], second["column"]} == {"gene 5", "gene 7"}
    assert first["stays_selected"] == 1
    assert len(first["coefficients"]) == 1
    again = dd.load_model(dd.save_model(model, tmp_path / "m.safetensors")).estimator
    assert again.selected_columns_ == model.selected_columns_
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y).selected_columns_ == []


def test_intervals_of_a_sparse_model(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100, 300))
    y = X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=100)
    fresh = rng.normal(size=(1000, 300))
    truth = fresh[:, 0] - fresh[:, 1] + 0.5 * rng.normal(size=1000)
    model = dd.DecoupledRegressor(features="linear", members=["sparse linear"]).fit(X, y)
    ends = model.predict_interval(fresh, 0.8)
    assert 0.68 < ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean() < 0.92
    again = dd.load_model(dd.save_model(model, tmp_path / "m.safetensors")).estimator
    np.testing.assert_allclose(again.predict_interval(fresh[:9], 0.8), ends[:9], rtol=1e-13)
