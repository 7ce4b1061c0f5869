"""From a file to a matrix and labels."""

import json

import numpy as np
import pytest

from decoupled_descent.app.cli.tables import prepare
from decoupled_descent.tables.estimators.saving import load_model
from tests.app.cli.conftest import FAST, table

FILES = {"model.safetensors", "report.html"}


def test_counts_with_a_rare_one_are_quantities(run, tmp_path):
    frame = table()[["a", "b"]].assign(visits=[*range(3)] * 19 + [1, 2, 15])
    frame.to_csv(tmp_path / "data.csv", index=False)
    arguments = ("train", tmp_path / "data.csv", "--target", "visits", "--out", tmp_path / "o")
    status, text, _ = run(*arguments, *FAST)
    assert status == 0
    assert "• 'visits' has 4 different numbers, so this is a regression\n" in text
    status, _, err = run(*arguments, "--task", "classification")
    assert status == 2
    assert err.endswith("join or delete the class, or use --task regression\n")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "npz", "npy", "parquet"])
def test_kinds_of_files(run, tmp_path, suffix):
    frame, data = table()[["a", "b", "grade"]], tmp_path / f"data.{suffix}"
    target = "grade"
    if suffix.startswith("np"):
        target = "y" if suffix == "npz" else "x2"
        X = frame[["a", "b"]].to_numpy()
        save = {
            "npz": lambda: np.savez(data, X=X, y=frame["grade"].to_numpy()),
            "npy": lambda: np.save(data, frame.to_numpy()),
        }
        save[suffix]()
    elif suffix == "parquet":
        frame.to_parquet(data)
    else:
        frame.to_csv(data, index=False, sep="\t" if suffix == "tsv" else ",")
    status, text, _ = run("train", data, "--target", target, "--out", tmp_path / "o", *FAST)
    assert status == 0
    assert "classification, 60 rows, 2 features" in text


def test_semicolons_bom_and_decimal_comma(run, tmp_path):
    data = tmp_path / "excel.csv"
    table().to_csv(data, index=False, sep=";", decimal=",", encoding="utf-8-sig")
    status, text, err = run("train", data, "--target", "a", "--out", tmp_path / "o", *FAST)
    assert (status, err) == (0, "comparing models\nchecking the best one\nwriting the report\n")
    assert "the comma is the decimal mark" in text
    assert "a: regression, 60 rows" in text


def test_fractions_as_classes(run, tmp_path):
    frame = table()[["a", "b"]].assign(half=np.where(table()["answer"] == "yes", 0.5, 1.0))
    frame.to_csv(tmp_path / "data.csv", index=False)
    out = tmp_path / "out"
    arguments = ("train", tmp_path / "data.csv", "--target", "half", "--out", out, *FAST)
    assert run(*arguments)[0] == 0
    assert load_model(out).estimator.classes_.tolist() == ["0.5", "1"]
    status, text, _ = run("predict", out, tmp_path / "data.csv", "--json")
    found = json.loads(text)
    assert (status, found["actual"]["rows"], found["actual"]["remark"]) == (0, 60, "")
    truth = [str(label) for label in frame["half"]]  # as in the file
    right = np.mean([one == other for one, other in zip(found["predictions"], truth, strict=True)])
    assert found["actual"]["score"] == pytest.approx(right)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_folder_is_prepared_like_a_file(suffix, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    frame = table()
    parts = {tmp_path / "all": frame, folder / "1": frame[:11], folder / "2": frame[11:]}
    for path, rows in parts.items():
        path = path.with_suffix(f".{suffix}")
        rows.to_csv(path, index=False) if suffix == "csv" else rows.to_parquet(path, index=False)
    expected = prepare(tmp_path / f"all.{suffix}", "grade", None)
    prepared = prepare(folder, "grade", None)
    assert prepared.columns == expected.columns
    assert prepared.y.tolist() == expected.y.tolist()
    assert prepared.notes[-len(expected.notes) :] == expected.notes
    np.testing.assert_array_equal(prepared.X, expected.X)
