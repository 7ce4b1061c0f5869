"""The influence of rows under softmax: the dual and the primal form are the same operator."""

import pytest
import torch

from decoupled_descent.leave_one_out.kernel import KernelInfluence
from decoupled_descent.leave_one_out.ridge import RidgeInfluence
from decoupled_descent.leave_one_out.softmax import SoftmaxDual, SoftmaxPrimal
from tests.leave_one_out.test_influence import (
    RIDGE,
    ROWS,
    N,
    curvature,
    make,
    posed,
    projection,
)
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


def test_the_rough_form_has_the_digits_of_single_precision():
    _, exact, _ = make("softmax", 3, KernelInfluence, True, True)
    rough = exact.rough()
    values = normal(3, N, 5, seed=4)
    own = values[:, ROWS, 0].T
    pairs = [
        (exact @ values, rough @ values),
        (exact.columns(ROWS, own), rough.columns(ROWS, own)),
        (exact.at(ROWS, values[..., :3]), rough.at(ROWS, values[..., :3])),
        (exact.within(ROWS)(own.unsqueeze(2)), rough.within(ROWS)(own.unsqueeze(2))),
    ]
    for one, other in pairs:
        assert one.dtype == other.dtype == torch.float64
        missed = float((one - other).abs().max() / one.abs().max())
        assert 0 < missed < 1e-5
    assert rough.blocks is exact.blocks


def test_products_between_some_rows_are_those_of_the_blocks():
    _, exact, _ = make("softmax", 3, KernelInfluence, True, True)
    values = normal(len(ROWS), 3, 2, seed=5)
    expected = torch.einsum("ikjm,jmc->ikc", exact.between(ROWS), values)
    assert float((exact.within(ROWS)(values) - expected).abs().max()) < 1e-10
