"""Widths of intervals and the gain from more rows, of models that the command trains."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from decoupled_descent.app.cli.results import (
    FEWEST,
    PATIENCE,
    interval_widths,
    more_rows,
    report_data,
    to_dict,
)
from decoupled_descent.app.cli.tables import TrainingTable
from decoupled_descent.app.report.page import render_report
from decoupled_descent.checks import Target
from decoupled_descent.tables.columns.rules import Columns
from tests.app.cli.conftest import FAST, table


def problem(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, 2))).rename(columns="x{}".format)
    y = frame["x0"].to_numpy() + rng.normal(size=rows)
    columns = Columns.learn(frame)
    return TrainingTable(columns.apply(frame), y, columns, Target.NUMBERS, [], frame=frame)


def test_widths_hold_for_their_share():
    given = problem(200)
    model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(given.X, given.y)
    listed = interval_widths(given, model)
    assert [one.level for one in listed] == [0.5, 0.8, 0.9, 0.95]
    for one in listed:
        spread = (one.level * (1 - one.level) / 200) ** 0.5
        assert abs(one.coverage - one.level) < 3 * spread
        assert one.coverage == pytest.approx(np.mean(one.coverages), abs=0.01)
    assert listed[2].half_width == pytest.approx(1.645, rel=0.2)  # the noise has deviation 1
    few = problem(FEWEST - 1)
    assert interval_widths(few, model) == []
    assert interval_widths(given._replace(task=Target.CLASSES), model) == []


def test_more_rows_are_asked_for_where_that_can_be_told():
    given = problem()
    model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(given.X, given.y)
    forecast = more_rows(given, model, seconds=1.0)
    assert forecast.rows == (15, 30, 45, 60, 120)
    assert forecast.errors[-2] == pytest.approx(model.estimated_test_error_**0.5)
    assert "more than 60 seconds" in more_rows(given, model, seconds=PATIENCE + 1)
    few = problem(20)
    model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(few.X, few.y)
    assert "needs at least 40 rows" in more_rows(few, model, seconds=1.0)


def test_what_the_time_limit_left_out_is_noted():
    given = problem()
    for limit in (1e-9, 1e9):
        model = dd.DecoupledRegressor(features=["linear", "rbf(1)"], ridge=1.0, time_limit=limit)
        model.fit(given.X, given.y)
        report = report_data(Path("t.csv"), "y", Path("out"), given, model, [], fast=True)
        machine = to_dict(report, "y", {})
        if limit > 1:
            assert machine["skipped_candidates"] == []
            assert not any("time limit" in note for note in report.notes)
        else:
            assert machine["skipped_candidates"] == ["rbf(1)"]
            assert machine["notes"][-1] == "the time limit of 1e-09 s left out: rbf(1)"
            assert "the time limit of 1e-09 s left out: rbf(1)" in render_report(report)


def test_fast_leaves_out_what_takes_the_longest():
    given = problem()
    model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(given.X, given.y)
    slow, fast = (
        report_data(Path("t.csv"), "y", Path("out"), given, model, [], fast=one).analyses
        for one in (False, True)
    )
    assert slow.importance
    assert slow.more_rows.rows
    assert not fast.importance
    assert "--fast" in fast.more_rows
    assert not fast.missing
    assert fast.contenders == slow.contenders
    assert fast.intervals == slow.intervals


def test_no_section_of_a_report_loses_the_model(run, tmp_path, monkeypatch):
    """One analysis and one page fail: the model and all else are there, and both are named."""

    def fail(*_, **__):
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr("decoupled_descent.app.cli.results.coefficients", fail)
    monkeypatch.setattr("decoupled_descent.app.cli.folder.model_card", fail)
    table(60)[["a", "b", "answer"]].to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", "answer", "--out", tmp_path / "o", *FAST)
    status, text, err = run(*given, "--json")
    assert status == 0
    assert "model-card.md was not written (ZeroDivisionError: float division by zero" in err
    (note,) = [one for one in json.loads(text)["notes"] if "could not be computed" in one]
    assert note.startswith("the coefficients of linear models could not be computed (ZeroDiv")
    names = {one.name for one in (tmp_path / "o").iterdir()}
    assert {"model.safetensors", "report.html", "left_out.csv"} <= names
    assert "model-card.md" not in names
