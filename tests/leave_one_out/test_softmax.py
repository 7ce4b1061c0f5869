"""The influence of rows under softmax: the dual and the primal form are the same operator."""

import pytest
import torch

from decoupled_descent.leave_one_out.ridge import RidgeInfluence
from decoupled_descent.leave_one_out.softmax import SoftmaxDual, SoftmaxPrimal
from tests.leave_one_out.test_influence import RIDGE, ROWS, N, curvature, posed, projection
from tests.problems import normal


@pytest.mark.parametrize("intercept", [True, False])
def test_the_dual_is_the_primal(intercept):
    bends, weights = curvature("softmax", 4), normal(N, seed=3).abs() + 0.3
    problem = posed(normal(N, 5, seed=2), bends, weights, intercept)
    matrices = [
        RidgeInfluence(problem.rows, weights * own, RIDGE, intercept).dense()
        for own in bends.diagonal.T
    ]
    dual = SoftmaxDual(matrices, weights.sqrt().unsqueeze(1) * bends.rank_one, intercept)
    primal = SoftmaxPrimal(problem, bends)
    P = projection(bends)
    values = torch.einsum("ca,ajs->cjs", P, normal(4, N, 3, seed=4))
    pairs = [
        (dual @ values, primal @ values),
        (dual.columns(ROWS, values[:, 0].T), primal.columns(ROWS, values[:, 0].T)),
    ]
    for one, other in pairs:  # softmax ignores a common shift of all outputs
        difference = one - one.mean(0) - other + other.mean(0)
        assert float(difference.abs().max()) < 1e-8
