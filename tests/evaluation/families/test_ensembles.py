"""Forests and bagging: rows are predicted by the parts that did not draw them."""

import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import decoupled_descent as dd
from tests.evaluation.families.problems import classes, numbers

X, y = numbers(80)
A, label = classes(80, count=3)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(60, random_state=0, oob_score=True),
        RandomForestClassifier(60, random_state=0, oob_score=True, max_samples=0.5),
        ExtraTreesClassifier(60, random_state=0, bootstrap=True, oob_score=True),
        BaggingClassifier(n_estimators=60, random_state=0, oob_score=True, max_features=0.6),
    ],
    ids=repr,
)
def test_classes_are_those_that_scikit_learn_says(model):
    evaluation = dd.evaluate(model.fit(A, label), A, label)
    said = model.oob_decision_function_
    rest = np.bincount(label) - np.eye(3)[label]  # without the row, its class is rarer
    kept = said * np.bincount(label) / rest
    np.testing.assert_allclose(
        evaluation.predictions, kept / kept.sum(1, keepdims=True), atol=1e-12
    )
    assert (evaluation.how, evaluation.refits) == ("out of bag", 0)
    balanced = model.set_params(class_weight="balanced") if hasattr(model, "class_weight") else None
    if balanced is not None:  # such trees do not depend on the shares
        found = dd.evaluate(balanced.fit(A, label), A, label)
        np.testing.assert_allclose(found.predictions, balanced.oob_decision_function_, atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(60, random_state=0, oob_score=True),
        BaggingRegressor(n_estimators=60, random_state=0, oob_score=True),
    ],
    ids=repr,
)
def test_numbers_are_those_that_scikit_learn_says(model):
    evaluation = dd.evaluate(model.fit(X, y), X, y)
    np.testing.assert_allclose(evaluation.predictions, model.oob_prediction_, atol=1e-12)
    weights = np.random.default_rng(0).uniform(0.5, 2, 80)
    model.fit(X, y, sample_weight=weights)
    if isinstance(model, RandomForestRegressor):
        evaluation = dd.evaluate(model, X, y, weights)
        np.testing.assert_allclose(evaluation.predictions, model.oob_prediction_, atol=1e-12)


@pytest.mark.slow
def test_the_error_is_that_of_all_trees():
    """A row is out of a third of the bags; the variance of so few trees is taken away."""
    gaps = []
    for seed in range(12):
        rows, target = numbers(300, seed=seed)
        train = slice(0, 150)
        few, many = (
            dd.evaluate(
                RandomForestRegressor(count, random_state=seed).fit(rows[train], target[train]),
                rows[train], target[train],
            )
            for count in (20, 400)
        )  # fmt: skip
        part = RandomForestRegressor(20, random_state=seed).fit(rows[train], target[train])
        spread = np.var([tree.predict(rows[150:]) for tree in part.estimators_], 0, ddof=1)
        gaps.append(few.error - many.error - spread.mean() * (1 / 20 - 1 / 400))
    assert np.mean(gaps) == pytest.approx(0, abs=3 * np.std(gaps) / 12**0.5)


def test_groups_are_out_of_a_bag_together():
    groups = np.repeat(np.arange(40), 2)
    rows = np.repeat(np.random.default_rng(0).normal(size=(40, 3)), 2, axis=0)
    target = np.repeat(np.random.default_rng(1).normal(size=40), 2)
    model = RandomForestRegressor(100, random_state=0).fit(rows, target)
    alone, together = (dd.evaluate(model, rows, target, groups=one) for one in (None, groups))
    assert together.how == "out of bag"
    assert alone.error < 0.7 * together.error  # a copy of each row is in most bags


def test_without_bags_there_are_folds():
    model = RandomForestRegressor(5, bootstrap=False, random_state=0).fit(X, y)
    assert "bootstrap=False" in dd.evaluate(model, X, y).reason
    assert dd.evaluate(RandomForestRegressor(3, random_state=0).fit(X, y), X, y).how == "folds"


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(60, random_state=0),
        ExtraTreesClassifier(60, random_state=0, bootstrap=True),
        BaggingClassifier(n_estimators=60, random_state=0),
        RandomForestRegressor(60, random_state=0),
        BaggingRegressor(n_estimators=60, random_state=0),
    ],
    ids=repr,
)
def test_rows_in_another_order_are_refused(model):
    """The bags are numbers of rows: in another order trees have seen the rows out of bag."""
    rows, target = (X, y) if "Regressor" in repr(model) else (A, label)
    order = np.random.default_rng(0).permutation(80)
    for weights in (None, np.random.default_rng(0).uniform(0.5, 2, 80)):
        model.fit(rows, target, sample_weight=weights)
        assert dd.evaluate(model, rows, target, weights).how == "out of bag"
        other = None if weights is None else weights[order]
        with pytest.raises(ValueError, match="in another order than in the fit"):
            dd.evaluate(model, rows[order], target[order], other)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(60, random_state=0, class_weight="balanced"),
        RandomForestRegressor(60, random_state=0, criterion="absolute_error"),
    ],
    ids=repr,
)
def test_roots_that_are_no_means_are_not_compared(model):
    rows, target = (X, y) if "Regressor" in repr(model) else (A, label)
    assert dd.evaluate(model.fit(rows, target), rows, target).how == "out of bag"


def test_other_rows_are_refused():
    model = RandomForestRegressor(60, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="pass the rows of its fit"):
        dd.evaluate(model, X[:60], y[:60])
