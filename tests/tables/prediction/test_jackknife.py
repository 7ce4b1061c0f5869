"""Prediction intervals: literal refits, coverage, memory, files."""

import math

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.tables.estimators import left_out_rows
from decoupled_descent.tables.prediction import jackknife
from decoupled_descent.tables.prediction.jackknife import quantiles
from tests.oracles.jackknife import jackknife_plus, left_out_models
from tests.tables.estimators.problems import binary, features, real, several, several_targets

FEW = {"features": ["linear", "rbf(1)"]}
FRESH = features(7, 6, seed=5)


def literal(model, X, y, level, weights=None, groups=None):
    """Intervals by refits of all members on their features."""
    members = model.mixture_.members
    y = y.reshape(len(y), -1)
    scaled = (y - model.target_mean_) / model.target_scale_
    phi = [member.features.transform(X).numpy() for member in members]
    new = [member.features.transform(FRESH).numpy() for member in members]
    ridges, shares = [one.ridge for one in members], [one.share for one in members]
    own, others = left_out_models(phi, scaled, ridges, shares, new, weights, groups)
    ends = jackknife_plus(own, others, scaled, level)
    scale, mean = (np.reshape(v, (-1, 1)) for v in (model.target_scale_, model.target_mean_))
    return ends * scale + mean


@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
def test_intervals_are_those_of_literal_refits(level):
    X, y = real(40)
    model = dd.DecoupledRegressor(**FEW).fit(X, y)
    assert len(model.mixture_.members) > 1
    expected = literal(model, X, y, level)[:, 0]
    result = model.predict_interval(FRESH, level)
    assert result.shape == (7, 2)
    np.testing.assert_allclose(result, expected, rtol=1e-8, atol=1e-8 * y.std())


def test_several_targets_and_blocks_of_new_rows(monkeypatch):
    X, Y = several_targets(30)
    model = dd.DecoupledRegressor(**FEW).fit(X, Y)
    complete = model.predict_interval(FRESH, 0.8)
    assert complete.shape == (7, 3, 2)
    np.testing.assert_allclose(complete, literal(model, X, Y, 0.8), rtol=1e-8, atol=1e-7)
    monkeypatch.setattr(jackknife, "NUMBERS", 2 * 90)  # two new rows at a time
    np.testing.assert_allclose(model.predict_interval(FRESH, 0.8), complete, rtol=1e-12)


def test_whole_groups_are_left_out():
    X, y = real(40)
    groups = np.arange(40) // 4
    model = dd.DecoupledRegressor(**FEW).fit(X, y, groups=groups)
    expected = literal(model, X, y, 0.8, groups=groups)[:, 0]
    np.testing.assert_allclose(model.predict_interval(FRESH, 0.8), expected, rtol=1e-8, atol=1e-8)


def test_a_weighted_row_is_left_out_with_all_of_its_weight():
    X, y = real(40)
    weights = np.full(40, 2.0)
    model = dd.DecoupledRegressor(**FEW).fit(X, y, sample_weight=weights)
    expected = literal(model, X, y, 0.8, weights / 4)[:, 0]  # as they are scaled in training
    np.testing.assert_allclose(model.predict_interval(FRESH, 0.8), expected, rtol=1e-8, atol=1e-8)


def test_quantiles_count_weights():
    """A value of weight 2 among others is the value twice, but for the added infinity."""
    values = np.array([[[3.0], [1.0], [2.0]]])
    ones = np.ones(3)
    result = [quantiles(values, ones, level).item() for level in (0.25, 0.5, 0.75, 0.76)]
    assert result == [1.0, 2.0, 3.0, math.inf]
    weights = np.array([1.0, 2.0, 1.0])
    twice = np.array([[[3.0], [1.0], [1.0], [2.0]]])
    for level in (0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        assert quantiles(values, weights, level) == quantiles(twice, np.ones(4), level)


def test_the_quantile_is_the_smallest_value_with_enough_weight():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(4, 11, 1)), rng.uniform(0.5, 2, 11)
    for level in (0.3, 0.8, 0.97):
        for row, found in zip(values[:, :, 0], quantiles(values, weights, level), strict=True):
            limit = level * (weights.sum() + 1)
            enough = [v for v in row if weights[row <= v].sum() >= limit - 1e-9]
            assert found == min(enough, default=math.inf)


@pytest.mark.parametrize("n", [25, 60])
def test_coverage_on_drawn_data(n):
    """Mean coverage over draws; each has an error of √(level (1 − level)/n) beside its own rows."""
    level, draws, fresh = 0.8, 25, 400
    covered = []
    for seed in range(draws):
        X, y = real(n + fresh, seed=seed)
        model = dd.DecoupledRegressor(features=["linear", "rbf(2)"]).fit(X[:n], y[:n])
        ends = model.predict_interval(X[n:], level)
        covered.append(((ends[:, 0] <= y[n:]) & (y[n:] <= ends[:, 1])).mean())
    stderr = math.sqrt(level * (1 - level) * (1 / n + 1 / fresh) / draws)
    assert abs(np.mean(covered) - level) < 3 * stderr + 1 / (n + 1)  # levels are multiples of it


@pytest.mark.parametrize("data", [binary, several], ids=["two", "three"])
def test_coverage_of_sets(data):
    """A little more than the level is held: the most probable class is in every set."""
    level, n, draws, fresh = 0.8, 60, 16, 400
    covered = []
    for seed in range(draws):
        X, y = data(n + fresh, seed=seed)
        model = dd.DecoupledClassifier(features="rbf(2)", ridge=0.3).fit(X[:n], y[:n])
        sets = model.predict_set(X[n:], level)
        covered.append(sets[np.arange(fresh), y[n:]].mean())
    stderr = math.sqrt(level * (1 - level) * (1 / n + 1 / fresh) / draws)
    assert np.mean(covered) > level - 3 * stderr


def test_of_many_rows_some_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(left_out_rows, "MOST", 50)
    X, y = real(400)
    model = dd.DecoupledRegressor(features="linear").fit(X, y)
    assert model._jackknife.residuals.shape == (50, 1)
    ends = model.predict_interval(X, 0.8)
    held = ((ends[:, 0] <= y) & (y <= ends[:, 1])).mean()
    assert abs(held - 0.8) < 3 * math.sqrt(0.16 / 50)
    grouped = dd.DecoupledRegressor(features="linear").fit(X, y, groups=np.arange(400) // 8)
    assert len(grouped._jackknife.residuals) == 48  # whole groups
    loaded = dd.load_model(dd.save_model(grouped, tmp_path / "m")).estimator
    np.testing.assert_array_equal(
        loaded.predict_interval(FRESH, 0.7), grouped.predict_interval(FRESH, 0.7)
    )
