"""Approximate inverses of the Hessian, against dense matrices."""

import pytest
import torch

from decoupled_descent.leave_one_out import precondition as module
from decoupled_descent.leave_one_out.minimise import Hessian, newton_step
from tests.leave_one_out.test_minimise import CASES, posed
from tests.problems import normal


def preconditioned(at, loss, outputs, intercept):
    """The loss to second order, a right-hand side, and what the preconditioner makes of it."""
    bends = at.expand(normal(40, outputs, seed=4))
    beta = torch.cat([normal(outputs, 6, seed=5), normal(outputs, 1, seed=6) * intercept], 1)
    if loss == "cross_entropy":  # blind to a common shift, but for the tiny ridge
        beta[:, -1] -= beta[:, -1].mean()
    return bends, beta, module.KernelPreconditioner(at, bends)(beta)


@pytest.mark.parametrize(("loss", "outputs", "intercept"), CASES)
def test_the_dual_preconditioner_is_the_inverse(monkeypatch, loss, outputs, intercept):
    monkeypatch.setattr(module, "SMALL", 0.0)
    at = posed(loss, outputs, intercept=intercept)
    bends, beta, result = preconditioned(at, loss, outputs, intercept)
    penalty = torch.tensor([at.ridge] * 6 + [1e-6 * 40 * intercept]).double()
    back, _ = Hessian(at, bends, penalty)(result)
    # it need not be exact; the gradient is
    torch.testing.assert_close(back, beta, rtol=1e-5, atol=1e-5)


def test_outputs_of_equal_curvature_share_one_factor():
    at = posed("squared", 2)
    equal = at.expand(normal(40, 2, seed=4))
    unequal = equal._replace(diagonal=equal.diagonal + 1e-9 * normal(40, 2, seed=7).abs())
    both, apart = (module.KernelPreconditioner(at, bends) for bends in (equal, unequal))
    assert both.parts[0] is both.parts[1]
    assert apart.parts[0] is not apart.parts[1]
    beta = normal(2, 7, seed=5)
    torch.testing.assert_close(both(beta), apart(beta), rtol=1e-6, atol=1e-6)
    lead = [module.LeadingFeatures(at, bends) for bends in (equal, unequal)]
    assert [len(one.lead) for one in lead] == [1, 2]
    torch.testing.assert_close(lead[0](beta), lead[1](beta), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("limit", [0.2, 0.5, 100.0])
def test_small_curvatures_are_zero_in_the_preconditioner(monkeypatch, limit):
    """It is the inverse for softmax among the classes that are left in each row."""
    monkeypatch.setattr(module, "SMALL", limit)
    at = posed("cross_entropy", 3)
    bends, beta, result = preconditioned(at, "cross_entropy", 3, True)
    curvature = at.weights * bends.diagonal.T
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
    back = torch.einsum("apbq,bq->ap", H, result)
    torch.testing.assert_close(back, beta, rtol=1e-5, atol=1e-5)


def test_many_features_are_preconditioned_in_part(monkeypatch):
    monkeypatch.setattr(module, "LEAD", 2)
    at = posed("logistic")
    theta, shift = torch.zeros(1, 6).double(), torch.zeros(1).double()
    for _ in range(12):
        move = newton_step(at, theta, {"b": shift})
        theta, shift = move.theta, move.head["b"]
    assert move.decrement < 1e-10
