"""Nearest neighbours without each row."""

import pytest
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import decoupled_descent as dd
from tests.evaluation.families.problems import check_exact, classes, numbers

A, label = classes(60, count=3)
X, y = numbers(60)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_literally(weights):
    check_exact(KNeighborsClassifier(5, weights=weights), A, label, groups=True)
    check_exact(KNeighborsRegressor(4, weights=weights), X, y, groups=True)


def test_what_is_left_to_folds():
    model = KNeighborsRegressor(4, weights=lambda distances: 1 / (1 + distances)).fit(X, y)
    assert dd.evaluate(model, X, y).reason == "weights is a function"


def test_another_number_of_rows_is_refused():
    with pytest.raises(ValueError, match="fitted to 60"):
        dd.evaluate(KNeighborsRegressor().fit(X, y), X[:50], y[:50])
