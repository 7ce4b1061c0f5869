"""Models that were trained on tables; tests/estimators/test_saving.py has the rest."""

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from decoupled_descent.app.models import load_model
from decoupled_descent.app.tables.columns import Columns
from decoupled_descent.estimators.saving import read_model

TABLE = pd.DataFrame({"a": np.arange(40.0), "b": ["x", "y"] * 20})


def test_the_rules_for_tables_are_read_by_those_who_know_tables(tmp_path):
    columns = Columns.learn(TABLE)
    model = dd.DecoupledRegressor(ridge=1.0).fit(columns.apply(TABLE), np.sin(TABLE["a"]))
    path = dd.save_model(model, tmp_path / "model.safetensors", columns)
    loaded = load_model(path)
    assert loaded.columns == columns
    np.testing.assert_array_equal(loaded.predict(TABLE), model.predict(columns.apply(TABLE)))
    with pytest.raises(ValueError, match="trained on a table; read it with"):
        read_model(path)


def test_without_a_table_no_rules_are_needed(tmp_path):
    X = TABLE[["a"]].to_numpy()
    model = dd.DecoupledRegressor(ridge=1.0).fit(X, np.sin(X[:, 0]))
    loaded = read_model(dd.save_model(model, tmp_path / "model.safetensors"))
    assert loaded.columns is None
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
