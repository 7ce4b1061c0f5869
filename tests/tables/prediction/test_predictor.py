"""Predictions with NumPy; test_export.py runs them without other libraries."""

import numpy as np

from decoupled_descent.tables.prediction.predictor import _encoded, _spelling, leaves


def test_categories_are_spelt_as_in_training():
    column = {"name": "t", "kind": "category", "levels": ["Ulm", "a"], "other": True}
    column["missing"] = True
    found = _encoded(column, ["ULM ", "a", "A", None, "Rom"]).argmax(1).tolist()
    assert found == [0, 1, 2, 3, 2]
    assert _spelling("New  York") == "new york"


def test_rows_end_at_the_leaf_of_their_side():
    arrays = {
        "feature": np.array([0, -1, -1], np.int32),
        "threshold": np.array([0.5, 0.0, 0.0]),
        "left": np.array([1, 0, 0], np.int32),
        "right": np.array([2, 0, 0], np.int32),
        "roots": np.array([0]),
    }
    X = np.array([[0.2], [0.5], [0.7]])
    assert leaves(arrays, X).tolist() == [[1], [1], [2]]
