"""Influence of rows on logistic ridge regression with more columns than rows: Newfluence.

Source: Zou, Auddy, Kwon, Rahnama Rad and Maleki, "Newfluence: boosting model interpretability and
understanding in high dimensions" (arXiv 2507.11895), figure 1.

Setting: logistic ridge, n = 500, p = 1000, λ = 0.01. The figure shows the influence of rows against
literal refits: one Newton step is on the diagonal, the infinitesimal formula is not.
The laws of X and β, and whether λ stands beside the sum of the losses, are in the text only; here X
has N(0, 1/p) entries, β has N(0, 1) entries, and λ stands beside the sum. The influence is taken at
the row itself. The numbers: the slopes of influences against those of refits.
"""

import numpy as np
import pytest
import torch

import decoupled_descent as dd

RIDGE, REFITS = 0.01, 25


def problem(n, p):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p)) / p**0.5
    y = rng.random(n) < 1 / (1 + np.exp(-X @ rng.normal(size=p)))
    return torch.tensor(X), torch.tensor(y, dtype=torch.float64)


def slope(influence, true):
    return float(influence @ true / (true @ true))


def slopes_at_the_minimum(n, p):
    """The slope of our influences, its correlation, and the slope of infinitesimal ones."""
    (X, y), objective = problem(n, p), dd.Objective(dd.heads.Linear(), "logistic")
    algorithm = dd.DecoupledNewton(ridge=RIDGE, repairs=0)
    seen = []
    run = dd.fit(X, y, objective, algorithm, callbacks=seen.append)
    outputs, rows = X @ run.theta[0], range(0, n, n // REFITS)
    true = []
    for i in rows:
        rest = torch.arange(n) != i
        true.append(X[i] @ dd.fit(X[rest], y[rest], objective, algorithm).theta[0] - outputs[i])
    true, rows = torch.stack(true), torch.tensor(rows)
    chances = torch.sigmoid(outputs)
    hessian = (X.T * (chances * (1 - chances))) @ X + RIDGE * torch.eye(p, dtype=X.dtype)
    own = (X * torch.linalg.solve(hessian, X.T).T).sum(1)  # x_iᵀH⁻¹x_i
    infinitesimal = (own * (chances - y))[rows]
    ours = (seen[-1].info.preactivations[:, 0] - outputs)[rows]
    return slope(ours, true), float(np.corrcoef(ours, true)[0, 1]), slope(infinitesimal, true)


def slopes_on_the_path(n, p, steps):
    """The slope of the influences on the last iterate, and their correlation."""
    (X, y), objective = problem(n, p), dd.Objective(dd.heads.Linear(), "logistic")
    options = {"lr": 4 / (1 + (n / p) ** 0.5) ** 2, "prox": dd.prox.Ridge(RIDGE)}
    theta, seen = torch.zeros(1, p, dtype=X.dtype), []
    algorithm = dd.GradientDescent(**options, estimate=True)
    dd.fit(X, y, objective, algorithm, steps, theta=theta, callbacks=seen.append)
    outputs = X @ seen[-1].state.theta[0]
    rows, true = torch.arange(0, n, n // REFITS), []
    for i in rows:
        rest = torch.arange(n) != i
        plain = dd.GradientDescent(**options)
        refit = dd.fit(X[rest], y[rest], objective, plain, steps, theta=theta)
        true.append(X[i] @ refit.theta[0] - outputs[i])
    true = torch.stack(true)
    ours = (seen[-1].info.preactivations[:, 0] - outputs)[rows]
    return slope(ours, true), float(np.corrcoef(ours, true)[0, 1])


def check_minimum(n, p):
    ours, correlation, infinitesimal = slopes_at_the_minimum(n, p)
    assert abs(ours - 1) < 0.01
    assert correlation > 0.999
    assert infinitesimal < 0.5


def check_path(n, p, steps, left):
    ours, correlation = slopes_on_the_path(n, p, steps)
    assert abs(ours - 1) < left
    assert correlation > 0.98


def test_smaller_problems():
    check_minimum(100, 200)
    check_path(150, 300, 25, left=0.08)


@pytest.mark.slow
def test_the_minimum():
    check_minimum(500, 1000)


@pytest.mark.slow
def test_the_path():
    check_path(500, 1000, 60, left=0.05)
