"""Pipelines: the last step on what the earlier steps give."""

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import decoupled_descent as dd
from tests.evaluation.families.problems import by_refits, numbers

X, y = numbers(60)


def test_steps_that_learn_nothing_change_nothing():
    model = make_pipeline(PolynomialFeatures(2), Ridge(2.0)).fit(X, y)
    evaluation = dd.evaluate(model, X, y, refits=0)
    np.testing.assert_allclose(evaluation.predictions, by_refits(model, X, y), atol=1e-8)


def test_refits_train_all_steps():
    model = make_pipeline(StandardScaler(), Ridge(2.0)).fit(X, y)
    evaluation = dd.evaluate(model, X, y, refits=60)
    np.testing.assert_allclose(evaluation.predictions, by_refits(model, X, y), atol=1e-8)


def test_a_last_step_without_a_formula():
    model = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=2)).fit(X, y)
    assert dd.evaluate(model, X, y).reason == "DecisionTreeRegressor has no formula"
