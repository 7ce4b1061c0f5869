"""What rows that were left out tell: widths of intervals, and what more rows would bring."""

from types import SimpleNamespace

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.cli import judged
from decoupled_descent.report.judged import LEVELS
from tests.estimators.problems import binary, real


def prepared(X, y, task="regression"):
    return SimpleNamespace(X=X, y=y, task=task, groups=None)


def test_widths_are_those_of_the_training_intervals():
    X, y = real(90)
    model = dd.DecoupledRegressor(features="linear").fit(X, y)
    found = judged.widths(prepared(X, y), model)
    assert [one.level for one in found] == list(LEVELS)
    for one in found:
        places, ends = model.training_intervals(one.level)
        halves = (ends[:, 1] - ends[:, 0]) / 2
        held = np.array([low <= y[i] <= high for i, (low, high) in zip(places, ends, strict=True)])
        order = np.argsort(model.corrected_prediction_[places], kind="stable")
        thirds = [order[:30], order[30:60], order[60:]]
        assert one.half == pytest.approx(np.median(halves))
        assert one.held == pytest.approx(held.mean())
        assert one.halves == pytest.approx([np.median(halves[part]) for part in thirds])
        assert one.shares == pytest.approx([held[part].mean() for part in thirds])


def test_few_rows_and_classes_have_no_widths():
    assert judged.widths(prepared(np.zeros((29, 1)), np.zeros(29)), None) == []
    assert judged.widths(prepared(np.zeros((90, 1)), np.zeros(90), "classification"), None) == []


def test_more_rows_are_asked_for_where_that_is_quick_and_possible():
    X, y = binary(60)
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y)
    table = prepared(X, y, "classification")
    assert judged.more_rows(table, model, judged.PATIENCE + 1) is None
    assert judged.more_rows(prepared(X[:20], y[:20], "classification"), model, 1.0) is None
    found, curve = judged.more_rows(table, model, 1.0), model.learning_curve(X, y, repeats=1)
    assert found is not None
    assert (found.name, found.rows, found.errors) == ("log loss", curve.rows, curve.errors)
