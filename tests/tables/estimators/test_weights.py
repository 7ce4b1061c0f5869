"""Sample weights and class weights: the model, its estimate, and balanced classes."""

import numpy as np
import pytest

import decoupled_descent as dd
from tests.tables.estimators import problems

FEW = ["linear", "rbf(1)"]
Classifier, Regressor = dd.DecoupledClassifier, dd.DecoupledRegressor


@pytest.mark.parametrize("classes", [2, 3])
def test_sample_weights_are_repetitions(classes):
    X, y = problems.binary(60) if classes == 2 else problems.several(60)
    y[::7] = 0  # noise, so that the best ridge is well away from zero
    weights = 1 + np.arange(60) % 3
    copies = np.repeat(np.arange(60), weights)
    options = {"features": "linear", "ridge": 1.0}
    once = Classifier(**options).fit(X, y, sample_weight=weights)
    often = Classifier(**options).fit(X[copies], y[copies], groups=copies)
    np.testing.assert_allclose(once.predict_proba(X), often.predict_proba(X), atol=1e-8)
    assert once.estimated_accuracy_ == pytest.approx(often.estimated_accuracy_, abs=0.02)
    assert once.estimated_test_error_ == pytest.approx(often.estimated_test_error_, rel=0.02)


def test_copies_of_a_row_train_the_same_model_but_are_other_rows():
    """The same parameters. Only the bound on probabilities knows that there are more rows."""
    X, y = problems.binary(60)
    options = {"features": "linear", "ridge": 1.0}
    weighted, copied = (
        Classifier(**options).fit(*rows, **extra)
        for rows, extra in (
            ((X, y), {"sample_weight": np.full(60, 2.0)}),
            ((np.repeat(X, 2, 0), np.repeat(y, 2)), {}),
        )
    )
    (one,), (other,) = (model.mixture_.members for model in (weighted, copied))
    np.testing.assert_allclose(one.theta, other.theta, atol=1e-8)
    np.testing.assert_allclose(one.bias, other.bias, atol=1e-8)
    assert copied.estimated_test_error_ < weighted.estimated_test_error_


@pytest.mark.parametrize("kind", ["constant", "lognormal", "counts"])
def test_weights_do_not_make_the_estimate_too_low(kind):
    """Each row is left out with all of its weight, or the model would remember what remains."""
    misses = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(2080, 6)), rng.integers(0, 2, 2080)
        X[:, 0] += 1.2 * (y - 0.5)
        weights = {
            "constant": np.full(80, 2.0),
            "lognormal": np.exp(rng.normal(size=80) - 0.5),
            "counts": rng.integers(1, 4, 80).astype(float),
        }[kind]
        model = Classifier(features=FEW).fit(X[:80], y[:80], sample_weight=weights)
        chances = model.predict_proba(X[80:])[np.arange(2000), y[80:]]
        miss = model.estimated_test_error_ + np.log(chances).mean()
        misses.append(miss / model.estimated_test_error_stderr_)
    assert abs(np.mean(misses)) < 3 / np.sqrt(6)  # three standard errors of the mean of six


@pytest.mark.parametrize("kind", [Classifier, Regressor])
@pytest.mark.parametrize("weight", [0.5, 3.0, 1e-300, 1e300])
def test_a_constant_weight_changes_only_the_scale_of_the_ridge(weight, kind):
    X, y = problems.binary(60)
    plain = kind(features=FEW).fit(X, y)
    model = kind(features=FEW).fit(X, y, sample_weight=np.full(60, weight))
    for name in ("estimated_test_error_", "estimated_test_error_stderr_"):
        assert getattr(model, name) == pytest.approx(getattr(plain, name), rel=1e-5)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-5)
    np.testing.assert_allclose(model.ridges_, weight * plain.ridges_, rtol=1e-9)
    fixed = kind(features="linear", ridge=2 * weight).fit(X, y, sample_weight=np.full(60, weight))
    same = kind(features="linear", ridge=2.0).fit(X, y)
    np.testing.assert_allclose(fixed.predict(X), same.predict(X), atol=1e-6)


def test_a_weight_that_is_not_finite_is_named():
    X, y = problems.binary(60)
    weights = np.ones(60)
    weights[7] = np.inf
    with pytest.raises(ValueError, match=r"sample_weight\[7\] is inf"):
        Classifier().fit(X, y, sample_weight=weights)


def test_balanced_classes_without_signal_are_predicted_by_chance():
    """40 + 40 rows: leaving a row out must not make its class the rarer one."""
    hits = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(80, 5)), np.repeat([0, 1], 40)
        hits.append(Classifier(features=FEW).fit(X, y).estimated_accuracy_)
    # the accuracy of one draw has a standard error of at most 0.5/√80, and a choice adds optimism
    assert abs(np.mean(hits) - 0.5) < 3 * 0.5 / np.sqrt(800)


def test_sample_weights_of_regression_are_repetitions():
    X, y = problems.real(60)
    weights = 1 + np.arange(60) % 3
    copies = np.repeat(np.arange(60), weights)
    options = {"features": FEW, "stack": False}  # folds of a mixture are drawn among the rows
    once = Regressor(**options).fit(X, y, sample_weight=weights)
    often = Regressor(**options).fit(X[copies], y[copies], groups=copies)
    ridges = [[one["ridge"] for one in model.candidates_] for model in (once, often)]
    np.testing.assert_allclose(*ridges)
    np.testing.assert_allclose(
        once.corrected_prediction_[copies],
        often.corrected_prediction_,
        rtol=0.02,
        atol=0.02 * y.std(),
    )


def test_rows_of_weight_zero_are_absent():
    X, y = problems.binary(80)
    weights = (np.arange(80) % 4 != 0).astype(float)
    kept = weights > 0
    y = np.where(kept, y, 7)  # a class of their own that must not appear
    with_zeros = Classifier(features=FEW).fit(X, y, sample_weight=weights)
    without = Classifier(features=FEW).fit(X[kept], y[kept], sample_weight=weights[kept])
    assert with_zeros.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(with_zeros.predict_proba(X), without.predict_proba(X))
    plain = Classifier(features=FEW).fit(X[kept], y[kept])
    np.testing.assert_allclose(plain.predict_proba(X), without.predict_proba(X), atol=1e-8)
    assert plain.estimated_test_error_ == pytest.approx(without.estimated_test_error_)


def test_balanced_class_weights_raise_the_rare_class():
    rng = np.random.default_rng(0)
    y = (np.arange(200) < 20).astype(int)
    X = rng.normal(size=(200, 3)) + y[:, None]
    plain = Classifier(features="linear").fit(X, y)
    balanced = Classifier(features="linear", class_weight="balanced").fit(X, y)
    assert balanced.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1
    assert (balanced.predict(X)[y == 1] == 1).mean() > (plain.predict(X)[y == 1] == 1).mean()
    given = Classifier(features="linear", class_weight={0: 200 / 360, 1: 5.0}).fit(X, y)
    np.testing.assert_allclose(given.predict_proba(X), balanced.predict_proba(X), atol=1e-10)
