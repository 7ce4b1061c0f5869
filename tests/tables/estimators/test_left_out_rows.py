"""Which training rows are left out for intervals."""

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.tables.estimators import left_out_rows
from tests.tables.estimators.problems import real


@pytest.mark.parametrize(("groups", "expected"), [(None, 50), (np.arange(400) // 8, 48)])
def test_of_many_rows_some_are_left_out_in_whole_groups(monkeypatch, groups, expected):
    monkeypatch.setattr(left_out_rows, "MOST", 50)
    X, y = real(400)
    model = dd.DecoupledRegressor(features="linear").fit(X, y, groups=groups)
    rows, ends = model.training_intervals(0.8)
    assert len(rows) == len(ends) == expected
    if groups is not None:
        assert (np.unique(groups[rows], return_counts=True)[1] == 8).all()
