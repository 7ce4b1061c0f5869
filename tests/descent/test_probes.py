"""The estimate of gradient descent on rows of a covariance that nobody knows."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from tests.problems import normal

LOGISTIC = dd.Objective(dd.heads.Linear(), "logistic")


def correlated(n, d, seed, factor=2.0):
    """Rows whose columns share a steep spectrum in random directions, and labels of a teacher."""
    variances = torch.arange(1, d + 1, dtype=torch.float64) ** -0.75
    variances = variances / variances.mean()
    axes = torch.linalg.qr(normal(d, d, seed=77))[0]
    X = normal(n, d, seed=seed) * (variances / d).sqrt() @ axes.T
    return X, (X @ (factor * normal(d, seed=78)) + normal(n, seed=1000 + seed) / 2 > 0).double()


def measured(X, y, steps, lr, damping=1.0):
    """h + M of the last iterate for squared loss: every trace in full, D row by row alike."""
    n, d = X.shape
    R, theta, gradients, A = [], np.zeros(d), [], np.zeros((steps, steps))
    D = np.zeros((steps, steps))
    for t in range(steps):
        if t:
            P = np.array([np.trace(X @ R[s] @ X.T) / n for s in range(t)])
            A[t, :t] = np.linalg.solve((np.eye(t) + D[:t, :t] @ A[:t, :t]).T, P)
        for s in range(t + 1):
            D[t, s] = float(s == t) + sum(A[t, r] * D[r, s] for r in range(s, t))
        h = X @ theta
        corrected = h - sum((A[t, s] * gradients[s] for s in range(t)), np.zeros(n))
        gradients.append(h - y)
        R = [damping * r - lr * X.T @ X @ r for r in R] + [-lr * np.eye(d)]
        theta = damping * theta - lr * X.T @ gradients[t]
    return corrected


@pytest.mark.parametrize(("n", "d"), [(12, 9), (9, 12)])
def test_one_vector_gives_the_trace_for_squared_loss(n, d):
    (X, _), y, seen = correlated(n, d, 1), normal(n, seed=3), []
    algorithm = dd.GradientDescent(0.3, 0.95, estimate=True, noise="any covariance")
    objective = dd.Objective(dd.heads.Linear(), "squared")
    dd.fit(X, y, objective, algorithm, 8, theta=torch.zeros(1, d), callbacks=seen.append)
    expected = measured(X.numpy(), y.numpy(), 8, 0.3, 0.95)
    result = seen[-1].info.preactivations[:, 0].numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-11)


CASES = {
    "gd": {"lr": 0.5},
    "momentum": {"lr": 0.2, "rule": dd.rules.SGD(0.2, momentum=0.6)},
    "batches": {"lr": 0.3, "batch_size": 200},
    "ista": {"lr": 0.5, "prox": dd.prox.SoftThreshold(0.05)},
}


@pytest.mark.parametrize(
    "name", ["gd", *(pytest.param(name, marks=pytest.mark.slow) for name in list(CASES)[1:])]
)
def test_it_estimates_the_test_error(name):
    """Eight draws; without the measurement the estimate is off by many standard errors."""
    n, d, z = 400, 500, {"any covariance": [], None: []}
    for seed in range(8):
        X, y = correlated(n + 3000, d, seed)
        for noise, values in z.items():
            algorithm = dd.GradientDescent(**CASES[name], estimate=True, noise=noise)
            run = dd.fit(X[:n], y[:n], LOGISTIC, algorithm, 15, theta=torch.zeros(1, d),
                         test=(X[n:], y[n:]), seed=seed)  # fmt: skip
            gap = run.estimated_test_error - run.test_error
            values.append(float(gap[-1] / run.train_error_stderr[-1]))
    assert abs(np.mean(z["any covariance"])) < 3 * 8**-0.5
    assert np.sqrt(np.mean(np.square(z["any covariance"]))) < 1.6
    assert np.mean(z[None]) > 2


def test_it_is_the_run_without_the_row():
    X, y = correlated(300, 400, seed=4)
    algorithm, seen = dd.GradientDescent(0.5, estimate=True, noise="any covariance"), []
    theta, left_out, literal = torch.zeros(1, 400), range(0, 300, 20), []
    dd.fit(X, y, LOGISTIC, algorithm, 25, theta=theta, callbacks=seen.append)
    for i in left_out:
        rest = torch.arange(300) != i
        refit = dd.fit(X[rest], y[rest], LOGISTIC, dd.GradientDescent(0.5), 25, theta=theta)
        literal.append(X[i] @ refit.theta[0].double())
    truth, index = torch.stack(literal), torch.tensor(list(left_out))
    plain, ours = X @ seen[-1].state.theta[0], seen[-1].info.preactivations[:, 0]
    gaps = [float((h[index] - truth).square().mean().sqrt()) for h in (plain, ours)]
    assert gaps[1] < 0.2 * gaps[0]


def test_independent_columns_and_several_units():
    """XOR, where the responses need no measurement: both estimates agree."""
    X, y = dd.mixtures.xor(300, 4.0).sample(300, seed=0)
    objective = dd.Objective(dd.heads.TwoLayer(2, seed=0), "logistic")
    runs = [dd.fit(X, y, objective, dd.GradientDescent(0.1, estimate=True, noise=noise), 30)
            for noise in (None, "any covariance")]  # fmt: skip
    assert torch.equal(runs[0].theta, runs[1].theta)
    gap = (runs[0].estimated_test_error - runs[1].estimated_test_error)[-1]
    optimism = float((runs[0].estimated_test_error - runs[0].train_error)[-1])
    assert abs(float(gap)) < 0.1 * optimism
    ratio = runs[1].train_error_stderr[-1] / runs[0].train_error_stderr[-1]
    assert 0.9 < float(ratio) < 1.1


def test_it_can_be_continued():
    X, y = correlated(60, 40, seed=1)
    algorithm = dd.GradientDescent(0.3, estimate=True, noise="any covariance")
    states = []
    whole = dd.fit(X, y, LOGISTIC, algorithm, 24, callbacks=lambda s: states.append(s.state))
    for start in (0, 5, 20):
        rest = dd.fit(X, y, LOGISTIC, algorithm, 24 - start, state=states[start])
        torch.testing.assert_close(
            rest.estimated_test_error, whole.estimated_test_error[start:], rtol=1e-10, atol=1e-12
        )


def test_it_is_for_gradient_descent():
    with pytest.raises(ValueError, match="there is OrthogonalDecoupledDescent"):
        dd.DecoupledDescent(0.1, noise="any covariance")
