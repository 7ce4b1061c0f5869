"""What all feature maps have in common."""

import pytest
from sklearn.utils import get_tags

from decoupled_descent.tables.features import Kernel, Transformed


def test_parameters():
    kernel = Kernel("rbf", 2.0)
    assert list(kernel.get_params()) == ["kind", "scale", "ranks", "landmarks", "seed"]
    assert kernel.set_params(ranks=True) is kernel
    with pytest.raises(ValueError, match="Kernel has no parameter 'width'"):
        kernel.set_params(width=2)
    assert repr(kernel) == "Kernel(scale=2.0, ranks=True)"
    assert repr(Transformed(3)) == "Transformed(transformer=3)"


def test_tags():
    tags = get_tags(Kernel())
    assert tags.input_tags.sparse
    assert not tags.target_tags.required
