"""Rows that several kernels share."""

import numpy as np
import torch

from decoupled_descent.tables.features.shared import TrainingRows
from tests.problems import normal


def test_scales_and_distances_are_made_once():
    training = TrainingRows(normal(9, 2))
    assert training.scaled(False) is training.scaled(False)
    assert training.scaled(False) is not training.scaled(True)
    assert training.scaled(False).geometry is training.scaled(False).geometry


def test_rows_of_weight_zero_are_set_apart():
    X = normal(9, 2)
    training = TrainingRows(X, [1, 0, 2, 1, 1, 0, 1, 1, 1])
    assert not training.complete
    kept = [0, 2, 3, 4, 6, 7, 8]
    assert training.present.tolist() == kept
    rows = training.scaled(False).rows
    weights = training.weights
    np.testing.assert_allclose(weights @ rows, 0, atol=1e-12)
    assert torch.equal(rows, training.scaled(False).columns.apply(X[kept]))
