"""What ``decoupled_descent.datasets`` gives."""

import pytest

from decoupled_descent import datasets


def test_every_public_name_is_there():
    assert all(getattr(datasets, name) is not None for name in datasets.__all__)
    with pytest.raises(AttributeError, match="no attribute 'load_everything'"):
        _ = datasets.load_everything
