"""Which inputs are raw tables, and what they are as tables of pandas."""

import sys

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse

from decoupled_descent.tables.columns.frames import as_frame, named, raw_table

NUMBERS = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    "X",
    [
        NUMBERS,
        NUMBERS.astype(int),
        NUMBERS.astype(object),
        NUMBERS.tolist(),
        np.full((2, 2), np.inf),
        scipy.sparse.csr_array(NUMBERS),
        pd.DataFrame(NUMBERS).astype(pd.SparseDtype(float)),
        [[1, "a"], [2]],
        np.array(["a", "b"]),
        np.empty((0, 3)),
    ],
)
def test_matrices_of_numbers_are_used_as_they_are(X):
    assert raw_table(X) is None


@pytest.mark.parametrize(
    "X",
    [
        np.where(NUMBERS > 4, np.nan, NUMBERS),
        np.where(NUMBERS > 4, None, NUMBERS),
        [[1.0, "a"], [2.0, "b"]],
        [[1.0, None], [2.0, 3.0]],
        np.array([["a", "b"], ["c", "d"]]),
    ],
)
def test_arrays_with_text_or_gaps_become_tables(X):
    table = raw_table(X)
    assert table.columns.tolist() == ["x0", "x1"]
    assert table.shape == np.shape(X)


def test_types_of_columns_in_an_array_of_objects():
    table = raw_table([[1, "a"], [2, "b"]])
    assert table["x0"].dtype == np.int64
    assert table["x1"].tolist() == ["a", "b"]
    assert named(NUMBERS, ["p", "q"]).columns.tolist() == ["p", "q"]


def test_tables_of_pandas_and_polars():
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert raw_table(frame) is frame
    converted = as_frame(polars.from_pandas(frame))
    assert converted["a"].tolist() == [1, 2]
    assert converted["b"].isna().tolist() == [False, True]


def test_tables_of_polars_without_pyarrow(monkeypatch):
    table = polars.DataFrame({"a": [1, None], "b": ["x", "y"]})
    monkeypatch.setattr(type(table), "to_pandas", lambda _: (_ for _ in ()).throw(ImportError()))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    frame = as_frame(table)
    assert frame["a"].isna().tolist() == [False, True]
    assert frame["b"].tolist() == ["x", "y"]
