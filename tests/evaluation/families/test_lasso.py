"""The lasso and the elastic net without each row."""

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, ElasticNetCV, Lasso, LassoCV

import decoupled_descent as dd
from tests.evaluation.families.problems import check_near, numbers

X, y = numbers(100)


@pytest.mark.parametrize(
    "model",
    [
        Lasso(0.1),
        ElasticNet(0.1),
        pytest.param(LassoCV(), marks=pytest.mark.slow),
        pytest.param(ElasticNetCV(), marks=pytest.mark.slow),
        Lasso(0.1, positive=True),
    ],
    ids=repr,
)
def test_near_to_literal_refits(model):
    check_near(model, X, y)


def test_one_newton_step_in_its_columns():
    model = Lasso(0.1, tol=1e-12, max_iter=100000).fit(X, y)
    moving = model.coef_ != 0
    design = np.concatenate([X[:, moving], np.ones((100, 1))], 1)
    beta, left = np.append(model.coef_[moving], model.intercept_), np.empty(100)
    kink = 100 * 0.1 * np.append(np.sign(model.coef_[moving]), 0.0)
    for row in range(100):
        kept = np.delete(np.arange(100), row)
        slope = design[kept].T @ (design[kept] @ beta - y[kept]) + kink
        left[row] = design[row] @ (beta - np.linalg.solve(design[kept].T @ design[kept], slope))
    evaluation = dd.evaluate(model, X, y, refits=0)
    np.testing.assert_allclose(evaluation.predictions, left, atol=1e-7)
