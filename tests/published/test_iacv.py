"""The logistic regressions of IACV (Luo, Ren and Barber, arXiv:2303.02732), section 5.

20 columns of which 5 matter, 250 and 1,000 rows, the ridge 10⁻⁶ n. They report that one Newton
step without each row is near to literal leave-one-out at the minimum, nearer with more rows. They
publish curves and no tables, so the test is that statement.
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import decoupled_descent as dd


def problem(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20))
    beta = np.zeros(20)
    beta[:5] = rng.normal(size=5)
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ beta))).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "near"), [(250, 0.05), (1000, 0.01)])
def test_one_newton_step_is_near_to_literal_leave_one_out(n, near):
    X, y = problem(n, seed=0)
    model = LogisticRegression(
        C=1 / (1e-6 * n), fit_intercept=False, solver="newton-cholesky", tol=1e-10
    ).fit(X, y)
    formula = dd.evaluate(model, X, y, refits=0)
    literal = dd.evaluate(model, X, y, refits=n)
    assert abs(formula.error - literal.error) < near * literal.stderr
