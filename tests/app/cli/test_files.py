"""The command with the files that people have: spreadsheets, packed tables, pipes, addresses."""

import bz2
import io
import json
import sys
import zipfile
from types import SimpleNamespace

import pandas as pd
import pytest

from tests.app.cli.conftest import FAST, table

TABLE = table()[["a", "b", "town", "answer"]]
TEXT = TABLE.to_csv(index=False).encode()


def save(folder, kind):
    path = folder / f"data{kind}"
    if kind in (".xlsx", ".ods"):
        engine = "odf" if kind == ".ods" else "openpyxl"
        TABLE.to_excel(path, index=False, sheet_name="Data", engine=engine)
    elif kind == ".jsonl":
        TABLE.to_json(path, orient="records", lines=True)
    elif kind == ".csv.bz2":
        path.write_bytes(bz2.compress(TEXT))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inside.csv", TEXT)
    return path


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the command says about the same table as csv."""
    from decoupled_descent.app.cli.tables import prepare

    path = tmp_path_factory.mktemp("csv") / "data.csv"
    path.write_bytes(TEXT)
    return prepare(path, "answer", None)


@pytest.mark.parametrize("kind", [".xlsx", ".ods", ".jsonl", ".csv.bz2", ".zip"])
def test_every_kind_is_the_same_table(kind, run, expected, tmp_path):
    path, out = save(tmp_path, kind), tmp_path / "out"
    status, text, err = run("train", path, "--target", "answer", "--out", out, *FAST, "--json")
    assert status == 0, err
    result = json.loads(text)
    assert (result["rows"], result["features"]) == expected.X.shape
    status, text, err = run("predict", out, path, "--json")
    assert status == 0, err
    assert json.loads(text)["actual"]["rows"] == len(TABLE)


def test_sheets(run, tmp_path):
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path) as writer:
        TABLE.head(3).to_excel(writer, sheet_name="Few", index=False)
        TABLE.to_excel(writer, sheet_name="All rows", index=False)
    given = ("train", path, "--target", "answer", "--out", tmp_path / "out", *FAST)
    status, _, err = run(*given)
    assert status == 2
    assert "3 rows are too few" in err
    status, text, _ = run(*given, "--sheet", "All rows", "--json")
    assert status == 0
    assert json.loads(text)["rows"] == 60
    status, text, _ = run("predict", tmp_path / "out", path, "--sheet", "All rows")
    assert status == 0
    assert len(pd.read_csv(io.StringIO(text))) == 60
    status, text, err = run("predict", tmp_path / "out", path)
    assert len(pd.read_csv(io.StringIO(text))) == 3
    assert "the sheet 'Few' was read; --sheet NAME reads another: 'All rows'" in err
    status, _, err = run("diagnose", path, "--target", "answer", "--sheet", "Al rows")
    assert status == 2
    assert "did you mean 'All rows'" in err


def test_standard_input(run, monkeypatch, tmp_path):
    def piped(content):
        standard = SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", standard)

    out = tmp_path / "out"
    piped(TEXT)
    status, text, err = run("train", "-", "--target", "answer", "--out", out, *FAST, "--json")
    assert status == 0, err
    assert json.loads(text)["rows"] == 60
    piped(TEXT)
    status, text, _ = run("predict", out, "-")
    assert status == 0
    assert len(pd.read_csv(io.StringIO(text))) == 60
    piped(b"a,b\n1\n")
    status, _, err = run("diagnose", "-", "--target", "a")
    assert status == 2
    assert err.startswith("error: standard input: line 2 has 1 field,")


@pytest.mark.parametrize("url", ["https://example.org/a.csv", "s3://bucket/a b.parquet"])
def test_addresses(url, run, tmp_path):
    for given in (
        ("train", url, "--target", "a", "--out", tmp_path / "o"),
        ("predict", tmp_path, url),
    ):
        status, _, err = run(*given)
        assert status == 2
        assert f"error: {url} is a web address; download it first" in err
    assert not (tmp_path / "o").exists()
