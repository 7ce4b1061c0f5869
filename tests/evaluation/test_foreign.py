"""Fitted models of other libraries: their kinds, and how they are fitted again."""

from copy import deepcopy

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from decoupled_descent.evaluation.foreign import codes_of, kind_of
from decoupled_descent.evaluation.inputs import foreign_model
from decoupled_descent.evaluation.kinds import DECISIONS, NUMBERS, PROBABILITIES
from tests.evaluation.families.problems import classes, numbers

A, label = classes(60)
X, y = numbers(60)


def test_kinds():
    assert kind_of(LogisticRegression().fit(A, label)) is PROBABILITIES
    assert kind_of(RidgeClassifier().fit(A, label)) is DECISIONS
    assert kind_of(Ridge().fit(X, y)) is NUMBERS


def test_refits_are_fits_of_clones_with_weights_for_the_last_step():
    weights = np.linspace(1, 2, 60)
    model = make_pipeline(StandardScaler(), Ridge())
    model.fit(X, y, ridge__sample_weight=weights)
    foreign = foreign_model(model, X, y, weights)
    found = foreign.without(np.array([3, 7]))
    kept = np.delete(np.arange(60), [3, 7])
    other = make_pipeline(StandardScaler(), Ridge())
    other.fit(X[kept], y[kept], ridge__sample_weight=weights[kept])
    np.testing.assert_array_equal(found[-1].coef_, other[-1].coef_)
    assert found is not model


def test_weights_keep_the_shares_of_classes_for_decisions():
    foreign = foreign_model(RidgeClassifier().fit(A, label), A, label)
    out = np.array([0, 2])  # of class 0
    found = foreign.without(out, shares=True)
    weights = np.where(label == 0, 30 / 28, 1.0)
    kept = np.delete(np.arange(60), out)
    other = RidgeClassifier().fit(A[kept], label[kept], sample_weight=weights[kept])
    np.testing.assert_allclose(found.coef_, other.coef_)


def test_a_class_that_a_refit_has_not_seen_has_probability_zero():
    words = np.array(["a", "b", "c"])[np.arange(60) % 3]
    foreign = foreign_model(LogisticRegression().fit(A, words), A, words)
    found = foreign.without(np.flatnonzero(words == "b"))
    said = foreign.predict(found, np.arange(5))
    np.testing.assert_array_equal(said[:, 1], 0)
    np.testing.assert_allclose(said.sum(1), 1)


def test_codes_of_classes():
    assert codes_of(["b", "a", "z"], ["a", "b"]).tolist() == [1, 0, -1]


def test_a_copy_in_another_process_predicts_the_same():
    """Folds in parallel send the model and its rows to other processes."""
    for model, rows, labels in ((LogisticRegression(), A, label), (RidgeClassifier(), A, label)):
        foreign = foreign_model(model.fit(rows, labels), rows, labels)
        other = deepcopy(foreign)
        rest = np.arange(10)
        found, same = (one.predict(one.without(rest), rest) for one in (foreign, other))
        np.testing.assert_array_equal(found, same)
        assert other.task.kind == foreign.task.kind
