"""S of one output by an n × n matrix."""

import torch

from decoupled_descent.leave_one_out.kernel import DenseInfluence, KernelInfluence
from decoupled_descent.leave_one_out.ridge import RidgeInfluence
from decoupled_descent.rows.blocks import Rows
from tests.problems import normal


def test_the_kernel_form_is_the_ridge_form():
    features, diagonal = normal(12, 30, seed=2), normal(12, seed=3).square() + 0.1
    ridge = RidgeInfluence(Rows(features), diagonal, 0.7)
    kernel = KernelInfluence(features @ features.T, diagonal, 0.7)
    torch.testing.assert_close(kernel.dense(), ridge.dense())
    torch.testing.assert_close(kernel.blocks, ridge.blocks)


def test_columns_leave_the_matrix_as_it_is():
    matrix = normal(4, 4)
    influence = DenseInfluence(matrix.clone())
    rows, values = torch.tensor([1, 2]), normal(2, 1, seed=1)
    expected = matrix[:, rows] * values[:, 0]
    torch.testing.assert_close(influence.columns(rows, values)[0], expected)
    torch.testing.assert_close(influence.columns(rows, values, rows)[0], expected[rows])
    assert torch.equal(influence.matrix, matrix)
