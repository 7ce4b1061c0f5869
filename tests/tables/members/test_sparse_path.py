"""Sparse linear models: their minima are those of other solvers."""

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, LogisticRegression

from decoupled_descent.tables.members import sparse_path
from decoupled_descent.tables.members.sparse_path import RATIO, RIDGE, SparseProblem, steepest


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    monkeypatch.setattr(sparse_path, "TOLERANCE", 1e-12)
    monkeypatch.setattr(sparse_path, "SETTLED", 1e-10)
    monkeypatch.setattr(sparse_path, "PARABOLAS", 500)


def problem(kind, n=60, d=90, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    X = np.asfortranarray(rng.normal(size=(n, d)))
    outputs = X[:, :3] @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=(n, 3))
    weights = rng.uniform(0.5, 2.0, n) if weighted else np.ones(n)
    Y = {
        "numbers": outputs[:, :1],
        "several numbers": outputs,
        "two": (outputs[:, :1] > 0).astype(float),
        "three": np.eye(3)[outputs.argmax(1)],
    }[kind]
    return SparseProblem(X, Y, weights / weights.sum(), kind in ("two", "three"))


def along(given, steps=5):
    last, model = steepest(given), given.null()
    for _ in range(steps):
        model = given.minimise(RATIO * last, last, model)
        last = RATIO * last
    return last, model


@pytest.mark.parametrize("kind", ["numbers", "several numbers", "two", "three"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_is_that_of_a_minimum(kind, weighted):
    given = problem(kind, weighted=weighted)
    penalty, (theta, bias) = along(given)
    slope = given.gradient(sparse_path.Coefficients(theta, bias)) - penalty * RIDGE * theta
    used = theta != 0
    assert 3 <= used.any(1).sum() < 60
    np.testing.assert_allclose(slope[used], penalty * np.sign(theta[used]), rtol=1e-4)
    assert np.abs(slope[~used]).max() <= 1.011 * penalty
    missing = given.Y - given.means(given.X @ theta + bias)
    np.testing.assert_allclose(given.weights @ missing, 0, atol=1e-6)


def test_numbers_are_those_of_elastic_net():
    given = problem("numbers")
    penalty, (theta, bias) = along(given)
    share = 1 / (1 + RIDGE)
    other = ElasticNet(alpha=penalty / share, l1_ratio=share, tol=1e-12, max_iter=10**6)
    other.fit(given.X, given.Y[:, 0])
    np.testing.assert_allclose(theta[:, 0], other.coef_, atol=1e-6)
    np.testing.assert_allclose(bias[0], other.intercept_, atol=1e-6)


def test_two_classes_are_those_of_saga():
    given = problem("two", n=100, d=30)
    penalty, (theta, bias) = along(given, 4)
    share = 1 / (1 + RIDGE)
    other = LogisticRegression(
        C=share / penalty / 100, l1_ratio=share, solver="saga", tol=1e-9, max_iter=10**5
    ).fit(given.X, given.Y[:, 0])
    np.testing.assert_allclose(theta[:, 0], other.coef_[0], atol=1e-4)
    np.testing.assert_allclose(bias, other.intercept_, atol=1e-4)


def test_above_the_steepest_gradient_all_coefficients_are_zero():
    given = problem("three")
    top = steepest(given)
    model = given.minimise(1.02 * top, 1.02 * top, given.null())
    assert not model.theta.any()
    assert given.minimise(0.9 * top, top, given.null()).theta.any()
