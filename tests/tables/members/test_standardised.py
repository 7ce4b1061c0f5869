"""Standardised columns."""

import numpy as np
import torch

from decoupled_descent.tables.members.standardised import column_moments
from decoupled_descent.tables.prediction.predictor import standardised
from tests.tables.members.problems import table


def test_moments_are_weighted_and_constant_columns_have_scale_one():
    given = table(weights=torch.linspace(1, 2, 80, dtype=torch.float64))
    X = given.X.copy()
    X[:, 2] = 7.0
    mean, scale = column_moments(given._replace(X=X))
    expected = np.average(X, axis=0, weights=given.weights)
    np.testing.assert_allclose(mean, expected, rtol=1e-12)
    spread = np.sqrt(np.average((X - expected) ** 2, axis=0, weights=given.weights))
    np.testing.assert_allclose(scale[[0, 1, 3]], spread[[0, 1, 3]], rtol=1e-9)
    assert scale[2] == 1
    Z = standardised(np.array([[0.0, 1e9, 7.0, 0.0]]), mean, scale)
    assert Z[0, 1] == 5
    assert Z[0, 3] == -5
