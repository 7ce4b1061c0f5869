"""The lasso of RandALO (Nobel, LeJeune and Candès, arXiv:2409.09781) and its repository's example.

The seeded problem is that of the repository cvxgrp/randalo. Half of the squared error is 0.66668416
by the exact formula; with 100 random products they report 0.6662.
"""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import decoupled_descent as dd
from decoupled_descent.evaluation.families.probes import ProbedMinimum
from decoupled_descent.evaluation.kinds import NUMBERS
from decoupled_descent.evaluation.task import Task

PUBLISHED, THEIRS = 0.66668416, 0.6662


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
    assert evaluation.error / 2 == pytest.approx(PUBLISHED, abs=1e-8)

    columns, residuals = X[:, model.coef_ != 0], X @ model.coef_ - y
    random = ProbedMinimum(columns, residuals[:, None], np.ones(n), np.zeros(columns.shape[1]))
    whole, *halves = (
        np.square(residuals + moved[:, 0]).mean() / 2
        for moved in (random.moves(Task(None, y, y, NUMBERS)), *random.halves())
    )
    assert abs(2 * whole - np.mean(halves) - PUBLISHED) < abs(THEIRS - PUBLISHED)
