"""Ridge models and the ways to judge them."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

import decoupled_descent as dd
from benchmarks.versus import ridge


def problem(n=40, d=6, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d)) + 0.3
    return A, A @ rng.standard_normal(d) + 1.0 + rng.standard_normal(n)


def test_squared_paths_are_scikit_learns_ridge():
    A, y = problem()
    slopes, intercepts = ridge.squared_path(A, y, ridge.RIDGES)
    for place, strength in enumerate(ridge.RIDGES):
        model = Ridge(strength).fit(A, y)
        np.testing.assert_allclose(slopes[place], model.coef_, rtol=1e-8)
        assert intercepts[place] == pytest.approx(model.intercept_)


def test_logistic_paths_are_the_minima_of_newtons_method():
    A, y = problem()
    y = (y > y.mean()).astype(float)
    slopes, intercepts = ridge.logistic_path(A, y, ridge.RIDGES)
    head = dd.heads.Linear(intercept=True).double()
    for place, strength in enumerate(ridge.RIDGES):
        run = dd.fit(
            torch.from_numpy(A), torch.from_numpy(y), dd.Objective(head, "logistic"),
            dd.DecoupledNewton(float(strength)), progress=False,
        )  # fmt: skip
        np.testing.assert_allclose(slopes[place], run.theta[0], atol=5e-4)
        assert intercepts[place] == pytest.approx(float(*run.state.head.values()), abs=5e-4)


def test_gcv_against_dense_smoothers():
    A, y = problem()
    B, centre = A - A.mean(0), np.full((40, 40), 1 / 40)
    for strength, found in zip(ridge.RIDGES, ridge.gcv_scores(A, y, ridge.RIDGES), strict=True):
        smoother = centre + B @ np.linalg.solve(B.T @ B + strength * np.eye(6), B.T)
        rest = y - smoother @ y
        wanted = np.mean(rest**2) / (1 - np.trace(smoother) / 40) ** 2
        assert found == pytest.approx(wanted, rel=1e-9)


def test_newton_ridge_cv_and_literal_refits_agree_for_squared_errors():
    A, y = problem()
    ways = ridge.ways("squared", standardise=False, rows=40, seed=0)
    fresh, answers = problem(30, seed=1)
    literal, formula, newton = (ways[name](A, y) for name in ("leave-one-out", "RidgeCV", "Newton"))
    assert literal.estimate == pytest.approx(formula.estimate, rel=1e-8)
    assert literal.stderr == pytest.approx(formula.stderr, rel=1e-8)
    assert newton.estimate >= literal.estimate * (1 - 1e-6)  # the winner's luck is added back
    assert newton.estimate == pytest.approx(literal.estimate, abs=newton.stderr)
    for answer in (literal, newton):
        np.testing.assert_allclose(
            answer.losses(fresh, answers), formula.losses(fresh, answers), rtol=1e-5, atol=1e-8
        )


def test_newton_and_literal_refits_agree_for_log_losses():
    A, y = problem(25, 3)
    y = (y > y.mean()).astype(float)
    ways = ridge.ways("logistic", standardise=True, rows=25, seed=0)
    literal, newton = ways["leave-one-out"](A, y), ways["Newton"](A, y)
    assert newton.estimate == pytest.approx(literal.estimate, abs=0.3 * literal.stderr)


def test_one_newton_step_is_exact_for_squared_errors_and_close_for_log_losses():
    A, y = problem()
    ways = ridge.ways("squared", standardise=False, rows=40, seed=0)
    step, literal = ways["ALO"](A, y), ways["leave-one-out"](A, y)
    assert step.estimate == pytest.approx(literal.estimate, rel=1e-8)
    assert step.stderr == pytest.approx(literal.stderr, rel=1e-8)
    y = (y > y.mean()).astype(float)
    slopes, intercepts = ridge.logistic_path(A, y, np.array([1.0]))
    outputs = A @ slopes[0] + intercepts[0]
    found = ridge.one_step("logistic", A, y, outputs, 1.0)
    for row in range(10):
        rest = np.arange(40) != row
        slopes, intercepts = ridge.logistic_path(A[rest], y[rest], np.array([1.0]))
        wanted = A[row] @ slopes[0] + intercepts[0]
        assert abs(found[row] - wanted) < 0.2 * abs(outputs[row] - wanted) + 1e-3
