"""Columns of a network's inputs."""

import numpy as np
import pytest

from decoupled_descent.tables.estimators.input_scaling import InputScaling
from decoupled_descent.tables.features.scaling import CLIP


def test_columns_have_variance_one_over_d_without_constant_ones():
    X = np.random.default_rng(0).normal(3.0, 2.0, (400, 5))
    X[:, 2] = 7.0
    scaling = InputScaling.learn(X)
    scaled = scaling.apply(X)
    assert (scaled[:, 2] == 0).all()
    np.testing.assert_allclose(scaled[:, scaling.varying].var(0), 1 / 4, rtol=1e-2)
    far = scaling.apply(np.full((1, 5), 1e9))
    np.testing.assert_allclose(far[:, scaling.varying], CLIP / 2)


def test_constant_columns_alone_are_refused():
    with pytest.raises(ValueError, match="every column of X is constant"):
        InputScaling.learn(np.ones((4, 2)))
