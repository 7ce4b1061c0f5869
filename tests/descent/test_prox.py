"""Proximal steps reach the minimum that other solvers find."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from sklearn.linear_model import Lasso, Ridge

import decoupled_descent as dd
from tests.problems import binary, normal

N, D = 40, 25


def regression():
    X = normal(N, D) / D**0.5
    return X, X @ (normal(D, seed=1) * (torch.arange(D) < 6)) + normal(N, seed=2) / 4


def descended(X, y, prox, **options):
    objective = dd.Objective(dd.heads.Linear(), "squared")
    algorithm = dd.GradientDescent(0.3, prox=prox, **options)
    return dd.fit(X, y, objective, algorithm, 3000, theta=torch.zeros(1, X.shape[1])).theta[0]


@pytest.mark.parametrize("accelerated", [False, True], ids=["ista", "fista"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_a_soft_threshold_is_the_lasso(accelerated, reduction):
    X, y = regression()
    mean = reduction == "mean"
    prox = dd.prox.SoftThreshold(0.3 / N if mean else 0.3)
    options = {"reduction": reduction, "accelerated": accelerated}
    objective = dd.Objective(dd.heads.Linear(), "squared")
    algorithm = dd.GradientDescent(0.3 * N if mean else 0.3, prox=prox, **options)
    theta = dd.fit(X, y, objective, algorithm, 3000, theta=torch.zeros(1, D)).theta[0]
    lasso = Lasso(alpha=0.3 / N, fit_intercept=False, tol=1e-14, max_iter=10**6)
    np.testing.assert_allclose(theta, lasso.fit(X, y).coef_, atol=1e-8)
    assert 0 < int((theta == 0).sum()) < D


def test_bounds_and_ridge():
    X, y = regression()
    np.testing.assert_allclose(descended(X, y, dd.prox.Box(low=0.0)), nnls(X, y)[0], atol=1e-10)
    ridge = Ridge(alpha=0.7, fit_intercept=False).fit(X, y).coef_
    np.testing.assert_allclose(descended(X, y, dd.prox.Ridge(0.7)), ridge, atol=1e-10)


def test_no_map_is_plain_descent():
    X, y = regression()
    plain = descended(X, y, None)
    torch.testing.assert_close(descended(X, y, dd.prox.Box()), plain)
    torch.testing.assert_close(descended(X, y, dd.prox.Ridge(0.0)), plain)


MAPS = [
    dd.prox.SoftThreshold(0.8),
    dd.prox.Box(-0.4, 1.1),
    dd.prox.Ridge(0.8),
    dd.prox.Entrywise(lambda v, rate: v - rate * v.sin()),
]


@pytest.mark.parametrize("prox", MAPS, ids=lambda prox: type(prox).__name__)
def test_slopes_are_derivatives(prox):
    theta, step = normal(2, 30), 1e-6
    numeric = (prox(theta + step, 0.5) - prox(theta - step, 0.5)) / (2 * step)
    torch.testing.assert_close(prox.slope(theta, 0.5), numeric, rtol=1e-7, atol=1e-7)
    assert not prox.slope(theta, 0.5).requires_grad


REFUSED = {
    "a function": (lambda v: v, "must be a map of decoupled_descent.prox"),
    "not separable": (dd.prox.Entrywise(lambda v, _: v / (1 + v.norm())), "not separable"),
    "jumps": (dd.prox.Entrywise(lambda v, _: v * (v.abs() > 1)), "jumps"),
    "one number": (dd.prox.Entrywise(lambda v, _: v.sum()), "must return one value per entry"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_maps_are_refused(name):
    prox, message = REFUSED[name]
    (X, y), objective = binary(), dd.Objective(dd.heads.Linear(), "logistic")
    with pytest.raises(ValueError, match=message):
        dd.fit(X, y, objective, dd.GradientDescent(0.1, estimate=True, prox=prox), 3)


def test_wrong_numbers():
    for wrong, name in (
        (lambda: dd.prox.SoftThreshold(-1), "penalty=-1"),
        (lambda: dd.prox.Ridge(math.nan), "penalty"),
        (lambda: dd.prox.Box(1.0, 0.0), "low=1.0"),
        (lambda: dd.prox.Box("a", 1.0), "low='a'"),
        (lambda: dd.prox.Entrywise(3), "function=3"),
    ):
        with pytest.raises(ValueError, match=name):
            wrong()
