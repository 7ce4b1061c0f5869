"""Huber's regression without each row."""

from sklearn.linear_model import HuberRegressor

from tests.evaluation.families.problems import check_near, numbers


def test_near_to_literal_refits():
    X, y = numbers(100)
    y[:5] += 20
    check_near(HuberRegressor(tol=1e-9, max_iter=2000), X, y)
    check_near(HuberRegressor(tol=1e-9, max_iter=2000, fit_intercept=False), X, y)
