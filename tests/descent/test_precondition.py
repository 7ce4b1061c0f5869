"""Approximate inverses of the Hessian, against dense matrices."""

import pytest
import torch

from decoupled_descent.descent import precondition as module
from decoupled_descent.descent.newton_step import _System, newton_step
from tests.descent.test_newton_step import CASES, posed
from tests.problems import normal


def preconditioned(at, loss, outputs, intercept):
    """Curvatures, a right-hand side, and what the preconditioner makes of it."""
    bends = at.expand(normal(40, outputs, seed=4))
    curvature = (at.weights * bends.diagonal.T).clamp_min(0)
    theta, shift = normal(outputs, 6, seed=5), normal(outputs, seed=6) * intercept
    if loss == "cross_entropy":  # blind to a common shift, but for the tiny ridge
        shift -= shift.mean()
    found = module.Dual(at.rows, at.ridge, curvature, bends, intercept)(theta, shift)
    return bends, curvature, theta, shift, found


@pytest.mark.parametrize(("loss", "outputs", "intercept"), CASES)
def test_the_dual_preconditioner_is_the_inverse(monkeypatch, loss, outputs, intercept):
    monkeypatch.setattr(module, "SMALL", 0.0)
    at = posed(loss, outputs, intercept=intercept)
    bends, _, theta, shift, (found, found_shift) = preconditioned(at, loss, outputs, intercept)
    back, back_shift, _ = _System(at, bends, intercept).times(found, found_shift)
    close = {"rtol": 1e-5, "atol": 1e-5}  # it need not be exact; the gradient is
    torch.testing.assert_close(back, theta, **close)
    tiny = 1e-6 * 40 * found_shift if intercept else 0.0
    torch.testing.assert_close(back_shift + tiny, shift, **close)


@pytest.mark.parametrize("limit", [0.2, 0.5, 100.0])
def test_small_curvatures_are_zero_in_the_preconditioner(monkeypatch, limit):
    """It is the inverse for softmax among the classes that are left in each row."""
    monkeypatch.setattr(module, "SMALL", limit)
    at = posed("cross_entropy", 3)
    _, curvature, theta, shift, (found, found_shift) = preconditioned(at, "cross_entropy", 3, True)
    X = at.rows.X
    size = curvature * X.square().sum(1) / at.ridge
    left = curvature * (size >= size.amax(1, keepdim=True).clamp_max(limit))  # (K, n)
    W = torch.diag_embed(left.T) - torch.einsum(
        "an,bn->nab", left, left / left.sum(0).clamp_min(1e-300)
    )
    phi = torch.cat([X, torch.ones(40, 1)], 1).double()
    H = torch.einsum("np,nab,nq->apbq", phi, W, phi)
    ridge = torch.tensor([at.ridge] * 6 + [1e-6 * 40]).double()
    H += torch.einsum("ab,pq->apbq", torch.eye(3).double(), ridge.diag())
    both = torch.cat([found, found_shift.unsqueeze(1)], 1)
    back = torch.einsum("apbq,bq->ap", H, both)
    wanted = torch.cat([theta, shift.unsqueeze(1)], 1)
    torch.testing.assert_close(back, wanted, rtol=1e-5, atol=1e-5)


def test_many_features_are_preconditioned_in_part(monkeypatch):
    monkeypatch.setattr(module, "LEAD", 2)
    at = posed("logistic")
    theta, shift = torch.zeros(1, 6).double(), torch.zeros(1).double()
    for _ in range(12):
        move = newton_step(at, theta, shift)
        theta, shift = move.theta, move.intercept
    assert move.decrement < 1e-10
