"""What ``import decoupled_descent`` gives, and what it does not cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

import decoupled_descent as dd


def test_every_public_name_is_there():
    assert set(dd.__all__) <= set(dir(dd))
    for name in dd.__all__:
        assert getattr(dd, name) is not None
    assert dd.estimators.DecoupledClassifier is dd.DecoupledClassifier


def test_names_that_do_not_exist():
    with pytest.raises(AttributeError, match="no attribute 'DecoupledForest'"):
        _ = dd.DecoupledForest


def test_slow_libraries_wait_until_they_are_needed():
    program = (
        "import sys, decoupled_descent\n"
        "slow = {'matplotlib', 'pandas', 'sklearn', 'scipy.stats'} & set(sys.modules)\n"
        "assert not slow, slow\n"
        "assert decoupled_descent.DecoupledClassifier().get_params()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
