"""Learning curves: the power law, the parts, and whether what is expected comes true."""

import math

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.tables.estimators.learning_curve import (
    KEPT,
    extrapolated,
    learning_curve,
    measured_losses,
    random_quarters,
)
from decoupled_descent.tables.search.search import search_models
from tests.tables.estimators.problems import binary, real, several, several_targets

LINEAR = {"features": "linear"}
QUICK = LINEAR | {"ridge": 1.0}


@pytest.mark.parametrize("exponent", [0.4, 0.5, 1.0, 1.2])
def test_a_power_law_is_continued(exponent):
    rows = np.array([100.0, 200.0, 300.0, 400.0, 800.0])
    errors = 0.2 + 3 * rows**-exponent
    result = extrapolated(errors[None, :4], np.array([2.0, 5.0, 8.0]))
    assert result[0] == pytest.approx(errors[4] - errors[3], rel=0.03)  # exponents are on a grid


def test_errors_that_do_not_fall_are_not_expected_to():
    flat = np.array([[0.4, 0.4, 0.4, 0.4], [0.3, 0.35, 0.38, 0.4]])
    assert extrapolated(flat, np.ones(3)).max() == 0
    rising = extrapolated(np.array([[0.5, 0.3, 0.3, 0.31]]), np.ones(3))
    assert -0.1 < rising[0] <= 0


def test_errors_stay_positive():
    """A steep fall is not continued below zero, and the model's own error is the unit."""
    falls = extrapolated(np.array([[0.9, 0.4, 0.1, 0.01]]), np.ones(3))
    assert -0.01 < falls[0] < 0
    levels = np.array([[0.9], [0.4], [0.1], [0.01]])
    losses = np.abs(levels * np.random.default_rng(0).random((4, 80)))
    found = learning_curve(losses, np.arange(80), np.ones(80), (0.003, 0.001), "log loss", 0)
    assert 0 < found.expected < found.errors[3] == pytest.approx(0.003)


def test_parts_are_whole_groups_with_all_classes():
    generator = np.random.default_rng(0)
    codes = np.repeat(np.arange(24), 3)
    strata = codes % 3
    result = random_quarters(codes, strata, generator)
    assert np.bincount(result).tolist() == [18] * 4
    for group in range(24):
        assert len(set(result[codes == group])) == 1
    for part in range(4):
        assert set(strata[result == part]) == {0, 1, 2}
    with pytest.raises(ValueError, match="lacks a class; a learning curve needs at least 40 rows"):
        random_quarters(codes, (codes < 2).astype(int), generator)
    with pytest.raises(ValueError, match="fewer than 10 rows"):
        random_quarters(np.arange(30), np.zeros(30, int), generator)


def test_errors_are_those_of_literal_refits():
    """Squared loss, one ridge: models of one, two and three quarters that are fitted alone."""
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.normal(size=(80, 12)))
    y = X @ torch.from_numpy(rng.normal(size=12)) + torch.from_numpy(rng.normal(size=80))
    result = search_models(X, y, "squared", features="linear", ridge=2.0)
    phi = result.fits[0].rows.X.numpy()
    divisions = [random_quarters(np.arange(80), np.zeros(80, int), rng) for _ in range(2)]
    found = measured_losses(result, lambda p: (p[:, 0] - y).square(), divisions, True)
    expected = [[[] for _ in range(80)] for _ in range(3)]
    for place, kept in enumerate(KEPT):
        for quarters in divisions:
            for one in kept:
                own = np.isin(quarters, one)
                predicted = ridge(phi[own], y.numpy()[own], 2.0, phi)
                for i in np.flatnonzero(~own):
                    expected[place][i].append((predicted[i] - float(y[i])) ** 2)
    assert [{len(row) for row in rows} for rows in expected] == [{6}, {2}, {2}]
    literal = [[np.mean(row) for row in rows] for rows in expected]
    np.testing.assert_allclose(found[:3], literal, rtol=1e-10, atol=1e-10)


def ridge(X, y, penalty, new):
    """Predictions of new rows by ridge regression with an intercept, by normal equations."""
    centre, level = X.mean(0), y.mean()
    system = (X - centre).T @ (X - centre) + penalty * np.eye(X.shape[1])
    return level + (new - centre) @ np.linalg.solve(system, (X - centre).T @ (y - level))


def test_the_spread_is_that_of_many_draws():
    """Row losses with known falls and independent noise; 200 draws against the stated spread."""
    rng = np.random.default_rng(1)
    changes, stderrs = [], []
    for _ in range(200):
        losses = np.array([[0.9], [0.6], [0.5], [0.45]]) + 0.3 * rng.normal(size=(4, 300))
        result = learning_curve(losses, np.arange(300), np.ones(300), (0.45, 0.0), "error", 0)
        changes.append(result.change)
        stderrs.append(result.change_stderr)
    spread = np.std(changes, ddof=1)
    assert np.mean(stderrs) == pytest.approx(spread, rel=0.25)
    assert np.mean(changes) == pytest.approx(-0.075, abs=3 * spread / math.sqrt(200) + 0.01)


def fresh_error(model, X, y):
    if isinstance(model, dd.DecoupledRegressor):
        return float(np.mean((model.predict(X) - y) ** 2))
    return float(-np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean())


@pytest.mark.parametrize(
    ("kind", "data"),
    [(dd.DecoupledClassifier, binary), (dd.DecoupledRegressor, real)],
    ids=["classes", "numbers"],
)
def test_what_is_expected_of_twice_the_rows_comes_true(kind, data):
    """Mean z over four draws of 80 rows in 20 columns, for the error and for its change."""
    errors, changes = [], []
    for seed in range(4):
        X, y = data(4000, d=20, seed=seed)
        model = kind(**QUICK).fit(X[:80], y[:80])
        result = model.learning_curve(X[:80], y[:80], repeats=1)
        twice = fresh_error(kind(**QUICK).fit(X[:160], y[:160]), X[160:], y[160:])
        now = fresh_error(model, X[160:], y[160:])
        errors.append((result.expected - twice) / result.stderrs[-1])
        changes.append((result.change - (twice - now)) / result.change_stderr)
    bound = 3 * 1.3 / math.sqrt(4)
    assert abs(np.mean(errors)) < bound
    assert abs(np.mean(changes)) < bound


def test_the_curve_as_table_sentence_and_picture():
    X, y = binary(80)
    model = dd.DecoupledClassifier(**QUICK).fit(X, y)
    result = model.learning_curve(X, y, repeats=1)
    table = result.table
    assert table["rows"].tolist() == [20, 40, 60, 80, 160]
    assert table["measured"].tolist() == [True, True, True, True, False]
    assert table["error"][3] == pytest.approx(model.estimated_test_error_)
    assert table["stderr"][3] == pytest.approx(model.estimated_test_error_stderr_)
    assert result.interval[0] < result.expected < result.interval[1]
    assert str(result).startswith("with 160 rows instead of 80, expect a log loss of ")
    (axes,) = result.plot().axes
    assert axes.get_ylabel() == "log loss"
    again = model.learning_curve(X, y, repeats=1)
    assert again == result


def test_weights_groups_and_several_targets():
    X, y = several(120)
    weights, groups = 1.0 + np.arange(120) % 2, np.arange(120) // 2
    model = dd.DecoupledClassifier(**QUICK, class_weight="balanced")
    model.fit(X, y, sample_weight=weights, groups=groups)
    result = model.learning_curve(X, y, weights, groups, repeats=1)
    assert result.rows[3] == 120
    X, Y = several_targets(60)
    model = dd.DecoupledRegressor(**QUICK).fit(X, Y)
    result = model.learning_curve(X, Y, repeats=1)
    assert result.errors[3] == pytest.approx(model.estimated_test_error_)


def test_curves_that_are_refused():
    X, y = binary(60)
    model = dd.DecoupledClassifier(**QUICK).fit(X, y)
    with pytest.raises(ValueError, match="needs at least 40 rows"):
        model.learning_curve(X[:30], y[:30])
    with pytest.raises(ValueError, match="labels that are not in classes_"):
        model.learning_curve(X, y + 1)
    with pytest.raises(ValueError, match="repeats=0"):
        model.learning_curve(X, y, repeats=0)
