"""Rows and labels of a model: units, and rows as numbers."""

import numpy as np
from scipy import sparse

from decoupled_descent.evaluation.kinds import PROBABILITIES
from decoupled_descent.evaluation.task import Task

X, labels = np.eye(4), np.array([1, 0, 2, 1])


def test_units_are_rows_or_groups():
    task = Task(X, labels, labels, PROBABILITIES, np.arange(3))
    assert [own.tolist() for own in task.units] == [[0], [1], [2], [3]]
    grouped = Task(X, labels, labels, PROBABILITIES, groups=np.array([1, 0, 1, 0]))
    assert [own.tolist() for own in grouped.units] == [[1, 3], [0, 2]]
    np.testing.assert_array_equal(task.one_hot(), np.eye(3)[labels])


def test_sparse_rows_as_numbers():
    task = Task(X, labels, labels, PROBABILITIES).with_rows(sparse.csr_array(X))
    np.testing.assert_array_equal(task.matrix, X)
    np.testing.assert_array_equal(task.row_weights, np.ones(4))
