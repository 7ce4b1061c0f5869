"""Rows that are read block by block, rows of weight zero, and levels."""

import numpy as np
import pandas as pd
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


def test_groups_and_weights_by_name():
    """A column that is named is not used to predict, and counts as its values do."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=90), "b": rng.normal(size=90)})
    y = table["a"] + rng.normal(size=90)
    site, weight = rng.choice(list("abcdefgh"), 90), rng.uniform(0.5, 2, 90)
    options = {"features": "linear", "ridge": 1.0}
    named = dd.DecoupledRegressor(**options).fit(
        table.assign(site=site, wt=weight), y, sample_weight="wt", groups="site"
    )
    plain = dd.DecoupledRegressor(**options).fit(table, y, sample_weight=weight, groups=site)
    assert named.estimated_test_error_ == plain.estimated_test_error_
    assert list(named.feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(named.predict(table.assign(site=site)), plain.predict(table))
    with pytest.raises(ValueError, match="groups='sites' names no column of X; columns are 'a'"):
        dd.DecoupledRegressor(**options).fit(table, y, groups="sites")
    with pytest.raises(ValueError, match="X has no names of columns"):
        dd.DecoupledRegressor(**options).fit(table.to_numpy(), y, groups="site")
