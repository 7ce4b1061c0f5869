"""Gaussian processes without each row."""

import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import decoupled_descent as dd
from tests.evaluation.families.problems import check_exact, numbers

X, y = numbers(60)


def test_literally_with_a_given_kernel():
    model = GaussianProcessRegressor(RBF(2.0) + WhiteKernel(0.5), optimizer=None)
    check_exact(model, X, y, 1e-8, groups=True)


def test_refits_choose_the_kernel_again():
    model = GaussianProcessRegressor(RBF(2.0) + WhiteKernel(0.5), normalize_y=True).fit(X, y)
    formula, every = (dd.evaluate(model, X, y, refits=m) for m in (0, 60))
    assert formula.error != pytest.approx(every.error, rel=1e-6)
    assert abs(formula.error - every.error) < 0.3 * every.stderr


def test_another_number_of_rows_is_refused():
    model = GaussianProcessRegressor(RBF(), optimizer=None, alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="fitted to 60"):
        dd.evaluate(model, X[:50], y[:50])
