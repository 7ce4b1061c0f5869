"""Risk along a path of gradient descent, from the training rows alone."""

import numpy as np
import pytest

from benchmarks.versus import paths
from benchmarks.versus.ways import mean_and_stderr

STEPS = 12


def problem(n, d, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d)) / d**0.5
    return A, A @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)


def residuals(A, y, rate, steps=STEPS):
    return y - paths.descend(A, y, rate, steps) @ A.T


@pytest.mark.parametrize(("n", "d"), [(15, 6), (8, 20)])
def test_leave_one_out_is_that_of_descents_without_each_row(n, d):
    A, y = problem(n, d)
    found = paths.leave_one_out(A, residuals(A, y, 0.2), 0.2)
    for row in range(n):
        rest = np.arange(n) != row
        thetas = paths.descend(A[rest], y[rest], 0.2, STEPS)
        np.testing.assert_allclose(found[:, row], (y[row] - thetas @ A[row]) ** 2, rtol=1e-9)


@pytest.mark.parametrize(("n", "d"), [(15, 6), (8, 20)])
def test_leave_one_out_with_an_intercept_centres_without_the_row(n, d):
    A, y = problem(n, d)
    A, y = A + 0.3, y + 2.0
    B, target = A - A.mean(0), y - y.mean()
    found = paths.leave_one_out(B, residuals(B, target, 0.2), 0.2, centred=True)
    for row in range(n):
        rest = np.arange(n) != row
        centre, level = A[rest].mean(0), y[rest].mean()
        thetas = paths.descend(A[rest] - centre, y[rest] - level, 0.2, STEPS)
        wanted = (y[row] - level - thetas @ (A[row] - centre)) ** 2
        np.testing.assert_allclose(found[:, row], wanted, rtol=1e-8)


@pytest.mark.parametrize(("n", "d"), [(15, 6), (8, 20)])
def test_bellec_tan_against_a_memory_matrix_from_nudges(n, d):
    """Â_ts is how much a nudge of a row in step s moves the row's output in step t."""
    A, y = problem(n, d)
    memory = np.zeros((STEPS, STEPS))
    for row in range(n):
        for step in range(STEPS):
            moved = np.zeros(d)
            for t in range(step + 1, STEPS):
                push = A[row] if t == step + 1 else 0.0
                moved = moved - 0.2 * (A.T @ (A @ moved)) + 0.2 * push
                memory[t, step] += A[row] @ moved / n
    plain = residuals(A, y, 0.2)
    wanted = np.linalg.solve(np.eye(STEPS) - memory, plain) ** 2
    np.testing.assert_allclose(paths.bellec_tan(A, plain, 0.2), wanted, rtol=1e-9)


def test_both_agree_where_all_rows_have_the_same_leverage():
    signs = np.array([[1, 1], [1, -1]])
    A = np.kron(np.kron(signs, signs), signs)[:, :4] / 2.0
    y = np.arange(8.0)
    plain = residuals(A, y, 0.3)
    expected = paths.leave_one_out(A, plain, 0.3)
    np.testing.assert_allclose(paths.bellec_tan(A, plain, 0.3), expected, rtol=1e-9)


def test_gcv_against_the_smoother_of_each_step():
    A, y = problem(15, 6)
    found = paths.gcv(A, residuals(A, y, 0.2), 0.2).mean(1)
    for step in range(STEPS):
        rest = np.linalg.matrix_power(np.eye(15) - 0.2 * A @ A.T, step)  # residuals = rest @ y
        wanted = np.mean((rest @ y) ** 2) / (np.trace(rest) / 15) ** 2
        np.testing.assert_allclose(found[step], wanted, rtol=1e-9)


def test_against_the_true_risk_of_correlated_gaussian_rows():
    """Two estimates follow the risk; GCV, which forgets the path, does not."""
    n, d, steps, noise = 200, 100, 40, 0.5
    variances = 1 / np.arange(1.0, d + 1)
    variances /= variances.sum()
    gaps = {name: [] for name in paths.ESTIMATORS}
    for seed in range(30):
        rng = np.random.default_rng(seed)
        A, beta = rng.standard_normal((n, d)) * np.sqrt(variances), rng.standard_normal(d) * 5
        y = A @ beta + noise * rng.standard_normal(n)
        rate = 1 / np.linalg.norm(A, 2) ** 2
        thetas = paths.descend(A, y, rate, steps)
        risk = ((thetas - beta) ** 2 @ variances) + noise**2
        for name, estimator in paths.ESTIMATORS.items():
            gaps[name].append(estimator(A, y - thetas @ A.T, rate).mean(1) / risk - 1)
    for step in (5, 15, 39):
        z = {}
        for name, found in gaps.items():
            mean, stderr = mean_and_stderr(np.array(found)[:, step])
            z[name] = mean / stderr
        assert abs(z["Bellec–Tan"]) < 3.5
        assert abs(z["path leave-one-out"]) < 3.5
    paired = np.array(gaps["path GCV"]) - np.array(gaps["Bellec–Tan"])
    mean, stderr = mean_and_stderr(paired[:, 39])
    assert abs(mean) > 5 * stderr


@pytest.mark.parametrize("name", [*paths.ESTIMATORS, "DD"])
def test_every_way_speaks_of_the_model_that_it_returns(name):
    A, y = problem(4300, 60)
    answer = paths.ways(False, 300, seed=99)[name](A[:300], y[:300])
    test, noise = mean_and_stderr(answer.losses(A[300:], y[300:]))
    own = test * (2 / 300) ** 0.5  # squares of normal errors vary by √2 of their mean
    assert answer.estimate == pytest.approx(test, abs=4 * np.hypot(noise, own))
