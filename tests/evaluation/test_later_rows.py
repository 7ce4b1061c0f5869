"""Models of the past on later rows, against an expanding window by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decoupled_descent as dd


def drifting(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X, t = rng.normal(size=(n, 3)), np.arange(n)
    return X, X[:, 0] + 3 * np.sin(9 * t / n) + 0.5 * rng.normal(size=n), t


def test_pieces_are_predicted_by_models_of_the_past():
    X, y, t = drifting()
    order = np.random.default_rng(1).permutation(len(t))
    model = make_pipeline(StandardScaler(), Ridge()).fit(X[order], y[order])
    found = dd.evaluate(model, X[order], y[order], time=t[order])
    expected = []
    for start in range(100, 200, 20):
        past, piece = slice(0, start), slice(start, start + 20)
        alone = make_pipeline(StandardScaler(), Ridge()).fit(X[past], y[past])
        expected.append(np.square(alone.predict(X[piece]) - y[piece]).mean())
    np.testing.assert_allclose([one.error for one in found.by_period], expected, rtol=1e-9)
    assert (found.how, found.refits, len(found.labels)) == ("later rows", 5, 100)
    assert found.stderr > 2 * dd.evaluate(model, X[order], y[order]).stderr


def test_classes_groups_and_dates():
    X, y, t = drifting()
    labels = np.where(y > 0, "high", "low")
    days = np.datetime64("2024-01-01") + t
    model = LogisticRegression().fit(X, labels)
    found = dd.evaluate(model, X, labels, time=days)
    assert found.error == dd.evaluate(model, X, labels, time=t).error
    assert 0 <= found.estimate("auc").interval[0] <= found.estimate("auc").interval[1] <= 1
    groups = np.tile(np.arange(20), 10)  # all of them occur in each piece of 20 rows
    with pytest.raises(ValueError, match="the same groups; leave out time"):
        dd.evaluate(model, X, labels, groups=groups, time=t)


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (np.arange(10), "time has shape"),
        (["soon"] * 200, "pass numbers or dates"),
        (np.full(200, np.nan), "no value in row 0"),
    ],
)
def test_bad_times(time, words):
    X, y, _ = drifting()
    with pytest.raises(ValueError, match=words):
        dd.evaluate(Ridge().fit(X, y), X, y, time=time)


def test_errors_of_later_rows_are_not_negative():
    """Few periods that differ give wide intervals; none of these errors can be below 0."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 3))
        y = X[:, 0] + rng.normal(size=60) * np.exp(0.8 * rng.normal(size=60))
        found = dd.evaluate(Ridge().fit(X, y), X, y, time=np.arange(60))
        for metric in ("mse", "rmse", "mae", "median_absolute_error"):
            assert found.estimate(metric).interval[0] >= 0


def test_times_with_a_zone_are_those_of_utc():
    X, y, _ = drifting()
    model = Ridge().fit(X, y)
    days = pd.Series(pd.date_range("2024-01-01", periods=len(y), freq="D"))
    plain = dd.evaluate(model, X, y, time=days)
    zoned = dd.evaluate(model, X, y, time=days.dt.tz_localize("Europe/Berlin"))
    assert zoned.error == plain.error


def test_periods_without_weight_do_not_count():
    X, y, t = drifting()
    weights = np.ones(len(y))
    weights[120:140] = 0
    model = Ridge().fit(X, y, sample_weight=weights)
    assert len(dd.evaluate(model, X, y, weights, time=t).by_period) == 4
    with pytest.raises(ValueError, match="no weight"):
        dd.evaluate(model, X, y, np.r_[np.ones(100), np.zeros(100)], time=t)
