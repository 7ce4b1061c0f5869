"""What a family says about its predictions."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

import decoupled_descent as dd
from decoupled_descent.evaluation import families
from tests.evaluation.families.problems import numbers

X, y = numbers(100)


class Mean(RegressorMixin, BaseEstimator):
    """The mean of the labels."""

    def fit(self, X, y):
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


class MeanFamily(families.Family):
    def leave_out(self, model, task):
        left = (task.labels.sum() - task.labels) / (task.n - 1)
        return families.LeftOut(left, "mean without the row", is_exact=True)


def test_a_family_from_outside_of_the_package():
    model = Mean().fit(X, y)
    assert dd.evaluate(model, X, y).how == "folds"
    families.register("Mean", MeanFamily())
    try:
        evaluation = dd.evaluate(model, X, y)
    finally:
        del families.FAMILIES["Mean"]
    assert evaluation.how == "mean without the row"
    assert evaluation.error == pytest.approx(np.var(y) * (100 / 99) ** 2)


class Ridge(Mean):
    """A model of another library with a name that is known."""


def test_a_model_that_shares_only_its_name_is_left_to_folds():
    evaluation = dd.evaluate(Ridge().fit(X, y), X, y)
    assert evaluation.how == "folds"
    assert "not the model of its name" in evaluation.reason
