"""The regressor: its estimate in the target's units, and what it takes and refuses."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decoupled_descent as dd
from tests.tables.estimators.problems import CHEAP, features, real, several_targets

X, Y = real()
FRESH = features(40, 6, seed=99)


def cheap(**options):
    return dd.DecoupledRegressor(**(CHEAP | options))


def chosen(model):
    (one,) = [candidate for candidate in model.candidates_ if candidate["chosen"]]
    return one


@pytest.mark.parametrize("data", [(X, Y), real(500)], ids=["few", "many"])
def test_the_estimate_is_what_corrected_predictions_give(data):
    X, y = data
    model = dd.DecoupledRegressor(features="linear").fit(X, y)
    result = chosen(model)
    assert result["error"] == model.train_error_curve_.min()
    assert model.estimated_test_error_ == pytest.approx(
        mean_squared_error(y, model.corrected_prediction_), rel=0.02
    )
    assert model.estimated_r2_ == pytest.approx(1 - model.estimated_test_error_ / y.var())
    ratio = model.estimated_r2_stderr_ / model.estimated_test_error_stderr_
    assert ratio == pytest.approx(1 / y.var())


def test_alone_the_estimate_is_the_score_of_corrected_predictions():
    model = cheap().fit(X, Y)
    assert model.estimated_r2_ == pytest.approx(r2_score(Y, model.corrected_prediction_), rel=1e-5)
    assert model.estimated_r2_ < model.score(X, Y)


def test_the_estimate_is_honest():
    """Means of z over 12 draws, whose spread of at most 1.3 leaves them 3 · 1.3/√12 = 1.13."""
    seen = []
    for seed in range(12):
        X, y = real(20_300, d=60, seed=seed)
        model = cheap(random_state=seed).fit(X[:300], y[:300])
        error = mean_squared_error(y[300:], model.predict(X[300:]))
        seen.append((model.estimated_test_error_ - error) / model.estimated_test_error_stderr_)
    assert abs(np.mean(seen)) < 3 * 1.3 / math.sqrt(12)


def test_units_of_the_target():
    one, other = cheap().fit(X, Y), cheap().fit(X, 1000 * Y - 12345)
    for name in ("estimated_test_error_", "estimated_test_error_stderr_"):
        assert getattr(other, name) == pytest.approx(1e6 * getattr(one, name), rel=1e-5)
    assert other.estimated_r2_ == pytest.approx(one.estimated_r2_, rel=1e-5)
    assert other.estimated_r2_stderr_ == pytest.approx(one.estimated_r2_stderr_, rel=1e-5)
    np.testing.assert_allclose(
        other.predict(FRESH), 1000 * one.predict(FRESH) - 12345, rtol=0, atol=0.05
    )
    np.testing.assert_allclose(other.train_error_curve_, 1e6 * one.train_error_curve_, rtol=1e-5)
    assert chosen(other)["error"] == pytest.approx(1e6 * chosen(one)["error"], rel=1e-5)


def test_mirrored_targets_are_predicted_in_mirror_image():
    one, other = cheap().fit(X, Y), cheap().fit(X, -Y)
    np.testing.assert_allclose(one.predict(FRESH), -other.predict(FRESH), atol=1e-4)
    assert one.estimated_test_error_ == pytest.approx(other.estimated_test_error_, rel=1e-5)


def test_the_scale_and_origin_of_columns_do_not_matter():
    rng = np.random.default_rng(1)
    factor, shift = np.exp(rng.normal(size=6) * 4), 100 * rng.normal(size=6)
    one, other = cheap().fit(X, Y), cheap().fit(X * factor + shift, Y)
    np.testing.assert_allclose(one.predict(FRESH), other.predict(FRESH * factor + shift), atol=1e-4)
    assert one.estimated_test_error_ == pytest.approx(other.estimated_test_error_, rel=1e-5)


@pytest.mark.parametrize("kind", [list, np.float32, np.round, pd.Series])
def test_targets_of_any_kind(kind):
    target = kind(Y)
    model = cheap().fit(X, target)
    expected = cheap().fit(X, np.asarray(target, dtype=float))
    np.testing.assert_array_equal(model.predict(FRESH), expected.predict(FRESH))
    assert model.predict(FRESH).dtype == np.float64


def test_pipelines_grids_and_cross_validation():
    pipeline = make_pipeline(StandardScaler(), cheap())
    assert cross_val_score(pipeline, X, Y, cv=3).min() > 0.2
    grid = {"decoupledregressor__ridge": [1.0, 10.0]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, Y)
    assert search.predict(X).shape == (120,)


def test_plot_training():
    model = cheap().fit(X, Y)
    (ax,) = model.plot_training().axes
    np.testing.assert_allclose(ax.lines[0].get_ydata(), model.train_error_curve_)
    assert ax.get_ylabel() == "mean squared error"


@pytest.mark.parametrize("n", range(2, 7))
def test_a_handful_of_rows_is_trained_on_but_not_trusted(n):
    model = dd.DecoupledRegressor(features="linear").fit(X[:n], Y[:n])
    assert math.isfinite(model.estimated_test_error_)
    assert math.isfinite(model.estimated_r2_)
    assert np.isfinite(model.predict(FRESH)).all()
    assert model.diagnostics_.verdict == "do not trust"


def test_a_constant_target_is_predicted_in_its_units():
    model = cheap().fit(X, np.full(120, 5.0))
    np.testing.assert_allclose(model.predict(FRESH), 5, atol=0.1)
    assert model.estimated_test_error_ < 0.01


@pytest.mark.parametrize("constant", [5.0, 0.1, -1e-7, 1e6 / 3])
def test_nothing_of_a_constant_target_is_explained(constant):
    """The mean of 120 times 0.1 is not 0.1, and what is left is no variance."""
    model = cheap().fit(X, np.full(120, constant))
    assert model.target_scale_ == 1
    assert model.estimated_r2_ == model.estimated_r2_stderr_ == 0


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.where(Y > 8, np.nan, Y), r"y has 38 missing value\(s\), the first in row 1; leave"),
        (np.where(Y > 8, np.inf, Y), "y contains infinity"),
        (np.array(["a"] * 120), "could not convert string to float"),
        (Y[1:], "inconsistent numbers of samples"),
    ],
)
def test_targets_that_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        cheap().fit(X, y)


@pytest.mark.parametrize("factor", [1e-163, 1e160])
def test_targets_whose_squares_are_out_of_range(factor):
    with pytest.raises(ValueError, match=r"y has values up to .* multiply y so that"):
        cheap().fit(X, Y * factor)
    assert cheap().fit(X, Y * 1e-60).estimated_r2_ == pytest.approx(cheap().fit(X, Y).estimated_r2_)


FEW = {"features": ["linear", "rbf(1)"]}


def test_several_targets_at_once(tmp_path):
    X, Y = several_targets(3120)
    model = dd.DecoupledRegressor(**FEW).fit(X[:120], Y[:120])
    fresh, truth = model.predict(X[120:]), Y[120:]
    assert fresh.shape == (3000, 3)
    assert model.corrected_prediction_.shape == (120, 3)
    errors = ((fresh - truth) ** 2).mean(1)
    spread = math.hypot(model.estimated_test_error_stderr_, errors.std() / math.sqrt(3000))
    assert abs(model.estimated_test_error_ - errors.mean()) < 3 * spread
    each = r2_score(truth, fresh, multioutput="raw_values")
    assert (np.abs(model.output_r2_ - each) < 3.5 * model.output_r2_stderr_).all()
    assert model.output_r2_[0] > 0.6
    assert abs(model.output_r2_[2]) < 0.2
    assert model.estimated_r2_ == pytest.approx(model.output_r2_.mean())
    again = mean_squared_error(Y[:120], model.corrected_prediction_)
    assert model.estimated_test_error_ == pytest.approx(again, rel=0.1)
    assert model.estimated_test_error_ > again * (1 - 1e-9)
    loaded = dd.load_model(dd.save_model(model, tmp_path / "model.safetensors")).estimator
    np.testing.assert_array_equal(loaded.predict(X[120:]), fresh)
    np.testing.assert_array_equal(loaded.output_r2_, model.output_r2_)
    np.testing.assert_array_equal(
        loaded.predict_interval(X[:5], 0.8), model.predict_interval(X[:5], 0.8)
    )


def test_units_and_order_of_targets_do_not_matter():
    X, Y = several_targets(80)
    one = dd.DecoupledRegressor(**FEW).fit(X, Y)
    other = dd.DecoupledRegressor(**FEW).fit(X, Y[:, ::-1] * 1000 - 5)
    np.testing.assert_allclose(other.predict(FRESH), one.predict(FRESH)[:, ::-1] * 1000 - 5)
    np.testing.assert_allclose(other.output_r2_, one.output_r2_[::-1], atol=1e-10)
    assert other.estimated_test_error_ == pytest.approx(1e6 * one.estimated_test_error_)
    assert other.estimated_test_error_stderr_ == pytest.approx(
        1e6 * one.estimated_test_error_stderr_
    )


def test_a_target_beside_its_copy_is_the_target_alone():
    alone = dd.DecoupledRegressor(**FEW).fit(X, Y)
    twice = dd.DecoupledRegressor(**FEW).fit(X, np.c_[Y, Y])
    np.testing.assert_allclose(twice.predict(FRESH)[:, 1], alone.predict(FRESH), rtol=1e-6)
    assert twice.estimated_test_error_ == pytest.approx(alone.estimated_test_error_, rel=1e-6)
    assert twice.estimated_r2_stderr_ == pytest.approx(alone.estimated_r2_stderr_, rel=0.05)
    np.testing.assert_allclose(alone.output_r2_, [alone.estimated_r2_])


def test_a_constant_target_among_others_has_no_r2():
    model = dd.DecoupledRegressor(**FEW).fit(X, np.c_[Y, np.full(len(Y), 4.0)])
    assert model.output_r2_[1] == model.output_r2_stderr_[1] == 0
    np.testing.assert_allclose(model.predict(FRESH)[:, 1], 4.0)


def test_rows_of_weight_zero_are_judged_as_new_ones():
    weights = np.arange(len(Y)) % 3 > 0
    model = dd.DecoupledRegressor(**FEW).fit(X, Y, sample_weight=weights.astype(float))
    assert model.corrected_prediction_.shape == Y.shape
    absent = model.predict(X[~weights])
    np.testing.assert_allclose(model.corrected_prediction_[~weights], absent)
    assert not np.allclose(model.corrected_prediction_[weights], model.predict(X[weights]))


def skewed(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.exp(3 + 0.5 * X[:, 0] - 0.3 * X[:, 1] + 0.3 * rng.normal(size=n))


def test_the_logarithm_of_the_target():
    """As logarithms by hand; predictions, intervals and errors are in the units of y."""
    X, y = skewed(120, 0)
    model = dd.DecoupledRegressor(features="linear", log_target=True).fit(X, y)
    by_hand = dd.DecoupledRegressor(features="linear").fit(X, np.log(y))
    np.testing.assert_allclose(model.predict(X), np.exp(by_hand.predict(X)), rtol=1e-10)
    left_out = np.exp(by_hand.corrected_prediction_)
    np.testing.assert_allclose(model.corrected_prediction_, left_out, rtol=1e-10)
    ends = np.exp(by_hand.predict_interval(X, 0.8))
    np.testing.assert_allclose(model.predict_interval(X, 0.8), ends, rtol=1e-10)
    optimism = (
        by_hand.estimated_test_error_ / np.square(by_hand.corrected_prediction_ - np.log(y)).mean()
    )
    expected = optimism * np.square(left_out - y).mean()
    assert model.estimated_test_error_ == pytest.approx(expected, rel=1e-7)
    assert model.estimated_r2_ == pytest.approx(1 - expected / y.var(), rel=1e-7)
    model = dd.DecoupledRegressor(features="linear", log_target=True).fit(*skewed(400, 0))
    X_new, y_new = skewed(4000, 1)
    losses = np.square(model.predict(X_new) - y_new)
    noise = np.hypot(model.estimated_test_error_stderr_, losses.std() / 4000**0.5)
    assert abs(losses.mean() - model.estimated_test_error_) < 3 * noise


def test_targets_without_a_logarithm():
    X, y = skewed(30, 0)
    y[7] = 0.0
    with pytest.raises(ValueError, match=r"value 0 \(the first such row is 7\)"):
        dd.DecoupledRegressor(log_target=True).fit(X, y)


def test_intervals_of_training_rows_leave_the_row_out():
    """Against intervals by refits without both rows, for squared loss and fixed linear features."""
    X, y = skewed(40, 2)
    model = dd.DecoupledRegressor(features="linear", ridge=2.0, stack=False).fit(X, y)
    places, ends = model.training_intervals(0.8)
    assert places.tolist() == list(range(40))
    phi = model.mixture_.members[0].features.transform(X).numpy()
    scaled = (y - model.target_mean_) / model.target_scale_

    def fitted(rows):
        J = np.c_[phi, np.ones(40)][rows]
        penalty = np.diag([2.0] * phi.shape[1] + [0.0])
        return np.linalg.solve(J.T @ J + penalty, J.T @ scaled[rows])

    full = np.c_[phi, np.ones(40)]
    without = [fitted(np.arange(40) != j) for j in range(40)]
    complete, residuals = fitted(np.ones(40, bool)), np.empty(40)
    for j in range(40):
        residuals[j] = abs(scaled[j] - full[j] @ without[j])
    for i in (0, 11, 39):
        others = [j for j in range(40) if j != i]
        models = np.array([full[i] @ (without[i] + without[j] - complete) for j in others])
        rank = int(np.ceil(0.8 * 40)) - 1  # of 39 values
        upper = np.sort(models + residuals[others])[rank]
        lower = -np.sort(residuals[others] - models)[rank]
        expected = np.array([lower, upper]) * model.target_scale_ + model.target_mean_
        np.testing.assert_allclose(ends[i], expected, rtol=1e-9)
    held = (ends[:, 0] <= y) & (y <= ends[:, 1])
    assert abs(held.mean() - 0.8) < 3 * (0.8 * 0.2 / 40) ** 0.5


@pytest.mark.parametrize("unit", [1e-60, 1e-30, 1e30, 1e60])
def test_units_of_the_target_do_not_matter(unit):
    options = {"features": "linear", "ridge": 1.0}
    one = dd.DecoupledRegressor(**options).fit(X, Y)
    other = dd.DecoupledRegressor(**options).fit(X, Y * unit)
    assert other.estimated_test_error_ / unit / unit == pytest.approx(
        one.estimated_test_error_, rel=1e-9
    )
    assert other.estimated_test_error_stderr_ / unit / unit == pytest.approx(
        one.estimated_test_error_stderr_, rel=1e-9
    )
    assert chosen(other)["stderr"] / unit / unit == pytest.approx(chosen(one)["stderr"], rel=1e-9)
    assert other.estimated_r2_ == pytest.approx(one.estimated_r2_, rel=1e-9)


def test_two_rows():
    model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit([[0.0], [1.0]], [0.0, 1.0])
    assert math.isfinite(model.estimated_test_error_)
