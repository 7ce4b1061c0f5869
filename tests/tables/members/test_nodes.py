"""Nodes of trees: what a file may claim, and what is refused."""

import numpy as np
import pytest

from decoupled_descent.tables.members.nodes import are_consistent, leaves_of


def stump(**changes):
    """One split of one column, with changes."""
    arrays = {
        "feature": np.array([0, -1, -1], np.int32),
        "left": np.array([1, 0, 0], np.int32),
        "right": np.array([2, 0, 0], np.int32),
        "roots": np.array([0]),
        "columns": 1,
    }
    changed = {name: np.array(value) for name, value in changes.items() if name != "columns"}
    return arrays | changes | changed


def test_a_stump_is_consistent():
    assert are_consistent(**stump())


@pytest.mark.parametrize(
    "changes",
    [
        {"left": [0, 0, 0]},  # leads back: no row would ever reach a leaf
        {"right": [3, 0, 0]},
        {"roots": [3]},
        {"feature": [1, -1, -1]},
        {"columns": 0},
    ],
)
def test_other_nodes_are_not(changes):
    assert not are_consistent(**stump(**changes))


def test_rows_end_at_the_leaf_of_their_side():
    arrays = stump()
    columns = arrays.pop("columns")
    X = np.array([[0.2], [0.5], [0.7]])
    assert columns == X.shape[1]
    assert leaves_of(X, threshold=np.array([0.5, 0.0, 0.0]), **arrays).tolist() == [[1], [1], [2]]
