"""S of one output, by an r × r factor and by an n × n matrix, against its definition."""

import numpy as np
import pytest
import torch

from decoupled_descent.leave_one_out.kernel import KernelInfluence
from decoupled_descent.leave_one_out.ridge import RidgeInfluence
from decoupled_descent.rows.blocks import Rows
from tests.problems import normal

N, RIDGE = 12, 0.7
ROWS = torch.tensor([7, 0, 3])


@pytest.mark.parametrize("intercept", [True, False])
def test_both_forms_against_the_definition(intercept):
    features, diagonal = normal(N, 5, seed=2), normal(N, seed=3).square() + 0.1
    ones = np.full((N, 1), float(intercept))
    phi = np.hstack([features.numpy(), ones])
    penalty = np.diag([RIDGE] * 5 + [0.0 if intercept else 1.0])
    wanted = phi @ np.linalg.inv(phi.T @ (diagonal.numpy()[:, None] * phi) + penalty) @ phi.T
    for influence in (
        RidgeInfluence(Rows(features), diagonal, RIDGE, intercept),
        KernelInfluence(features @ features.T, diagonal, RIDGE, intercept),
    ):
        np.testing.assert_allclose(influence.dense(), wanted, rtol=0, atol=1e-11)


def test_products_and_blocks_are_those_of_the_dense_matrix():
    features, diagonal = normal(N, 5, seed=2), normal(N, seed=3).square() + 0.1
    values, ones = normal(N, 2, seed=4), torch.ones(len(ROWS), 1, dtype=torch.float64)
    for influence in (
        RidgeInfluence(Rows(features), diagonal, RIDGE),
        KernelInfluence(features @ features.T, diagonal, RIDGE),
    ):
        S = influence.dense()
        torch.testing.assert_close(influence.blocks[:, 0, 0], S.diagonal())
        torch.testing.assert_close(influence.columns(ROWS, ones)[0], S[:, ROWS])
        torch.testing.assert_close((influence @ values.unsqueeze(0))[0], S @ values)
        own = (S @ values)[[3, 1], [0, 1]]
        rows = torch.tensor([3, 1])
        torch.testing.assert_close(influence.at(rows, values.unsqueeze(0))[:, 0], own)
        hat = S @ diagonal  # constants are fitted exactly, because the intercept is free
        torch.testing.assert_close(hat, torch.ones_like(hat))
