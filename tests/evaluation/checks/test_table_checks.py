"""Checks of a table: estimators look for leaks, and interruptions are cautions."""

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from decoupled_descent.evaluation.checks.diagnosis import diagnose_table
from decoupled_descent.evaluation.checks.table import Table
from decoupled_descent.evaluation.checks.table_checks import LEAK
from tests.evaluation.checks.problems import find


@pytest.mark.parametrize("classes", [2, 4])
def test_estimators_caution_against_a_column_that_leaks_the_classes(classes):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(150, 4)), rng.integers(classes, size=150)
    frame = pd.DataFrame(X, columns=["a", "b", "result", "c"])
    frame["result"] = y + 0.01 * rng.normal(size=150)
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(frame, y)
    leak = find(model.diagnostics_, LEAK)
    assert leak.status == "caution"
    assert model.diagnostics_.verdict == "caution"
    assert leak.reason.startswith("The column 'result' alone predicts the target")
    assert leak.advice == "if so, drop it"
    assert leak.command_advice == "if so, train with --drop result"
    unnamed = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(frame.to_numpy(), y)
    assert "'X[:, 2]'" in find(unnamed.diagnostics_, LEAK).reason
    clean = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y)
    assert find(clean.diagnostics_, LEAK).status == "ok"


def test_estimators_caution_against_a_column_that_leaks_numbers():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + rng.normal(size=120)
    leaking = np.column_stack([X, np.exp(y)])
    for rows, status in ((leaking, "caution"), (X, "ok")):
        model = dd.DecoupledRegressor(features="linear").fit(rows, y)
        assert find(model.diagnostics_, LEAK).status == status


def test_names_match_the_columns():
    X = np.random.default_rng(6).normal(size=(40, 3))
    with pytest.raises(ValueError, match="names has 2 names for 3 columns; pass one per column"):
        dd.diagnose(X, X[:, 0], names=["a", "b"])
    assert LEAK not in {one.name for one in dd.diagnose(X, X[:, 0], names=[]).findings}


def test_interruptions_are_cautions():
    none = np.empty((0, 0))
    assert diagnose_table(Table((), none, none)) == []
    (training,) = diagnose_table(Table((), none, none, interrupted=True))
    (report,) = diagnose_table(Table((), none, none, missing=["which columns matter"]))
    assert training.status == report.status == "caution"
    assert training.reason.startswith("Training was stopped")
    assert report.reason.endswith("its report is not: which columns matter.")
