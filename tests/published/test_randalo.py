"""The lasso of RandALO (Nobel, LeJeune and Candès, arXiv:2409.09781) and its repository's example.

The seeded problem, the exact formula and the value of the randomised one are those that the
repository cvxgrp/randalo prints: half of the squared error is 0.66668416 by the exact formula.
"""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import decoupled_descent as dd


@pytest.mark.slow
def test_the_formula_has_all_published_digits():
    n = p = 5000
    rng = np.random.default_rng(40)
    X = rng.normal(size=(n, p))
    rng.normal(size=(10_000, p))  # their test rows
    beta = np.zeros(p)
    beta[:500] = rng.normal(size=500) / 500**0.5
    y = X @ beta + rng.normal(size=n)
    model = Lasso(alpha=1 / 5000**0.5, fit_intercept=False).fit(X, y)
    evaluation = dd.evaluate(model, X, y, refits=0)
    assert evaluation.error / 2 == pytest.approx(0.66668416, abs=1e-8)
