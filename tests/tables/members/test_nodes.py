"""Nodes of trees: what a file may claim, and what is refused."""

import numpy as np
import pytest

from decoupled_descent.tables.members.nodes import are_consistent


def stump(**changes):
    """One split of one column, with changes."""
    arrays = {
        "feature": np.array([0, -1, -1], np.int32),
        "threshold": np.array([0.5, 0.0, 0.0]),
        "left": np.array([1, 0, 0], np.int32),
        "right": np.array([2, 0, 0], np.int32),
        "value": np.array([[0.0], [1.0], [2.0]]),
        "roots": np.array([0]),
        "low": np.array([0.0]),
        "high": np.array([1.0]),
    }
    return arrays | {name: np.array(value) for name, value in changes.items()}


def test_a_stump_is_consistent():
    assert are_consistent(**stump())


@pytest.mark.parametrize(
    "changes",
    [
        {"left": [0, 0, 0]},  # leads back: no row would ever reach a leaf
        {"right": [3, 0, 0]},
        {"roots": [3]},
        {"feature": [1, -1, -1]},
        {"value": [[np.nan], [1.0], [2.0]]},
        {"low": [2.0]},
    ],
)
def test_other_nodes_are_not(changes):
    assert not are_consistent(**stump(**changes))
