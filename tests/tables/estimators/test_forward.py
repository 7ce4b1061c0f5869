"""The error on later rows, against an expanding window by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import decoupled_descent as dd
from decoupled_descent.evaluation.forecast import next_mean


def drifting(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    t = np.linspace(0, 1, n)
    return X, X[:, 0] + 3 * np.sin(9 * t) + 0.5 * rng.normal(size=n), t


def regressor():
    return dd.DecoupledRegressor(features="linear", ridge=1.0)


def test_pieces_are_predicted_by_models_of_the_past():
    X, y, t = drifting()
    order = np.random.default_rng(1).permutation(len(t))
    model = regressor().fit(X[order], y[order], time=t[order])
    errors = []
    for start in range(100, 200, 20):
        past, piece = slice(0, start), slice(start, start + 20)
        predicted = regressor().fit(X[past], y[past]).predict(X[piece])
        errors.append(np.square(predicted - y[piece]).mean())
    found = [one.error for one in model.time_estimate_.pieces]
    np.testing.assert_allclose(found, errors, rtol=1e-9)
    assert model.estimated_test_error_ == model.time_estimate_.error.value
    assert model.estimated_r2_ == model.time_estimate_.score.value
    assert model.time_estimate_.table()["rows_before"].tolist() == [100, 120, 140, 160, 180]
    np.testing.assert_allclose(model.predict(X), regressor().fit(X, y).predict(X))


def test_plain_estimates_are_as_before():
    X, y, t = drifting()
    model = regressor().fit(X, y, time=t)
    plain = regressor().fit(X, y)
    assert model.estimated_test_error_stderr_ > 2 * plain.estimated_test_error_stderr_
    model.fit(X, y)
    assert model.time_estimate_ is None
    assert model.estimated_test_error_ == regressor().fit(X, y).estimated_test_error_


def test_classes_that_the_past_has_not_seen():
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(100, 2)), np.arange(100)
    y = np.where(X[:, 0] > 0, "a", "b").astype(object)
    y[85::3] = "c"
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y, time=t)
    pieces = model.time_estimate_.pieces
    assert len(pieces) == 5
    assert np.isfinite([one.error for one in pieces]).all()
    assert pieces[3].error > pieces[0].error  # "c" is new there
    assert 0 <= model.estimated_accuracy_interval_[0] <= model.estimated_accuracy_interval_[1] <= 1


def test_a_past_of_one_class():
    X, t = np.random.default_rng(0).normal(size=(100, 2)), np.arange(100)
    y = (t > 95).astype(int)
    with pytest.raises(ValueError, match="one class only, or the same groups"):
        dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y, time=t)


def test_groups_and_weights():
    X, y, t = drifting()
    weights = np.ones(200)
    weights[150:160] = 0
    groups = np.tile(np.arange(20), 10)  # all of them occur in each piece of 20 rows
    with pytest.raises(ValueError, match="the same groups; leave out time"):
        regressor().fit(X, y, sample_weight=weights, groups=groups, time=t)


def test_weights_alone():
    X, y, t = drifting()
    weights = np.ones(200)
    weights[150:160] = 0
    model = regressor().fit(X, y, sample_weight=weights, time=t)
    assert [one.rows for one in model.time_estimate_.pieces] == [20, 20, 10, 20, 20]


def test_a_column_of_a_raw_table():
    X, y, _ = drifting()
    table = pd.DataFrame(X, columns=list("abc"))
    table["day"] = pd.date_range("2024-01-01", periods=200)
    model = regressor().fit(table, y, time="day")
    assert model.time_estimate_.pieces[0].start == "2024-04-10"
    with pytest.raises(ValueError, match="one target"):
        regressor().fit(X, np.column_stack([y, y]), time=table["day"])


def test_all_metrics_are_for_later_rows():
    """A metric of the next piece is forecast from that of each piece, as the error is."""
    rng = np.random.default_rng(3)
    X, t = rng.normal(size=(300, 3)), np.arange(300)
    y = (X[:, 0] + 0.5 * rng.normal(size=300) > 0).astype(int)
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y, time=t)
    assert model.evaluation_.how == "later rows"
    assert len(model.evaluation_.labels) == 150
    each = []
    for start in range(150, 300, 30):
        past, piece = slice(0, start), slice(start, start + 30)
        alone = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X[past], y[past])
        each.append(roc_auc_score(y[piece], alone.predict_proba(X[piece])[:, 1]))
    found = [one.estimate("auc") for one in model.evaluation_.by_period]
    np.testing.assert_allclose([one.value for one in found], each, rtol=1e-12)
    expected = next_mean(np.array(each), np.array([one.stderr for one in found]))
    assert model.estimate("auc").value == pytest.approx(min(1.0, expected.value))
    assert model.estimate("auc").stderr == pytest.approx(expected.stderr)
    for metric in ("sensitivity", "specificity", "brier", "f1"):
        estimate = model.estimate(metric)
        assert 0 <= estimate.interval[0] < estimate.interval[1] <= 1


def test_labels_that_turn_round_with_time_are_seen_by_every_metric():
    """The labels of the later half follow the opposite rule: a model of the past is wrong."""
    rng = np.random.default_rng(4)
    X, t = rng.normal(size=(200, 2)), np.arange(200)
    y = np.where(t < 100, X[:, 0] > 0, X[:, 0] < 0).astype(int)
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y, time=t)
    first = model.evaluation_.by_period[0]
    assert first.estimate("auc").value < 0.1
    assert first.estimate("sensitivity").value < 0.2
