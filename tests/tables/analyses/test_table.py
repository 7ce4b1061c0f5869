"""The rows of a fitted estimator, named and encoded as in ``fit``."""

import numpy as np
import pandas as pd

import decoupled_descent as dd
from decoupled_descent.tables.analyses.table import AnalysedTable

LINEAR = {"features": "linear", "ridge": 1.0}


def test_a_raw_table_and_a_matrix():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "town": rng.choice(["x", "y"], 60)})
    y = frame["a"] + rng.normal(size=60)
    table = AnalysedTable.of(dd.DecoupledRegressor(**LINEAR).fit(frame, y), frame)
    assert table.names == ["a", "town"]
    assert table.spans == [slice(0, 1), slice(1, 3)]
    X = frame[["a"]].to_numpy()
    table = AnalysedTable.of(dd.DecoupledRegressor(**LINEAR).fit(X, y), X)
    assert (table.names, table.spans) == (["column 0"], [slice(0, 1)])


def test_logarithms_are_compared_where_they_are_fitted():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.exp(X[:, 0])
    model = dd.DecoupledRegressor(log_target=True, **LINEAR).fit(X, y)
    table = AnalysedTable.of(model, X)
    np.testing.assert_allclose(table.losses(2 * y), np.log(2) ** 2)
