"""Predictions that were made elsewhere, of one or of several models."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import LeaveOneOut, cross_val_predict

import decoupled_descent as dd
from tests.evaluation.families.problems import classes, numbers


def predictions(n=200, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return y, 1 / (1 + np.exp(-(2 * y - 1) - noise * rng.normal(size=n)))


def test_kinds_of_predictions():
    y, p = predictions()
    both = np.stack([1 - p, p], 1)
    for given in (p, both, p[:, None]):
        assert dd.evaluate(predictions=given, y=y).error == pytest.approx(log_loss(y, p))
    decided = dd.evaluate(predictions=p.round().astype(int), y=y)
    assert decided.error == pytest.approx(np.mean(p.round() != y))
    numbers = dd.evaluate(predictions=p, y=y + 0.5)
    assert numbers.error == pytest.approx(np.square(y + 0.5 - p).mean())
    words = np.where(y, "yes", "no")
    frame = pd.DataFrame({"yes": p, "no": 1 - p})
    assert dd.evaluate(predictions=frame, y=words).error == pytest.approx(log_loss(y, p))
    said = np.where(p > 0.5, "yes", "no")
    assert dd.evaluate(predictions=said, y=words).error == decided.error


def test_weights_and_groups():
    y, p = predictions()
    weights = np.linspace(1, 3, 200)
    found = dd.evaluate(predictions=p, y=y, sample_weight=weights)
    assert found.error == pytest.approx(log_loss(y, p, sample_weight=weights))
    assert len(dd.evaluate(predictions=p, y=y, groups=np.arange(200) // 4).values) == 50


def test_the_best_of_several_pays_for_the_choice():
    """Models that are equally good: the best seems better than it is."""
    rng = np.random.default_rng(0)
    seeming, corrected = [], []
    for _ in range(60):
        y = rng.normal(size=100)
        models = {f"m{k}": rng.normal(size=100) for k in range(15)}
        found = dd.evaluate(predictions=models, y=y)
        seeming.append(found.candidates[found.chosen].error - 2)
        corrected.append(found.error - 2)
    stderr = np.std(corrected, ddof=1) / 60**0.5
    assert np.mean(seeming) < -3 * stderr
    assert np.mean(corrected) == pytest.approx(0, abs=3 * stderr)


def test_all_pairs_are_compared():
    y, p = predictions()
    _, q = predictions(noise=3.0)
    found = dd.evaluate(predictions={"good": p, "bad": q, "same": p}, y=y)
    assert found.chosen == "good"
    assert found.optimism == pytest.approx(0, abs=1e-3)
    assert len(found.comparisons) == 3
    assert found.comparisons["good", "bad"].interval[1] < 0
    assert found.comparisons["good", "same"].difference == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.full(4, np.nan), "4 rows with missing or infinite"),
        (np.zeros(3), "has 3 rows and y 4"),
        (np.full((4, 2), 0.9), "do not add up to 1"),
        (np.full((4, 3), 1 / 3), "2 classes: give a class"),
        ({}, "empty dictionary"),
        ({"a": np.array(list("xyxy")), "b": np.full(4, 0.5)}, "different losses"),
    ],
)
def test_wrong_predictions_get_one_line(given, message):
    with pytest.raises(ValueError, match=message):
        dd.evaluate(predictions=given, y=np.array(list("xyxy")))


def status(evaluation, name):
    return next((one.status for one in evaluation.findings if one.name == name), None)


def test_predictions_are_trusted_on_your_word_alone():
    y, p = predictions()
    found = dd.evaluate(predictions=p, y=y)
    assert found.verdict == "caution"
    assert status(found, "origin of the predictions") == "caution"
    assert "out_of_fold=True" in found.findings[0].advice
    assert dd.evaluate(predictions=p, y=y, out_of_fold=True).verdict == "trust"
    both = dd.evaluate(predictions={"a": p, "b": 1 - p}, y=y)
    assert both.verdict == "caution"
    assert dd.evaluate(predictions={"a": p, "b": 1 - p}, y=y, out_of_fold=True).verdict == "trust"


@pytest.mark.parametrize("kind", ["least squares", "no intercept", "logistic", "repeated"])
def test_predictions_of_training_rows_with_evidence(kind):
    X, y = numbers(100)
    if kind == "logistic":
        X, y = classes(100)
        p = LogisticRegression(C=np.inf, solver="newton-cholesky").fit(X, y).predict_proba(X)
    else:
        p = LinearRegression(fit_intercept=kind == "least squares").fit(X, y).predict(X)
    given = y if kind == "repeated" else p
    found = dd.evaluate(predictions=given, y=y, X=X, out_of_fold=True)
    assert status(found, "predictions of training rows") == "alarm"
    assert found.verdict == "do not trust"


def test_predictions_out_of_fold_have_no_such_evidence():
    """Leave-one-out residuals of least squares are nearly orthogonal to the columns."""
    for seed in range(20):
        X, y = numbers(100, seed=seed)
        p = cross_val_predict(LinearRegression(), X, y, cv=LeaveOneOut())
        assert dd.evaluate(predictions=p, y=y, X=X, out_of_fold=True).verdict == "trust"


def test_a_column_that_knows_the_labels():
    X, y = classes(100)
    X[:, 0] = y
    found = dd.evaluate(predictions=np.full(100, 0.5), y=y, X=X, out_of_fold=True)
    assert status(found, "column that leaks the target") == "caution"


def test_your_word_is_about_predictions():
    X, y = numbers(100)
    with pytest.raises(ValueError, match="which are missing"):
        dd.evaluate(LinearRegression().fit(X, y), X, y, out_of_fold=True)
    with pytest.raises(ValueError, match="X has 100 rows and y 99"):
        dd.evaluate(predictions=y[1:], y=y[1:], X=X)


def test_one_column_of_a_class_has_its_probabilities():
    y, p = predictions()
    words = np.where(y, "yes", "no")
    for name, given in (("yes", p), ("no", 1 - p), ("model", p)):
        found = dd.evaluate(predictions=pd.DataFrame({name: given}), y=words)
        assert found.error == pytest.approx(log_loss(y, p))
    for given in (pd.DataFrame({"0": 1 - p}), pd.Series(p).to_frame(), pd.DataFrame(p)):
        for labels in (y, y.astype(float)):
            found = dd.evaluate(predictions=given, y=labels)
            assert found.error == pytest.approx(log_loss(y, p))
    named = pd.DataFrame({"1": p, "0": 1 - p})
    assert dd.evaluate(predictions=named, y=y.astype(float)).error == pytest.approx(log_loss(y, p))


def test_predictions_in_the_order_of_folds_are_refused():
    """Folds that are joined one after the other have the index of y, in another order."""
    y, p = predictions()
    labels, order = pd.Series(y), np.random.default_rng(0).permutation(200)
    moved = pd.Series(p).iloc[order]
    for given in (moved, {"a": p, "b": moved}):
        with pytest.raises(ValueError, match="in another order"):
            dd.evaluate(predictions=given, y=labels)
    found = dd.evaluate(predictions=moved.loc[labels.index], y=labels)
    assert found.error == pytest.approx(log_loss(y, p))
    other = pd.Series(p, index=np.arange(200) + 1000)  # says nothing about an order
    assert dd.evaluate(predictions=other, y=labels).error == found.error


def test_constant_columns_show_nothing():
    y, p = predictions()
    X = np.ones((200, 3))
    found = dd.evaluate(predictions=p, y=y, X=X, out_of_fold=True)
    assert status(found, "predictions of training rows") != "alarm"


WORDS = np.array(["a", "b", "c"] * 10)


@pytest.mark.parametrize(
    ("given", "y", "options", "message"),
    [
        (np.zeros(3), [0.5, np.nan, 1.5], {}, "y has 1 row with missing"),
        (np.zeros(3), ["a", None, "b"], {}, "y has 1 row with missing"),
        (np.array(["a", None, "b"], object), ["a", "b", "b"], {}, "predictions has 1 row with"),
        (0.5, [0, 1, 1], {}, "must have a prediction for each row"),
        ({"m": None}, [0, 1, 1], {}, r"predictions\['m'\]=None must have"),
        (np.char.upper(WORDS), WORDS, {}, "predictions has 'A', and y the classes"),
        (np.array([0.1, 7.0, 0.2]), ["a", "b", "b"], {}, "predictions has 7.0, and y the classes"),
        (np.zeros((30, 2)), np.arange(30) % 3 + 0.5, {}, "a dictionary for several models"),
        (np.zeros(3), [0, 1, 1], {"time": [1, 2, 3]}, "time= and refits="),
        (np.zeros(3), [0, 1, 1], {"refits": 3}, "time= and refits="),
    ],
    ids=[
        "nan", "none", "unpredicted", "one number", "nothing", "other words", "no probability",
        "several columns", "time", "refits",
    ],
)  # fmt: skip
def test_missing_values_and_wrong_options_get_one_line(given, y, options, message):
    with pytest.raises(ValueError, match=message):
        dd.evaluate(predictions=given, y=y, **options)


def test_a_model_and_predictions_exclude_each_other():
    with pytest.raises(ValueError, match="pass one of them"):
        dd.evaluate(object(), predictions=np.zeros(4), y=np.zeros(4))
    with pytest.raises(ValueError, match="y is missing"):
        dd.evaluate(predictions=np.zeros(4))


@pytest.mark.parametrize("kind", [int, float])
def test_logits_are_not_evaluated_as_numbers(kind):
    y, p = predictions()
    logits = np.log(p / (1 - p))
    with pytest.raises(ValueError, match=r"of logits, 1/\(1 \+ exp\(-logit\)\)"):
        dd.evaluate(predictions=logits, y=y.astype(kind))
