"""A small problem for all tests of training."""

import pytest

from tests.problems import binary, two_layer


@pytest.fixture
def problem():
    X, y = binary()
    return X, y, two_layer()
