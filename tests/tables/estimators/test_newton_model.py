"""The estimators trained by the Newton method: defaults, weights, groups, sets and refusals."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.metrics import log_loss
from sklearn.preprocessing import FunctionTransformer

import decoupled_descent as dd
from tests.tables.estimators import problems

FEW = ["linear", "rbf(1)"]
Classifier, Regressor = dd.DecoupledClassifier, dd.DecoupledRegressor


def losses(model, X, y):
    chances = model.predict_proba(X)
    return -np.log(chances[np.arange(len(y)), np.searchsorted(model.classes_, y)])


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_defaults_on_halves_of_real_tables(load):
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    first, second = order[::2], order[1::2]
    model = Classifier().fit(X[first], y[first])
    assert model.score(X[second], y[second]) > 0.93
    fresh = losses(model, X[second], y[second])
    spread = np.hypot(model.estimated_test_error_stderr_, fresh.std() / np.sqrt(len(fresh)))
    assert abs(fresh.mean() - model.estimated_test_error_) < 3 * spread
    right = model.predict(X[second]) == y[second]
    spread = np.hypot(model.estimated_accuracy_stderr_, right.std() / np.sqrt(len(right)))
    assert abs(right.mean() - model.estimated_accuracy_) < 3 * spread
    assert model.corrected_proba_.shape == (len(first), len(set(y)))
    chosen = [one for one in model.candidates_ if one["chosen"]]
    assert len(chosen) == 1
    assert sum(one["share"] for one in model.candidates_) == pytest.approx(1)
    assert model.stop_reason_ == "at the minimum"


def test_defaults_of_regression():
    X, y = load_diabetes(return_X_y=True)
    model = Regressor().fit(X[::2], y[::2])
    truth = model.score(X[1::2], y[1::2])
    assert truth > 0.4
    assert abs(truth - model.estimated_r2_) < 3 * 2**0.5 * model.estimated_r2_stderr_
    again = 1 - np.mean((model.corrected_prediction_ - y[::2]) ** 2) / np.var(y[::2])
    assert model.estimated_r2_ == pytest.approx(again, abs=0.05)


def patients(count, seed, rows=5):
    """Rows of patients who are alike within themselves, and whose labels are mostly their own."""
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(count, 6))
    chance = 1 / (1 + np.exp(-own[:, 0] - 2 * rng.normal(size=count)))
    groups = np.repeat(np.arange(count), rows)
    X = own[groups] + 0.2 * rng.normal(size=(count * rows, 6))
    return X, (rng.random(len(groups)) < chance[groups]).astype(int), groups


def test_groups_make_the_estimate_one_for_new_patients():
    X, y, groups = patients(40, 0)
    fresh, labels, _ = patients(600, 1)
    names = np.array([f"patient {g}" for g in groups])
    plain = Classifier(features=FEW).fit(X, y)
    grouped = Classifier(features=FEW).fit(X, y, groups=names)
    truth = losses(plain, fresh, labels).mean()
    assert plain.estimated_test_error_ < truth - 2 * plain.estimated_test_error_stderr_
    truth = losses(grouped, fresh, labels).mean()
    assert abs(grouped.estimated_test_error_ - truth) < 2 * grouped.estimated_test_error_stderr_
    numbered = Classifier(features=FEW).fit(X, y, groups=groups)
    assert numbered.estimated_test_error_ == pytest.approx(grouped.estimated_test_error_, rel=0.05)


def test_sparse_rows_with_linear_features():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(40, 30)) * (rng.random((40, 30)) < 0.3)
    X = np.concatenate([half, -half])  # sparse columns are not centred: these need not be
    y = (X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=80) > 0).astype(int)
    dense = Classifier(features="linear").fit(X, y)
    sparse = Classifier(features="linear").fit(csr_matrix(X), y)
    np.testing.assert_allclose(
        sparse.predict_proba(csr_matrix(X)), dense.predict_proba(X), atol=1e-6
    )
    np.testing.assert_allclose(
        sparse.predict_proba(X[:5]), sparse.predict_proba(csr_matrix(X[:5])), atol=1e-10
    )
    auto = Classifier().fit(csr_matrix(X), y)
    np.testing.assert_array_equal(auto.predict_proba(X), sparse.predict_proba(X))
    kernels = [Classifier(features="rbf", ridge=0.1).fit(rows, y) for rows in (X, csr_matrix(X))]
    result = [kernel.predict_proba(csr_matrix(X)) for kernel in kernels]
    np.testing.assert_allclose(*result, rtol=1e-8)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_sets_and_intervals_cover_what_they_say(level):
    X, y = problems.several(200)
    fresh, labels = problems.several(2000, seed=1)
    model = Classifier(features=FEW).fit(X, y)
    sets = model.predict_set(fresh, level)
    covered = sets[np.arange(2000), labels].mean()
    allowed = 3 * np.sqrt(level * (1 - level) * (1 / 200 + 1 / 2000))
    assert covered > level - allowed
    assert sets.any(1).all()
    X, y = problems.real(200)
    fresh, labels = real_again(X, y)
    ends = Regressor(features=FEW).fit(X, y).predict_interval(fresh, level)
    covered = ((ends[:, 0] <= labels) & (labels <= ends[:, 1])).mean()
    assert abs(covered - level) < allowed


def real_again(X, y):
    """Fresh rows of ``problems.real``: its teacher is that of more rows with the same seed."""
    rng = np.random.default_rng(0)
    rng.normal(size=X.shape)
    w = rng.normal(size=X.shape[1])
    fresh = np.random.default_rng(5).normal(size=(2000, X.shape[1]))
    noise = np.random.default_rng(6).normal(size=2000)
    return fresh, 3 * np.tanh(fresh @ w / np.linalg.norm(w)) + noise + 7


def test_too_few_rows_for_a_level():
    X, y = problems.real(20)
    ends = Regressor(features="linear", ridge=1.0).fit(X, y).predict_interval(X, 0.99)
    assert np.isinf(ends).all()


def test_flipped_labels_are_suspicious(tmp_path):
    X, y = problems.binary(150, strength=8.0)
    flipped = np.random.default_rng(1).choice(150, 8, replace=False)
    y[flipped] = 1 - y[flipped]
    model = Classifier(features=FEW).fit(X, y)
    order, chances = model.suspicious_rows()
    assert len(set(order[:16]) & set(flipped)) >= 5
    assert (np.diff(chances) >= 0).all()
    assert sorted(order) == list(range(150))
    path = dd.save_model(model, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="does not have its training rows"):
        dd.load_model(path).estimator.suspicious_rows()


def test_suspicious_rows_after_weights_of_zero():
    X, y = problems.binary(120, strength=8.0)
    weights = (np.arange(120) % 3 > 0).astype(float)
    labels = np.where(y, "yes", "no").astype(object)
    labels[0] = "typo"  # of weight zero: a class that the model never saw
    model = Classifier(features=FEW).fit(X, labels, sample_weight=weights)
    order, _ = model.suspicious_rows()
    assert sorted(order) == np.flatnonzero(weights).tolist()
    absent = model.predict_proba(X[weights == 0])
    np.testing.assert_array_equal(model.corrected_proba_[weights == 0], absent)


def test_left_out_probabilities_find_wrong_labels_with_cleanlab():
    """A tenth of the labels is flipped: of those that cleanlab reports, most were."""
    filters = pytest.importorskip("cleanlab.filter")
    result, right, wrong = 0, 0, 0
    for seed in range(3):
        X, y = problems.binary(200, strength=8.0, seed=seed)
        rng = np.random.default_rng(seed)
        flipped = rng.choice(200, 20, replace=False)
        y[flipped] = 1 - y[flipped]
        model = Classifier(features="linear").fit(X, y)
        issues = filters.find_label_issues(y, model.corrected_proba_, n_jobs=1)
        result += int(issues.sum())
        right += int(issues[flipped].sum())
        wrong += 20
    assert result > 0.5 * wrong
    assert right / result > 0.6
    assert right / wrong > 0.6


@pytest.mark.parametrize("task", ["binary", "several", "real"])
def test_models_survive_files(tmp_path, task):
    X, y = getattr(problems, task)(60)
    model = (Regressor if task == "real" else Classifier)(features=FEW).fit(X, y)
    loaded = dd.load_model(dd.save_model(model, tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    if task == "real":
        result = loaded.estimator.predict_interval(X)
        np.testing.assert_array_equal(result, model.predict_interval(X))
    else:
        np.testing.assert_array_equal(loaded.estimator.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(loaded.estimator.predict_set(X), model.predict_set(X))


def test_the_error_is_the_log_loss_of_corrected_probabilities():
    X, y = problems.binary()
    model = Classifier(features="linear", ridge=1.0).fit(X, y)
    assert model.estimated_test_error_ == pytest.approx(log_loss(y, model.corrected_proba_))
    counted = np.mean(model.corrected_proba_.argmax(1) == y)  # without averages over half-samples
    assert abs(model.estimated_accuracy_ - counted) < model.estimated_accuracy_stderr_
    assert len(model.candidates_) == 1
    logits = model.decision_function(X)
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), model.predict_proba(X)[:, 1])


def not_numbers(X):
    return np.log(X * 0 - 1 + 1e-300)


def indefinite(A, B):
    return -(A @ B.T)


def lopsided(A, B):
    return A[:, :1] + 2 * B[:, :1].T


REFUSALS = [
    ({}, {"groups": [None] + ["a", "b"] * 29 + ["a"]}, "groups has 1 missing value"),
    ({}, {"groups": [float("nan"), *range(59)]}, "groups has 1 missing value"),
    ({}, {"groups": [pd.NA, *"ab" * 29, "a"]}, "groups has 1 missing value.*row 0"),
    ({}, {"groups": ["a"] * 60}, "groups has one value only"),
    ({}, {"groups": list(range(60))}, "60 different values for 60 rows; leave it out"),
    ({}, {"groups": [1, 2]}, r"groups has shape \(2,\)"),
    ({}, {"sample_weight": [-1.0] + [1.0] * 59}, r"sample_weight\[0\] is -1"),
    ({}, {"sample_weight": [float("nan")] + [1.0] * 59}, "sample_weight"),
    ({}, {"sample_weight": [0.0] * 60}, "sample_weight is zero for every row"),
    ({}, {"sample_weight": [1.0]}, r"sample_weight has shape \(1,\)"),
    ({"ridge": -1.0}, {}, "ridge=-1.0"),
    ({"features": "splines"}, {}, "features='splines' must be"),
    ({"time_limit": 0}, {}, "time_limit=0 must be a positive number of seconds, or None"),
    ({"time_limit": float("nan")}, {}, "time_limit=nan must be a positive number"),
    ({"time_limit": "5"}, {}, "time_limit='5' must be a positive number"),
    ({"features": FunctionTransformer(not_numbers)}, {}, "NaN or infinite"),
    ({"features": indefinite}, {}, "kernel indefinite is not positive semi-definite"),
    ({"features": lopsided}, {}, "kernel lopsided is not symmetric"),
]


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize(("options", "given", "words"), REFUSALS)
@pytest.mark.parametrize("task", ["binary", "real"])
def test_refusals_are_one_clear_line(task, options, given, words):
    X, y = getattr(problems, task)(60)
    with pytest.raises(ValueError, match=words) as caught:
        (Regressor if task == "real" else Classifier)(**options).fit(X, y, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("task", ["binary", "several", "real"])
def test_a_time_limit_leaves_the_linear_model(task, tmp_path):
    X, y = getattr(problems, task)(60)
    model = (Regressor if task == "real" else Classifier)(time_limit=1e-9).fit(X, y)
    assert {one["features"] for one in model.candidates_} == {"linear"}
    assert {"rbf(1)", "random forest", "more ridges of linear"} <= set(model.skipped_candidates_)
    assert ("naive Bayes" in model.skipped_candidates_) == (task != "real")
    assert np.isfinite(model.estimated_test_error_)
    dd.save_model(model, tmp_path / "model.safetensors")
    again = dd.load_model(tmp_path / "model.safetensors").estimator
    assert again.skipped_candidates_ == model.skipped_candidates_
    assert again.time_limit == 1e-9


def test_a_limit_that_is_not_reached_changes_nothing():
    X, y = problems.binary(60)
    plain, limited = (Classifier(time_limit=one).fit(X, y) for one in (None, 10**6))
    assert plain.skipped_candidates_ == limited.skipped_candidates_ == []
    np.testing.assert_array_equal(plain.predict_proba(X), limited.predict_proba(X))
    assert plain.candidates_ == limited.candidates_
    assert plain.estimated_test_error_interval_ == limited.estimated_test_error_interval_
