"""The command goes on with bad cells if it is asked to."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest

from tests.app.cli.conftest import FAST, table

TABLE = table()[["a", "b", "town", "answer"]]


def spoilt(kind):
    frame = TABLE.astype({"a": object})
    if kind == "infinite":
        frame.loc[4, "a"] = "inf"
    elif kind == "text":
        frame.loc[4, "a"] = "oops"
    elif kind == "class":
        frame.loc[4, "answer"] = "yess"
    text = frame.to_csv(index=False)
    if kind == "ragged":
        lines = text.splitlines()
        lines[5] += ",7"
        text = "\n".join(lines) + "\n"
    return text


@pytest.mark.parametrize(
    ("kind", "where"),
    [("infinite", "row 5"), ("text", "row 5"), ("class", "row 5"), ("ragged", "line 6")],
)
def test_the_line_names_the_command_that_goes_on(kind, where, run, tmp_path):
    data, out = tmp_path / "a b.csv", tmp_path / "out"
    data.write_text(spoilt(kind))
    status, _, err = run("train", data, "--target", "answer", "--out", out, *FAST)
    assert status == 2
    assert err.count("\n") == 1
    assert not out.exists()
    command = shlex.split(err.rpartition("to go on without such rows: decoupled ")[2])
    status, text, err = run(*command, "--out", out, *FAST, "--json")
    assert status == 0, err
    result = json.loads(text)
    assert result["rows"] == 59
    assert "1 row was left out; skipped.csv says why" in result["notes"]
    skipped = pd.read_csv(out / "skipped.csv")
    assert skipped["where"].tolist() == [where]


def test_rows_that_repeat_others_are_left_out(run, tmp_path):
    data, out = tmp_path / "a.csv", tmp_path / "out"
    frame = pd.concat([TABLE, TABLE[10:30]], ignore_index=True)
    frame.assign(id=np.arange(80)).to_csv(data, index=False)
    given = ("train", data, "--target", "answer", "--out", out, "--id", "id", *FAST)
    status, text, err = run(*given, "--drop-duplicates", "--json")
    assert status == 0, err
    result = json.loads(text)
    assert result["rows"] == 60
    assert "20 rows were left out; skipped.csv says why" in result["notes"]
    skipped = pd.read_csv(out / "skipped.csv")
    assert skipped["where"].tolist() == [f"row {k}" for k in range(61, 81)]
    assert skipped["reason"].tolist() == [f"repeats row {k}" for k in range(11, 31)]
    TABLE.to_csv(data, index=False)
    alone = json.loads(run("train", data, "--target", "answer", "--out", out, *FAST, "--json")[1])
    assert result["estimated_test_error"] == alone["estimated_test_error"]


def test_classes_are_merged(run, tmp_path):
    data, out = tmp_path / "a.csv", tmp_path / "out"
    data.write_text(spoilt("class"))
    status, _, err = run("train", data, "--target", "answer", "--out", out, *FAST)
    assert status == 2
    assert "add --merge-classes yess=yes" in err
    given = ("train", data, "--target", "answer", "--out", out, *FAST, "--json")
    status, text, err = run(*given, "--merge-classes", "yess=yes")
    assert status == 0, err
    assert json.loads(text)["rows"] == 60
    assert json.loads(text)["classes"] == ["no", "yes"]


def test_other_tasks_are_recognised(run, tmp_path):
    data, rng = tmp_path / "a.csv", np.random.default_rng(0)
    frame = TABLE.assign(time=rng.integers(1, 500, 60), event=rng.integers(0, 2, 60))
    frame.to_csv(data, index=False)
    out = tmp_path / "out"
    status, text, err = run("train", data, "--target", "event", "--out", out, *FAST, "--json")
    assert status == 0, err
    result = json.loads(text)
    assert result["verdict"] != "trust"
    (doubt,) = [one for one in result["findings"] if one["name"] == "another kind of model"]
    assert doubt["status"] == "caution"
    assert "survival model" in doubt["reason"]
    tags = [";".join(rng.choice([*"abcdef"], k, replace=False)) for k in rng.integers(1, 5, 60)]
    frame.assign(tags=tags).to_csv(data, index=False)
    status, _, err = run("train", data, "--target", "tags", "--out", out, *FAST)
    assert status == 2
    assert "MultiLabelBinarizer" in err
