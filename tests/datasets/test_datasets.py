"""What ``decoupled_descent.datasets`` gives, and what it does not import."""

import subprocess
import sys

import pytest

from decoupled_descent import datasets


def test_every_public_name_is_there():
    assert all(getattr(datasets, name) is not None for name in datasets.__all__)
    with pytest.raises(AttributeError, match="no attribute 'load_everything'"):
        _ = datasets.load_everything


def test_scikit_learn_waits_until_it_is_needed():
    program = (
        "import sys\n"
        "from decoupled_descent import datasets\n"
        "assert not {'sklearn', 'pandas'} & set(sys.modules)\n"
        "assert datasets.Whitening().get_params()['method'] == 'zca'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
