"""Generalised linear models without each row."""

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor

from tests.evaluation.families.problems import check_near, numbers

X, y = numbers(100)
OPTIONS = {"alpha": 0.01, "tol": 1e-9, "max_iter": 1000}


@pytest.mark.parametrize(
    "model",
    [
        PoissonRegressor(**OPTIONS),
        GammaRegressor(**OPTIONS),
        TweedieRegressor(power=1.5, **OPTIONS),
        TweedieRegressor(power=3, **OPTIONS),
    ],
    ids=repr,
)
def test_positive_numbers(model):
    check_near(model, X, np.exp(0.3 * y))


def test_the_normal_law():
    check_near(TweedieRegressor(power=0, **OPTIONS), X, y)
