"""Least squares and ridge regression without each row."""

import numpy as np
import pytest
from sklearn.linear_model import (
    BayesianRidge,
    LinearRegression,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)

import decoupled_descent as dd
from tests.evaluation.families.problems import check_exact, check_near, classes, numbers

X, y = numbers(60)


@pytest.mark.parametrize(
    "model",
    [LinearRegression(), LinearRegression(fit_intercept=False), Ridge(2.0), Ridge(0.1)],
    ids=repr,
)
def test_literally(model):
    check_exact(model, X, y, 1e-9, weights=True, groups=True)


def test_more_columns_than_rows():
    check_exact(Ridge(3.0), *numbers(30, 80), 1e-8, weights=True, groups=True)


def test_several_targets():
    both = np.stack([y, y[::-1]], 1)
    check_exact(Ridge(2.0), X, both, 1e-9)
    model = Ridge([1.0, 2.0]).fit(X, both)
    assert "different ridges" in dd.evaluate(model, X, both).reason


def test_ridges_that_were_chosen_or_estimated():
    check_near(RidgeCV([0.1, 1, 10]), X, y)
    check_near(BayesianRidge(), X, y)


@pytest.mark.parametrize("model", [RidgeClassifier(2.0), RidgeClassifierCV()], ids=repr)
def test_decisions(model):
    for count in (2, 3):
        rows, labels = classes(90, count=count)
        model.fit(rows, labels)
        formula, every = (dd.evaluate(model, rows, labels, refits=m) for m in (0, 90))
        assert np.mean(formula.predictions != every.predictions) <= 0.03
        assert every.error == pytest.approx(np.mean(every.predictions != labels))


def test_interpolation_is_left_to_folds():
    wide, target = numbers(20, 40)
    evaluation = dd.evaluate(LinearRegression().fit(wide, target), wide, target)
    assert evaluation.how == "folds"
    assert "as many coefficients as rows" in evaluation.reason
