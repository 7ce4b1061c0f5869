"""Rows that are read block by block, rows of weight zero, and levels."""

import numpy as np
import pytest
import scipy.sparse

import decoupled_descent as dd
from decoupled_descent.tables.estimators.inputs import (
    check_level,
    of_all_processes,
    selected,
    streamed,
)


def test_arrays_and_sparse_matrices_are_not_streamed(tmp_path):
    X = np.ones((4, 2))
    np.save(tmp_path / "X.npy", X)
    small = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert all(streamed(one) is None for one in (X, scipy.sparse.csr_matrix(X), small))


def test_rows_of_weight_zero_leave_a_matrix_but_not_a_stream():
    X, kept = np.arange(6.0).reshape(3, 2), np.array([True, False, True])
    assert selected(X, kept).tolist() == [[0, 1], [4, 5]]
    with pytest.raises(ValueError, match="sample_weight is 0 in row 1"):
        selected(dd.Rows(X), kept)


def test_values_of_one_process_stay_as_they_are():
    values = [1, 2, 3]
    assert of_all_processes(np.ones((3, 1)), "groups", values) is values


@pytest.mark.parametrize("level", [0, 1, -0.5, "high", None])
def test_levels_are_between_0_and_1(level):
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        check_level(level)
