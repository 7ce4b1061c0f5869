"""Learning curves: the power law, the parts, and whether what is expected comes true."""

import math

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.estimators.learning_curve import (
    _quarters,
    extrapolated,
    learning_curve,
    measured_losses,
)
from tests.estimators.problems import binary, real, several, several_targets

LINEAR = {"features": "linear"}
QUICK = LINEAR | {"ridge": 1.0}


@pytest.mark.parametrize("exponent", [0.4, 0.5, 1.0, 1.2])
def test_a_power_law_is_continued(exponent):
    rows = np.array([100.0, 200.0, 400.0, 800.0])
    errors = 0.2 + 3 * rows**-exponent
    result = extrapolated(errors[None, :3], np.array([2.0, 5.0]))
    assert result[0] == pytest.approx(errors[3] - errors[2], rel=0.03)  # exponents are on a grid


def test_errors_that_do_not_fall_are_not_expected_to():
    assert extrapolated(np.array([[0.4, 0.4, 0.4], [0.3, 0.35, 0.4]]), np.ones(2)).max() == 0
    rising = extrapolated(np.array([[0.5, 0.3, 0.31]]), np.ones(2))
    assert -0.1 < rising[0] <= 0


def test_errors_stay_positive():
    """A steep fall is not continued below zero, and the model's own error is the unit."""
    falls = extrapolated(np.array([[0.9, 0.4, 0.01]]), np.ones(2))
    assert -0.01 < falls[0] < 0
    losses = np.abs(np.array([[0.9], [0.4], [0.01]]) * np.random.default_rng(0).random((3, 80)))
    found = learning_curve(losses, np.arange(80), np.ones(80), (0.003, 0.001), "log loss", 0)
    assert 0 < found.expected < found.errors[2] == pytest.approx(0.003)


def test_parts_are_whole_groups_with_all_classes():
    generator = np.random.default_rng(0)
    codes = np.repeat(np.arange(24), 3)
    strata = codes % 3
    result = _quarters(codes, strata, generator)
    assert np.bincount(result).tolist() == [18] * 4
    for group in range(24):
        assert len(set(result[codes == group])) == 1
    for part in range(4):
        assert set(strata[result == part]) == {0, 1, 2}
    with pytest.raises(ValueError, match="lacks a class; a learning curve needs at least 40 rows"):
        _quarters(codes, (codes < 2).astype(int), generator)
    with pytest.raises(ValueError, match="fewer than 10 rows"):
        _quarters(np.arange(30), np.zeros(30, int), generator)


def test_every_row_is_judged_once_per_size_and_division():
    seen = []

    def judge(rows):
        seen.append(rows)
        return np.full(len(rows), 1 / len(rows))

    losses = measured_losses(judge, np.arange(80), np.zeros(80, int), 3, 0)
    np.testing.assert_allclose(losses, np.repeat([[1 / 20], [1 / 40], [1 / 80]], 80, 1))
    assert sorted(map(len, seen)) == [20] * 12 + [40] * 6 + [80]


def test_the_spread_is_that_of_many_draws():
    """Row losses with known falls and independent noise; 200 draws against the stated spread."""
    rng = np.random.default_rng(1)
    changes, stderrs = [], []
    for _ in range(200):
        losses = np.array([[0.9], [0.6], [0.45]]) + 0.3 * rng.normal(size=(3, 300))
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
    assert table["rows"].tolist() == [20, 40, 80, 160]
    assert table["measured"].tolist() == [True, True, True, False]
    assert table["error"][2] == pytest.approx(model.estimated_test_error_)
    assert table["stderr"][2] == pytest.approx(model.estimated_test_error_stderr_)
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
    assert result.rows[2] == 120
    X, Y = several_targets(60)
    model = dd.DecoupledRegressor(**QUICK).fit(X, Y)
    result = model.learning_curve(X, Y, repeats=1)
    assert result.errors[2] == pytest.approx(model.estimated_test_error_)


def test_curves_that_are_refused():
    X, y = binary(60)
    model = dd.DecoupledClassifier(**QUICK).fit(X, y)
    with pytest.raises(ValueError, match="needs at least 40 rows"):
        model.learning_curve(X[:30], y[:30])
    with pytest.raises(ValueError, match="labels that are not in classes_"):
        model.learning_curve(X, y + 1)
    with pytest.raises(ValueError, match="repeats=0"):
        model.learning_curve(X, y, repeats=0)
    network = dd.DecoupledClassifier(hidden=2, max_iter=5).fit(X, y)
    with pytest.raises(ValueError, match="learning_curve needs method='newton'"):
        network.learning_curve(X, y)
