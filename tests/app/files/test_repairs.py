"""Rows with bad cells are left out and listed; classes are merged."""

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.files.repairs import as_table, merge_classes, skip_bad_rows


def table(n=30):
    frame = pd.DataFrame({"a": np.arange(n) * 1.5, "b": [str(k) for k in range(n)]})
    frame["y"] = ["yes", "no"] * (n // 2)
    return frame.set_axis(range(1, n + 1))


def test_bad_cells_of_every_kind():
    frame = table()
    frame.loc[3, "a"] = np.inf
    frame.loc[5, "b"] = "five"
    frame.loc[8, "y"] = "yess"
    repaired, skipped = skip_bad_rows(frame, "y")
    assert [(one.where, one.column, one.value) for one in skipped] == [
        ("row 3", "a", "inf"),
        ("row 5", "b", "five"),
        ("row 8", "y", "yess"),
    ]
    assert repaired.index[repaired["y"].isna()].tolist() == [3, 5, 8]
    assert np.isnan(repaired.loc[3, "a"])
    assert frame.loc[3, "y"] == "yes"  # the table of the caller stays
    assert as_table(skipped).splitlines()[1] == 'row 3,a,inf,"not a number, or infinite"'


def test_good_tables_stay():
    repaired, skipped = skip_bad_rows(table(), "y")
    assert skipped == []
    pd.testing.assert_frame_equal(repaired, table())
    assert skip_bad_rows(table().assign(b="x7"), "y", unused=["b"])[1] == []


def test_numbers_as_target():
    frame = table().assign(y=[*range(1, 30), "x"])
    _, skipped = skip_bad_rows(frame, "y")
    assert [one.where for one in skipped] == ["row 30"]


def test_classes_are_merged():
    column = pd.Series(["yes", "yess", " yess ", None], name="y")
    assert merge_classes(column, ["yess=yes"]).tolist()[:3] == ["yes"] * 3
    with pytest.raises(ValueError, match="no row has 'jes'; did you mean 'yes'"):
        merge_classes(column, ["jes=yes"])
    with pytest.raises(ValueError, match="must be old=new"):
        merge_classes(column, ["yess"])
