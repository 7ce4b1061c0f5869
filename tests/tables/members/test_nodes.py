"""Nodes of trees: the leaf of each row."""

import numpy as np

from decoupled_descent.tables.members.nodes import leaves_of


def test_rows_end_at_the_leaf_of_their_side():
    arrays = {
        "feature": np.array([0, -1, -1], np.int32),
        "threshold": np.array([0.5, 0.0, 0.0]),
        "left": np.array([1, 0, 0], np.int32),
        "right": np.array([2, 0, 0], np.int32),
        "roots": np.array([0]),
    }
    X = np.array([[0.2], [0.5], [0.7]])
    assert leaves_of(X, **arrays).tolist() == [[1], [1], [2]]
