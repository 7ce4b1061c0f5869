"""Tables that are read in pieces, at the command line: the results of a table in memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from decoupled_descent.app.cli.tables import Wishes, prepare
from decoupled_descent.app.files import limits, reservoir
from decoupled_descent.app.files.opening import open_table
from decoupled_descent.rows import inputs, sources, store
from decoupled_descent.tables.estimators import inputs as estimator_inputs
from tests.app.cli.conftest import spoilt, table

#: Megabytes that preparing a table may take, and how often 20,000 rows are repeated for it.
BOUND, TIMES = 400, 100
LINEAR = ("--features", "linear")


@pytest.fixture
def in_pieces(monkeypatch):
    """From now on tables are large, and nothing is small enough to be read as a whole."""

    def begin():
        monkeypatch.setattr(limits, "LARGE", 0)
        monkeypatch.setattr(limits, "BATCH_BYTES", 1500)
        monkeypatch.setattr(inputs, "HELD", 0)
        monkeypatch.setattr(sources, "READ_BYTES", 2000)
        for module in (store, estimator_inputs):
            monkeypatch.setattr(module, "SMALL", 0)

    return begin


def written(frame, folder, suffix):
    path = folder / f"data.{suffix}"
    frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("suffix", "target"), [("csv", "answer"), ("csv.gz", "grade"), ("parquet", "price")]
)
def test_a_model_is_that_of_a_table_in_memory(suffix, target, run, in_pieces, tmp_path):
    frame = spoilt(150).drop(columns=[k for k in ("answer", "grade", "price") if k != target])
    data = written(frame, tmp_path, suffix)
    arguments = ("train", data, "--target", target, *LINEAR, "--json")
    _, whole, _ = run(*arguments, "--out", tmp_path / "whole")
    new = written(spoilt(80).drop(columns="id"), tmp_path / "whole", "csv")
    run("predict", tmp_path / "whole", new, "--out", tmp_path / "whole.csv")
    in_pieces()
    status, found, _ = run(*arguments, "--out", tmp_path / "found")
    assert status == 0
    whole, found = json.loads(whole), json.loads(found)
    assert found["notes"][1:] == whole["notes"]
    assert "was read in pieces: the rules for the columns were learnt from all 150 rows" in str(
        found["notes"][0]
    )
    assert found["verdict"] == whole["verdict"]
    for name in ("estimated_test_error", "estimated_test_error_stderr", "estimated_score"):
        assert found[name] == pytest.approx(whole[name], rel=1e-9)
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "found" / "left_out.csv"),
        pd.read_csv(tmp_path / "whole" / "left_out.csv"),
    )
    status, out, err = run("predict", tmp_path / "found", new, "--out", tmp_path / "found.csv")
    assert (status, "80 predictions" in out, "was read in pieces" in err) == (0, True, True)
    predictions = [pd.read_csv(tmp_path / f"{name}.csv") for name in ("whole", "found")]
    pd.testing.assert_frame_equal(*predictions, rtol=1e-9)


def test_predictions_say_what_they_met(run, trained, in_pieces, tmp_path):
    frame = table(90).astype({"a": object}).drop(columns=["grade", "price"])
    frame.loc[70, "a"], frame.loc[71, "town"], frame["colour"] = "many", "Trier", "red"
    data = written(frame, tmp_path, "csv")
    in_pieces()
    arguments = ("predict", trained / "answer", data, "--out", tmp_path / "found.csv", "--json")
    status, out, _ = run(*arguments)
    found = json.loads(out)
    assert (status, found["rows"], found["predictions"]) == (0, 90, None)
    assert found["actual"]["rows"] == 90
    assert len(pd.read_csv(tmp_path / "found.csv")) == 90
    notes = "\n".join(found["notes"])
    assert "1 value is not a number and counts as missing: 'many' (first in row 71)" in notes
    assert "1 value not seen in training: 'Trier' (first in row 72)" in notes
    assert "columns that the model does not know are ignored: 'colour'" in notes
    assert "rows that were trained on are not recognised" in notes


def test_predictions_of_a_large_table_need_a_file(run, trained, in_pieces, tmp_path):
    data = written(table(), tmp_path, "csv")
    in_pieces()
    status, out, err = run("predict", trained / "answer", data)
    assert (status, out) == (2, "")
    assert err.endswith("is read in pieces; use --out FILE for its predictions\n")
    written(table().drop(columns="town"), tmp_path, "csv")
    status, _, err = run("predict", trained / "answer", data, "--out", tmp_path / "p.csv")
    assert (status, err.count("\n"), (tmp_path / "p.csv").exists()) == (2, 1, False)
    assert f"{data}: the table lacks 'town'" in err


def test_groups_identifiers_and_values_that_the_sample_lacks(in_pieces, monkeypatch, tmp_path):
    frame = spoilt(400).drop(columns=["grade", "price"]).astype({"b": object})
    frame["patient"] = [f"p{k // 4}" for k in range(400)]
    monkeypatch.setattr(reservoir, "MOST_SAMPLED", 100)
    monkeypatch.setattr(reservoir, "FIELDS", 1)
    monkeypatch.setattr(reservoir, "FEWEST_SAMPLED", 100)
    path = written(frame, tmp_path, "csv")
    in_pieces()
    sampled = set(open_table(path).first_pass().sample.index)
    row = next(k for k in range(200, 400) if k not in sampled)
    frame.loc[row - 1, "b"] = "lots"
    prepared = prepare(
        written(frame, tmp_path, "csv"), "answer", None, Wishes(group="patient", identifier="id")
    )
    assert f"'b': 1 value is not a number and counts as missing: 'lots' (first in row {row})" in (
        prepared.notes
    )
    assert (
        "learnt from 100 of the 400 rows, drawn at random; the counts below are for these rows"
        in (prepared.notes[0])
    )
    known = frame["answer"].notna()
    assert prepared.y.tolist() == frame["answer"][known].tolist()
    assert prepared.groups.tolist() == frame["patient"][known].tolist()
    assert prepared.frame["id"].tolist() == frame["id"][known].tolist()
    (column,) = (one for one in prepared.columns.columns if one.name == "a")
    a = frame["a"][known].fillna(column.fill).to_numpy()
    np.testing.assert_array_equal(prepared.X[:, prepared.columns.names.index("a")], a)
    X, y = prepared.in_memory
    assert (len(X), len(y)) == (99, 99) if 8 in sampled else (100, 100)


def test_a_large_table_is_diagnosed_by_its_sample(run, in_pieces, tmp_path):
    data = written(table(200)[["a", "b", "town", "answer"]], tmp_path, "csv")
    in_pieces()
    status, out, _ = run("diagnose", data, "--target", "answer", "--json")
    assert status == 0
    assert json.loads(out)["rows"] == 200


MEASURED = """
import sys
from pathlib import Path
from decoupled_descent.app.cli.tables import prepare
from decoupled_descent.app.files import limits


def resident(line):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(one.split()[1]) / 1024 for one in lines if one.startswith(line))


prepare(Path(sys.argv[1]), "answer", None)  # libraries take their memory once
limits.LARGE = 10**6
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the largest so far is now the present one
before = resident("VmRSS")
prepared = prepare(Path(sys.argv[2]), "answer", None)
print(len(prepared.X), resident("VmHWM") - before)
"""


def repeated(frame, path, times):
    """Write the same rows many times."""
    if path.suffix == ".csv":
        names, rows = frame.to_csv(index=False).split("\n", 1)
        with path.open("w") as file:
            file.write(f"{names}\n")
            file.writelines([rows] * times)
    else:
        import pyarrow.parquet

        part = pyarrow.Table.from_pandas(frame)
        with pyarrow.parquet.ParquetWriter(path, part.schema) as file:
            for _ in range(times):
                file.write_table(part)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_table(suffix, tmp_path):
    """A table of several times the bound is prepared within it."""
    X = np.random.default_rng(0).normal(size=(20_000, 40)).round(4)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(40)])
    frame["answer"] = np.where(X[:, 0] > 0, "yes", "no")
    repeated(frame[:2000], tmp_path / f"small.{suffix}", 1)
    repeated(frame, tmp_path / f"large.{suffix}", TIMES)
    paths = [str(tmp_path / f"{name}.{suffix}") for name in ("small", "large")]
    ended = subprocess.run(
        [sys.executable, "-c", MEASURED, *paths],
        env={**os.environ, "PYTHONPATH": str(Path(dd.__file__).parents[1]), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    count, beyond = ended.stdout.split()
    assert int(count) == 20_000 * TIMES
    print(float(beyond))
    assert float(beyond) < BOUND
