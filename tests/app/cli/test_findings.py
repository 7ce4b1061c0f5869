"""The diagnosis of a training: leaks, identifiers, and advice for the command line."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from decoupled_descent.app.cli import findings
from decoupled_descent.app.cli.tables import TrainingTable, prepare
from decoupled_descent.evaluation.checks.catalogue import CHECKS
from decoupled_descent.evaluation.checks.diagnosis import diagnose_table
from decoupled_descent.evaluation.checks.table_checks import LEAK, TABLE_CHECKS
from decoupled_descent.tables.columns.rules import Columns
from tests.app.cli.conftest import table


def icu(patients, each, rng, d=8):
    """Rows of patients, each with a level of all measurements and an outcome of its own."""
    own = np.repeat(np.arange(patients), each)
    X = rng.normal(size=(patients, d))[own] + 0.4 * rng.normal(size=(len(own), d))
    outcome = rng.integers(2, size=patients)[own]
    y = np.where(rng.random(len(own)) < 0.1, 1 - outcome, outcome)
    frame = pd.DataFrame(X, columns=[f"m{k}" for k in range(d)])
    return frame.assign(patient_id=own, died=np.where(y == 1, "yes", "no"))


@pytest.mark.slow
def test_the_intensive_care_table(run, tmp_path):
    """Without --group a wrong estimate and no trust; with it the error on new patients."""
    rng = np.random.default_rng(0)
    icu(30, 8, rng).sample(frac=1, random_state=0).to_csv(tmp_path / "icu.csv", index=False)
    arguments = ("train", tmp_path / "icu.csv", "--target", "died", "--out", tmp_path / "o")
    alone = json.loads(run(*arguments, "--json")[1])
    assert alone["verdict"] == "do not trust"
    assert "--group patient_id" in alone["findings"][0]["advice"]
    together = json.loads(run(*arguments, "--group", "patient_id", "--json")[1])
    model = dd.load_model(tmp_path / "o")
    new = icu(300, 8, rng)
    right = model.predict(new) == new["died"].to_numpy()
    by_patient = right.reshape(300, 8).mean(1)
    noise = np.hypot(together["estimated_score_stderr"], by_patient.std(ddof=1) / 300**0.5)
    assert alone["estimated_score"] - right.mean() > 3 * noise
    assert abs(together["estimated_score"] - right.mean()) < 2 * noise
    assert "rows with the same identifier" not in {one["name"] for one in together["findings"]}


@pytest.mark.parametrize(("noise", "better"), [("relative", True), ("absolute", False)])
def test_the_logarithm_is_advised_where_it_helps(noise, better):
    rng = np.random.default_rng(4)
    X, e = rng.normal(size=(200, 3)), rng.normal(size=200)
    y = np.exp(X[:, 0] + 0.5 * e) if noise == "relative" else 9 + X[:, 0] + 0.5 * e
    columns = Columns.learn(pd.DataFrame(X).rename(columns="x{}".format))
    model = dd.DecoupledRegressor(features="linear").fit(X, y)
    given = TrainingTable(X, y, columns, "regression", [])
    assert findings.logarithm_helps(given, model) == better
    groups = np.arange(200) // 2
    assert findings.logarithm_helps(given._replace(groups=groups), model) == better
    assert not findings.logarithm_helps(given._replace(y=y - y.min()), model)
    log = dd.DecoupledRegressor(features="linear", log_target=True).fit(X, y)
    assert not findings.logarithm_helps(given, log)


def test_advice_names_options_that_exist(run):
    """Every option that the advice of a check names is one of train."""
    options = set(re.findall(r"--[a-z-]+", run("train", "--help")[1]))
    for check in (*CHECKS, *TABLE_CHECKS):
        assert set(re.findall(r"--[a-z-]+", check.command_advice)) <= options


def test_copies_of_patients_are_helped_by_the_advice(run, tmp_path):
    """The estimate with --group is far closer to the truth than that without."""
    rng = np.random.default_rng(5)
    frame = icu(40, 6, rng)
    frame.to_csv(tmp_path / "icu.csv", index=False)
    arguments = ("train", tmp_path / "icu.csv", "--target", "died", "--out", tmp_path / "o")
    alone, together = (
        json.loads(run(*arguments, *more, "--json", "--features", "rbf(1)", "--ridge", "0.01")[1])
        for more in ((), ("--group", "patient_id"))
    )
    new = icu(300, 6, rng)
    right = float((dd.load_model(tmp_path / "o").predict(new) == new["died"].to_numpy()).mean())
    gaps = [abs(one["estimated_score"] - right) for one in (alone, together)]
    assert gaps[1] < 0.5 * gaps[0]


def test_rows_that_make_up_the_error_are_named(run, tmp_path):
    """A line of totals below the table."""
    frame = table(120).drop(columns=["grade", "answer"])
    frame.loc[len(frame)] = [0.0, 0.0, "", frame["price"].sum()]
    frame.to_csv(tmp_path / "a.csv", index=False)
    arguments = ("train", tmp_path / "a.csv", "--target", "price", "--out", tmp_path / "o")
    found = json.loads(run(*arguments, "--json", "--ridge", "1", "--features", "linear")[1])
    (few,) = (one for one in found["findings"] if one["name"] == "rows behind the error")
    assert re.match(r"check row 121, with \d+\u00a0% of the error ", few["advice"])


def of_table(path, target):
    """The findings on a table, with advice for the command line."""
    table = findings.table_of(prepare(path, target, None))
    return dd.evaluation.Diagnosis(diagnose_table(table)).for_command_line().findings


def test_duplicate_rows_make_no_column_a_leak(tmp_path):
    """A row is predicted by its duplicate, from any column."""
    frame = table(60).drop(columns=["grade", "answer"])
    pd.concat([frame] * 3).to_csv(tmp_path / "a.csv", index=False)
    assert [one.status for one in of_table(tmp_path / "a.csv", "price")] == ["ok"]


def test_a_leak_is_a_caution(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "y": rng.integers(2, size=200)})
    frame["copy"] = frame["y"] + 0.01 * rng.normal(size=200)
    frame.to_csv(tmp_path / "a.csv", index=False)
    (leak,) = of_table(tmp_path / "a.csv", "y")
    assert (leak.name, leak.status) == (LEAK, "caution")
    assert leak.advice == "if so, train with --drop copy"
    frame["category"] = np.where(frame["y"] == 1, "yes", "no")  # several columns of the matrix
    frame.to_csv(tmp_path / "a.csv", index=False)
    (leak,) = of_table(tmp_path / "a.csv", "y")
    assert leak.reason.startswith("The columns 'copy', 'category' each predict the target almost")
    assert leak.advice == "if so, train with --drop copy --drop category"


def test_numbers_of_patients_are_groups_and_not_dropped(tmp_path):
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(60), 5)
    y = rng.integers(2, size=60)[who]
    frame = pd.DataFrame({"a": rng.normal(size=300), "chart": (who * 7919) % 9973, "y": y})
    frame.to_csv(tmp_path / "a.csv", index=False)
    (leak,) = of_table(tmp_path / "a.csv", "y")
    assert "train with --group chart" in leak.advice
    frame.rename(columns={"chart": "MRN"}).to_csv(tmp_path / "b.csv", index=False)
    leak, identifier = of_table(tmp_path / "b.csv", "y")
    assert leak.status == "ok"
    assert identifier.name == "rows with the same identifier"
    assert identifier.status == "alarm"
    assert "--group MRN" in identifier.advice


def test_advice_says_what_was_chosen():
    class Fitted:
        candidates_ = ({"chosen": True, "ridge": 0.0316},)

    found = findings.with_settings("a larger --ridge, or more rows", Fitted())
    assert found == "a larger --ridge (now 0.0316), or more rows"


def test_the_smallest_class_is_named(run, tmp_path):
    frame = table(120).drop(columns=["grade", "price"])
    frame.loc[:4, "answer"] = "unknown"
    frame.to_csv(tmp_path / "a.csv", index=False)
    arguments = ("train", tmp_path / "a.csv", "--target", "answer", "--out", tmp_path / "o")
    options = ("--json", "--ridge", "1", "--features", "linear")
    found = json.loads(run(*arguments, *options)[1])
    (small,) = (one for one in found["findings"] if one["name"] == "smallest class")
    assert small["advice"] == "get more rows of 'unknown', or join it with another class"
    note = "'answer': 'unknown' (5 rows) is taken as a class; --na unknown leaves these rows out"
    assert note in found["notes"]
    found = json.loads(run(*arguments, *options, "--na", "unknown")[1])
    assert len(found["classes"]) == 2


def test_dates_of_a_shuffled_table_show_drift(run, tmp_path):
    rng = np.random.default_rng(0)
    n = 200
    level = np.cumsum(rng.normal(size=n)) * 6 / n**0.5
    days = pd.date_range("2023-01-01", periods=n).strftime("%d/%m/%Y")
    a = rng.normal(size=n)
    table = pd.DataFrame({"seen on": days, "a": a, "y": a + level + 0.5 * rng.normal(size=n)})
    data = tmp_path / "data.csv"
    table.sample(frac=1, random_state=0).to_csv(data, index=False)
    found = json.loads(run("train", data, "--target", "y", "--out", tmp_path / "o", "--json")[1])
    assert found["verdict"] == "do not trust"
    (drift,) = [one for one in found["findings"] if one["name"] == "drift"]
    assert "'seen on'" in drift["reason"]
    assert "not for later ones" in drift["advice"]
