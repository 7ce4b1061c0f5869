"""Kernel ridge regression without each row."""

import pytest
from sklearn.kernel_ridge import KernelRidge

import decoupled_descent as dd
from tests.evaluation.families.problems import check_exact, numbers

X, y = numbers(60)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_literally(kernel):
    check_exact(KernelRidge(alpha=0.7, kernel=kernel, gamma=0.2), X, y, 1e-7, True, True)


def test_other_rows_are_refused():
    model = KernelRidge(alpha=0.7, kernel="rbf").fit(X, y)
    with pytest.raises(ValueError, match="not the rows"):
        dd.evaluate(model, X, y[::-1])
