"""Logistic regression by gradient descent with every row left out, at every iterate: IACV.

Source: Luo, Ren and Barber, "Iterative approximate cross-validation" (arXiv 2303.02732), code
github.com/yuetianluo/IACV, ``gd_experiment_parallel.m`` and ``comparison_gd.m``.

Setting: N(0, 1) entries of X, p = 20, five coefficients N(0, 1) at random places, n = 250 or 1000,
ridge 10⁻⁶ n beside the sum of the losses, steps 0.5/n from zero, 7000 of them. They compare the
mean loss of iterates without each row with its approximation and with the training loss ("base").
Only figures are given. Responses take T³ operations, so the first 80 iterates are compared here;
``test_iacv.py`` has the minimum. The number: the part of the baseline's error that is left.
"""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from tests.published.descents import followed

P, STEPS = 20, 80


def problem(n, seed):
    rng = np.random.default_rng(seed)
    X, beta = rng.normal(size=(n, P)), np.zeros(P)
    beta[rng.permutation(P)[:5]] = rng.normal(size=5)
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ beta))).astype(float)


def literal(X, y, rate, ridge):
    """The mean loss of rows at the iterates without them, all n descents at once."""
    thetas, losses = np.zeros(X.shape), []
    for _ in range(STEPS):
        own = (X * thetas).sum(1)
        losses.append(np.mean(np.logaddexp(0, own) - y * own))
        slopes = 1 / (1 + np.exp(-thetas @ X.T)) - y
        np.fill_diagonal(slopes, 0)
        thetas = thetas - rate * (slopes @ X + ridge * thetas)
    return np.array(losses)


def errors_left(n, seed):
    """The error of the estimate over that of the training loss, from the third iterate on."""
    X, y = problem(n, seed)
    rate, ridge = 0.5 / n, 1e-6 * n
    algorithm = dd.GradientDescent(rate, 1 - rate * ridge, estimate=True, noise="row norms")
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    both = (torch.tensor(X), torch.tensor(y), objective, algorithm, STEPS)
    errors = followed(*both, lambda step: (step.info.train_error, step.info.fitted)).numpy()
    ours, baseline = np.abs(errors - literal(X, y, rate, ridge)[:, None])[2:].T
    return ours / baseline


@pytest.mark.parametrize(("n", "left"), [(250, 0.05), (1000, 0.05)])
def test_iterates_without_each_row(n, left):
    assert max(errors_left(n, seed).max() for seed in range(3)) < left
