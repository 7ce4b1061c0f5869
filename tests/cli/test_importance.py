"""Importance: a column that matters, one that does not, and levels that are shuffled together."""

import numpy as np
import pandas as pd

import decoupled_descent as dd
from decoupled_descent.cli.importance import MOST_COLUMNS, importance
from decoupled_descent.cli.tables import Prepared
from decoupled_descent.tables.columns import Columns


def prepared(frame, y, task):
    columns = Columns.learn(frame)
    return Prepared(columns.apply(frame), y, columns, task, [])


def test_columns_are_ranked():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"noise": rng.normal(size=200), "signal": rng.normal(size=200)})
    frame["town"] = rng.choice(["a", "b", "c"], 200)
    y = (3 * frame["signal"] + (frame["town"] == "a")).to_numpy() + 0.1 * rng.normal(size=200)
    given = prepared(frame, y, "regression")
    model = dd.DecoupledRegressor(features="linear", ridge=0.01).fit(given.X, y)
    found = importance(given, model)
    assert [name for name, _ in found] == ["signal", "town", "noise"]
    assert found[0][1] > 10
    assert abs(found[2][1]) < 0.2
    labels = np.where(y > 0, "yes", "no")
    given = prepared(frame, labels, "classification")
    model = dd.DecoupledClassifier(features="linear", ridge=0.01).fit(given.X, labels)
    assert importance(given, model)[0][0] == "signal"


def test_wide_tables_are_left_alone():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(30, MOST_COLUMNS + 1)))
    assert importance(prepared(frame, rng.normal(size=30), "regression"), None) == []
