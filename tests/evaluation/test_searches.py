"""Searches: the best model, and the price of choosing it."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import decoupled_descent as dd
from tests.evaluation.families.problems import classes

A, label = classes(100)


def test_a_search_pays_for_its_choice():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(60, 30)), np.arange(60) % 2
    settings = {"C": np.geomspace(1e-4, 1e2, 13)}
    search = GridSearchCV(LogisticRegression(max_iter=1000), settings, cv=5).fit(rows, labels)
    evaluation = dd.evaluate(search, rows, labels)
    assert evaluation.optimism > 0
    best = dd.evaluate(search.best_estimator_, rows, labels)
    assert evaluation.error == pytest.approx(best.error + evaluation.optimism)


def test_a_search_over_models_without_a_formula_is_repeated_in_folds():
    boosting = GradientBoostingClassifier(n_estimators=3, random_state=0)
    search = GridSearchCV(boosting, {"max_depth": [1, 2]}, cv=3).fit(A, label)
    evaluation = dd.evaluate(search, A, label)
    assert evaluation.how == "folds"
    assert "no formula" in evaluation.reason


def slow_search():
    """A search that took 100 seconds, as it says."""
    boosting = GradientBoostingClassifier(n_estimators=3, random_state=0)
    search = GridSearchCV(boosting, {"max_depth": [1, 2]}, cv=3).fit(A, label)
    search.cv_results_["mean_fit_time"] = np.array([10.0, 20.0])
    search.cv_results_["mean_score_time"] = np.zeros(2)
    search.refit_time_ = 10.0
    return search


def test_a_slow_search_is_repeated_as_often_as_time_allows():
    search = slow_search()
    evaluation = dd.evaluate(search, A, label)
    assert (evaluation.how, evaluation.refits) == ("folds", 4)
    assert "4 folds of the whole search in 600 seconds" in evaluation.reason
    assert dd.evaluate(search, A, label, time_limit=1200).refits == 10


def test_a_choice_that_is_not_in_the_error_is_said():
    evaluation = dd.evaluate(slow_search(), A, label, time_limit=300)
    best = dd.evaluate(slow_search().best_estimator_, A, label)
    assert evaluation.error == pytest.approx(best.error)
    assert evaluation.optimism is None
    assert evaluation.verdict == "caution"
    assert any("time_limit=" in one.advice for one in evaluation.findings)
