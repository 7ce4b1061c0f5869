"""Folds: each class in all of them, whole groups in one."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor

from decoupled_descent.evaluation.families.folds import by_folds
from decoupled_descent.evaluation.inputs import foreign_model
from tests.evaluation.families.problems import GROUPS, classes, numbers


def test_rows_are_predicted_by_models_of_the_other_folds():
    X, y = numbers(50)
    left = by_folds(foreign_model(DummyRegressor().fit(X, y), X, y))
    assert (left.refits, left.how) == (10, "folds")
    assert len(np.unique(left.predictions)) == 10
    for said in np.unique(left.predictions):
        assert said == pytest.approx(y[left.predictions != said].mean())


def test_classes_keep_their_shares():
    X, y = classes(100)
    left = by_folds(foreign_model(DummyClassifier(strategy="prior").fit(X, y), X, y))
    np.testing.assert_allclose(left.predictions, 0.5)


def test_groups_are_in_one_fold():
    for labels, model in (
        (classes(100)[1], DummyClassifier()),
        (numbers(100)[1], DummyRegressor()),
    ):
        X = numbers(100)[0]
        foreign = foreign_model(model.fit(X, labels), X, labels, groups=GROUPS[:100])
        said = by_folds(foreign).predictions.reshape(25, 4, -1)
        np.testing.assert_array_equal(said, said[:, :1].repeat(4, 1))


def test_a_class_with_one_row_is_refused():
    X, y = classes(30)
    y[0] = 2
    with pytest.raises(ValueError, match="a class with 1 row"):
        by_folds(foreign_model(DummyClassifier().fit(X, y), X, y))
