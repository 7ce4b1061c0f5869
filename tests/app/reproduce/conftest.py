"""Fixtures that several figures share."""

import pytest

from decoupled_descent.app.reproduce import mnist
from tests.app.reproduce.small_data import write_mnist


@pytest.fixture
def mnist_data(tmp_path, monkeypatch):
    """A folder with a small stand-in for MNIST."""
    mnist._load.cache_clear()
    write_mnist(tmp_path, monkeypatch)
    yield tmp_path
    mnist._load.cache_clear()
