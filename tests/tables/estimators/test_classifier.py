"""The classifier: its estimate, its labels and its symmetries."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

import decoupled_descent as dd
from tests.tables.estimators.problems import CHEAP, binary, features, several

X, Y = binary()
X3, Y3 = several()
FRESH = features(40, 6, seed=99)


def cheap(**options):
    return dd.DecoupledClassifier(**(CHEAP | options))


def chosen(model):
    (one,) = [candidate for candidate in model.candidates_ if candidate["chosen"]]
    return one


@pytest.mark.parametrize("data", [(X, Y), (X3, Y3), binary(500)], ids=["two", "three", "many"])
def test_the_estimate_is_what_corrected_probabilities_give(data):
    X, y = data
    model = dd.DecoupledClassifier(features="linear").fit(X, y)
    assert model.corrected_proba_.shape == (len(X), len(set(y)))
    np.testing.assert_allclose(model.corrected_proba_.sum(1), 1)
    losses = -np.log(model.corrected_proba_[np.arange(len(y)), y])
    assert losses.mean() == pytest.approx(log_loss(y, model.corrected_proba_))
    result = chosen(model)
    assert result["error"] == model.train_error_curve_.min()
    assert result["error"] == min(candidate["error"] for candidate in model.candidates_)
    assert model.estimated_test_error_ == pytest.approx(losses.mean(), rel=0.02)
    right = model.corrected_proba_.argmax(1) == y
    assert model.estimated_accuracy_ == pytest.approx(right.mean(), abs=3 / len(y))


def test_the_accuracy_is_never_certain():
    rows = np.r_[np.full((40, 2), -3.0), np.full((40, 2), 3.0)] + features(80, 2, seed=9)
    model = cheap().fit(rows, np.repeat([0, 1], 40))
    assert model.estimated_accuracy_ == 1
    assert model.estimated_accuracy_stderr_ > 1 / 80  # the rule of three: up to 3/n wrong


def test_the_estimate_is_honest():
    """Means of z over 12 draws, whose spread of at most 1.3 leaves them 3 · 1.3/√12 = 1.13."""
    seen = []
    for seed in range(12):
        X, y = binary(20_400, d=40, seed=seed, strength=2.0)
        model = cheap(random_state=seed).fit(X[:400], y[:400])
        error = log_loss(y[400:], model.predict_proba(X[400:]))
        accuracy = model.score(X[400:], y[400:])
        seen.append(
            (
                (model.estimated_test_error_ - error) / model.estimated_test_error_stderr_,
                (accuracy - model.estimated_accuracy_) / model.estimated_accuracy_stderr_,
            )
        )
    assert np.abs(np.mean(seen, 0)).max() < 3 * 1.3 / math.sqrt(12)
    assert np.std(seen, 0, ddof=1).max() < 1.3 * 1.69  # √(χ²/11), 0.1 %


def test_swapping_the_labels_swaps_the_probabilities():
    one, other = cheap().fit(X, Y), cheap().fit(X, 1 - Y)
    np.testing.assert_allclose(
        one.predict_proba(FRESH), other.predict_proba(FRESH)[:, ::-1], atol=1e-5
    )
    np.testing.assert_allclose(one.train_error_curve_, other.train_error_curve_, rtol=1e-5)


def test_permuting_the_classes_permutes_the_probabilities():
    order = [2, 0, 1]  # class k becomes class order[k]
    one, other = cheap().fit(X3, Y3), cheap().fit(X3, np.array(order)[Y3])
    np.testing.assert_allclose(
        one.predict_proba(FRESH), other.predict_proba(FRESH)[:, order], atol=1e-5
    )


@pytest.mark.parametrize(
    "names",
    [["no", "yes"], [False, True], [-1, 1], [0.0, 1.0], [7, 100]],
    ids=["text", "bool", "signs", "float", "int"],
)
def test_labels_of_any_kind(names):
    names = np.array(names)
    model, plain = cheap().fit(X, names[Y]), cheap().fit(X, Y)
    np.testing.assert_array_equal(model.classes_, names)
    assert model.predict(FRESH).dtype == names.dtype
    np.testing.assert_array_equal(model.predict_proba(FRESH), plain.predict_proba(FRESH))
    np.testing.assert_array_equal(model.predict(FRESH), names[plain.predict(FRESH)])
    assert model.estimated_test_error_ == plain.estimated_test_error_


def test_objects_as_labels():
    names = np.array(["zebra", "ant", "cat"], dtype=object)
    model = cheap().fit(X3, names[Y3])
    assert list(model.classes_) == ["ant", "cat", "zebra"]
    assert model.score(X3, names[Y3]) > 0.7


def test_two_classes_have_one_logit():
    model = cheap().fit(X, Y)
    logits, proba = model.decision_function(FRESH), model.predict_proba(FRESH)
    assert logits.shape == (40,)
    np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-logits)), rtol=1e-12)
    np.testing.assert_allclose(proba.sum(1), 1)
    np.testing.assert_array_equal(model.predict(FRESH), (logits > 0).astype(int))


def test_several_classes_have_a_logit_each():
    model = cheap().fit(X3, Y3)
    logits, proba = model.decision_function(FRESH), model.predict_proba(FRESH)
    assert logits.shape == proba.shape == (40, 3)
    np.testing.assert_allclose(proba, torch.tensor(logits).softmax(1), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(FRESH), logits.argmax(1))


@pytest.mark.parametrize("rare", [1, 2, 6])
def test_imbalanced_labels(rare):
    y = (np.arange(120) < rare).astype(int)
    model = cheap().fit(X, y)
    assert math.isfinite(model.estimated_test_error_)
    assert model.estimated_accuracy_ > 0.9
    statuses = {finding.name: finding.status for finding in model.diagnostics_.findings}
    assert statuses["smallest class"] == ("caution" if rare < 5 else "note")


def test_the_scale_and_origin_of_columns_do_not_matter():
    rng = np.random.default_rng(1)
    factor, shift = np.exp(rng.normal(size=6) * 4), 100 * rng.normal(size=6)
    one, other = cheap().fit(X, Y), cheap().fit(X * factor + shift, Y)
    proba = other.predict_proba(FRESH * factor + shift)
    np.testing.assert_allclose(one.predict_proba(FRESH), proba, atol=1e-5)
    assert one.estimated_test_error_ == pytest.approx(other.estimated_test_error_, rel=1e-5)


def test_the_order_of_rows_does_not_matter_without_folds():
    X, y = binary(500)
    order = np.random.default_rng(0).permutation(500)
    options = {"stack": False, "members": ()}
    one, other = cheap(**options).fit(X, y), cheap(**options).fit(X[order], y[order])
    np.testing.assert_allclose(one.predict_proba(FRESH), other.predict_proba(FRESH), atol=1e-5)
    np.testing.assert_allclose(one.corrected_proba_[order], other.corrected_proba_, atol=1e-5)


def test_constant_columns_are_ignored():
    padded = np.c_[X, np.full(120, 0.1), np.zeros(120), np.full(120, 1e9)]
    model = cheap().fit(padded, Y)
    fresh = np.c_[FRESH, features(40, 3, seed=3)]
    other = np.c_[FRESH, 1e6 * features(40, 3, seed=4)]
    np.testing.assert_array_equal(model.predict_proba(fresh), model.predict_proba(other))


def test_many_whole_numbers_are_perhaps_quantities():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 25
    model = dd.DecoupledClassifier(features="linear", ridge=1.0, stack=False)
    with pytest.warns(UserWarning, match="25 different whole numbers in 60 rows.*Regressor"):
        model.fit(X, y)
    model.fit(X, y.astype(str))  # texts are classes


def test_grades_in_order(tmp_path):
    """The median grade is missed by fewer grades than the most probable one, and files keep it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3150, 3))
    y = np.digitize(X[:, 0] + 1.2 * rng.logistic(size=3150), [-3.0, -1.0, 1.0, 3.0]) + 1
    options = {"features": "linear", "ridge": 1.0}
    plain = dd.DecoupledClassifier(**options).fit(X[:150], y[:150])
    graded = dd.DecoupledClassifier(ordered=True, **options).fit(X[:150], y[:150])
    chances = graded.predict_proba(X)
    costs = chances @ np.abs(np.arange(5)[:, None] - np.arange(5))
    assert (graded.predict(X) == costs.argmin(1) + 1).mean() > 0.999  # up to rounding of ties
    missed = [np.abs(model.predict(X[150:]) - y[150:]).mean() for model in (plain, graded)]
    assert missed[1] < missed[0]
    estimate = graded.estimate("grade_error")
    assert abs(estimate.value - missed[1]) < 3 * estimate.stderr
    loaded = dd.load_model(dd.save_model(graded, tmp_path / "model.safetensors"))
    assert (loaded.predict(X) == graded.predict(X)).all()
