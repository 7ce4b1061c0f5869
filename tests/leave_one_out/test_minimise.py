"""One Newton step: its direction against a dense solve, its length, and its bookkeeping."""

import math

import numpy as np
import pytest
import torch
from torch.func import grad, hessian

import decoupled_descent as dd
from decoupled_descent.leave_one_out import minimise as module
from decoupled_descent.leave_one_out import minimum
from decoupled_descent.leave_one_out.minimise import line_search, newton_step
from decoupled_descent.leave_one_out.problem import Problem
from tests.leave_one_out.test_newton import own_softmax, problem
from tests.problems import normal


def posed(loss, outputs=1, ridge=0.5, intercept=True, weights=None, name=None):
    X, y = problem(name or loss, outputs=outputs)
    rows = dd.Rows(X, y, **({} if weights is None else {"weights": weights}))
    objective = dd.Objective(dd.heads.Linear(outputs, intercept=intercept).double(), loss)
    return Problem(rows, objective.bind(rows.y, outputs, rows.X), ridge)


def total(posed, flat, outputs):
    """F as a function of all parameters, θ first."""
    X = posed.rows.X
    theta = flat[: outputs * X.shape[1]].reshape(outputs, -1)
    shift = flat[outputs * X.shape[1] :]
    result = X @ theta.T + (shift if len(shift) else 0.0)
    loss = posed.bound.objective.loss
    if loss.name == "cross_entropy" or not loss.builtin:
        losses = own_softmax(result, posed.rows.y)
    elif loss.name == "logistic":
        losses = torch.nn.functional.softplus(result[:, 0]) - posed.rows.y * result[:, 0]
    else:
        losses = 0.5 * (result - posed.rows.y.reshape(result.shape)).square().sum(1)
    return posed.weights @ losses + 0.5 * posed.ridge * theta.square().sum()


CASES = [
    ("squared", 1, True),
    ("squared", 2, True),
    ("logistic", 1, True),
    ("logistic", 1, False),
    ("cross_entropy", 3, True),
]


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("loss", "outputs", "intercept"), CASES)
def test_the_direction_is_a_dense_solve(monkeypatch, loss, outputs, intercept, weighted, dual):
    monkeypatch.setattr(module, "FORCING", 1e-14)
    monkeypatch.setattr(minimum, "DUAL", 0.0 if dual else math.inf)
    weights = normal(40, seed=8).abs().numpy() + 0.3 if weighted else None
    at = posed(loss, outputs, intercept=intercept, weights=weights)
    size = outputs * at.rows.d
    start = 1e-4 * normal(size + outputs * intercept, seed=1)
    if loss == "cross_entropy":  # where the loss is blind, the way is that of the least norm
        start[:size] -= start[:size].reshape(outputs, -1).mean(0).repeat(outputs)
        start[size:] -= start[size:].mean()
    theta, head = start[:size].reshape(outputs, -1), {"b": start[size:]} if intercept else {}

    def value(flat):
        return total(at, flat, outputs)

    # a Newton direction need not be exact far from the minimum: solve again from where it led
    move = newton_step(at, theta, head)
    for _ in range(8):
        move = newton_step(at, move.theta, move.head)
    flat = torch.cat([move.theta.reshape(-1), *move.head.values()])
    slope = grad(value)(flat)
    assert float(slope.abs().max()) < 1e-8
    first = newton_step(at, theta, head)
    slope, bend = grad(value)(start), hessian(value)(start)
    exact = float(slope @ torch.linalg.pinv(bend, rtol=1e-12, hermitian=True) @ slope)
    result = first.decrement * float(value(start))  # a share of what is minimised
    assert result == pytest.approx(exact, rel=0.05)
    assert result <= exact * (1 + 1e-9)


def test_an_older_preconditioner_leads_to_the_same_minimum():
    at = posed("cross_entropy", 3)
    first = newton_step(at, torch.zeros(3, 6).double(), {"b": torch.zeros(3).double()})
    fresh, lagged = first, first
    for _ in range(8):
        fresh = newton_step(at, fresh.theta, fresh.head)
        lagged = first.again(at, lagged.theta, lagged.head)
    assert lagged.inverse is first.inverse
    torch.testing.assert_close(lagged.theta, fresh.theta, rtol=1e-6, atol=1e-8)


def test_squared_loss_needs_one_direction():
    at = posed("squared", ridge=3.0)
    move = newton_step(at, torch.zeros(1, 6).double(), {"b": torch.zeros(1).double()})
    again = newton_step(at, move.theta, move.head)
    assert again.decrement < 0.1 * move.decrement
    torch.testing.assert_close(move.outputs, torch.zeros(40, 1).double())


def test_far_away_the_line_search_shortens_steps():
    at = posed("logistic", ridge=1e-3)
    theta, shift = 100 * normal(1, 6, seed=2), torch.zeros(1).double()
    values = []
    for _ in range(30):
        values.append(float(total(at, torch.cat([theta[0], shift]), 1)))
        move = newton_step(at, theta, {"b": shift})
        theta, shift = move.theta, move.head["b"]
    assert (np.diff(values) <= 1e-9).all()
    assert move.decrement < 1e-8


def test_search_halves_until_enough_is_gained():
    asked = []

    def value(t):
        asked.append(t)
        return (t - 0.2) ** 2

    t = line_search(value, 0.04, -0.4)  # the slope at 0
    assert t == 0.25
    assert asked == [1.0, 0.5, 0.25]
    assert line_search(lambda t: t, 0.0, -1.0) == 0.0  # no step helps
    assert line_search(lambda t: float("nan"), 0.0, -1.0) == 0.0
    assert line_search(lambda t: -t, 0.0, -1.0) == 1.0
