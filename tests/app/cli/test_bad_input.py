"""Bad input: one line on standard error, exit status 2, nothing on standard output or on disk."""

import gzip
import io
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from tests.app.cli.conftest import FAST, table
from tests.tables.estimators.test_saving import put, resigned

GOOD = table()[["a", "b", "town", "answer"]]
TEXT = GOOD.to_csv(index=False)


def as_bytes(write, *arguments, **options):
    stream = io.BytesIO()
    write(stream, *arguments, **options)
    return stream.getvalue()


def zipped(name, text):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, text)
    return stream.getvalue()


def rows(count, **columns):
    frame = GOOD[:count].assign(**columns)
    return frame.to_csv(index=False)


def changed(**columns):
    return GOOD.assign(**columns).to_csv(index=False)


OBJECTS = np.array([[{}], [None]], dtype=object)
PARQUET = as_bytes(lambda stream: GOOD.to_parquet(stream))
NPZ = as_bytes(np.savez, X=np.ones((20, 2)), y=np.arange(20))
LATE = ["1.5"] * 59 + ["oops"]

DATA = {
    "empty file": ("a.csv", "", "the file is empty"),
    "blank lines only": ("a.csv", "\n\n\n", "the file is empty"),
    "header only": ("a.csv", "a,b,answer\n", "names but no rows"),
    "no header": ("a.csv", "1.5,2,3\n4,5,6\n", "first line has numbers"),
    "duplicate headers": ("a.csv", TEXT.replace("a,b,town", "a,a,town", 1), "called 'a'"),
    "ragged rows": ("a.csv", TEXT + "1,2\n", "line 62 has 2 fields, but the first row has 4 names"),
    "open quotation mark": ("a.csv", TEXT + '1,2,"x,yes\n', "line|quotation"),
    "columns separated by spaces": ("a.csv", "a b answer\n1 2 x\n3 4 y\n", "separated by spaces"),
    "UTF-16": ("a.csv", TEXT.encode("utf-16")[:-1], "UTF-16 but is damaged; save it as UTF-8"),
    "no encoding": ("a.csv", b"a,answer\n\x81\x8d,1\n", "neither UTF-8 nor Windows-1252"),
    "binary": ("a.csv", bytes(range(256)), "does not occur in text files"),
    "parquet called csv": ("a.csv", PARQUET, "does not occur in text files"),
    "truncated parquet": ("a.parquet", PARQUET[:-30], "damaged or not a parquet file"),
    "text called parquet": ("a.parquet", TEXT, "damaged or not a parquet file"),
    "corrupt npz": ("a.npz", NPZ[:-40], "damaged"),
    "pickled npz": ("a.npz", as_bytes(np.savez, X=OBJECTS), "contains Python objects"),
    "pickled npy": (
        "a.npy",
        as_bytes(np.save, OBJECTS, allow_pickle=True),
        "contains Python objects",
    ),
    "npz of other arrays": ("a.npz", as_bytes(np.savez, u=np.ones(3), v=np.ones(3)), "keep one"),
    "npy of one dimension": ("a.npy", as_bytes(np.save, np.ones(30)), "must be a matrix"),
    "damaged gz": ("a.csv.gz", b"\x1f\x8b" + bytes(30), "damaged or not a .gz file"),
    "a bomb of gz": ("a.csv.gz", gzip.compress(b"1,2\n" * 26_000_000), "more than 25 MB"),
    "a bomb of npz": (
        "a.npz",
        as_bytes(np.savez_compressed, X=np.zeros((13_000_000, 1))),
        "more than 25 MB",
    ),
    "a member of npz that is no array": ("a.npz", zipped("about.txt", "by me"), "not a NumPy file"),
    "an npy that claims columns": (
        "a.npy",
        as_bytes(np.save, np.zeros((0, 3))).replace(b"(0, 3)", b"(0, 1000000000)"),
        "1,000,000,000 columns; the limit is 100,000",
    ),
    "an npy that claims rows": (
        "a.npy",
        as_bytes(np.save, np.zeros((5, 3))).replace(b"(5, 3)", b"(50000000000, 3)"),
        "needs more bytes than the file has",
    ),
    "an npy of many texts without length": (
        "a.npy",
        as_bytes(np.save, np.zeros((5, 3), "U0"))
        .replace(b"(5, 3)", b"(500000000, 3)")
        .replace(b"<U1", b"<U0"),
        "needs more bytes than the file has",
    ),
    "an npy of no characters": (
        "a.npy",
        as_bytes(np.save, np.array([["a"], ["b"]]))[:-4] + b"\xff\xff\xff\x7f",
        "invalid characters",
    ),
    "unknown extension": ("a.sav", TEXT, "'.sav' is not known; use one of .csv"),
    "no extension": ("data", TEXT, "'' is not known"),
    "one class": ("a.csv", changed(answer="yes"), "'yes' in every row"),
    "constant number as target": ("a.csv", changed(answer=2.5), "'2.5' in every row"),
    "no labels": ("a.csv", changed(answer=""), "'answer' has no values"),
    "NaN labels": ("a.csv", changed(answer="NaN"), "'answer' has no values"),
    "infinite target": ("a.csv", changed(answer=[*range(59), "inf"]), "row 60: inf is beyond"),
    "huge target": ("a.csv", changed(answer=[*range(59), 1e300]), r"row 60: 1e\+300 is beyond"),
    "text in a numeric target": ("a.csv", changed(answer=[*range(59), "x"]), "'x' is not a number"),
    "dates as target": (
        "a.parquet",
        as_bytes(lambda f: GOOD.assign(answer=pd.Timestamp("2020-01-01")).to_parquet(f)),
        "holds dates",
    ),
    "dates in text as target": (
        "a.csv",
        changed(answer=pd.date_range("2020-01-01", periods=60).astype(str)),
        "'answer' holds dates",
    ),
    "money of two kinds as target": (
        "a.csv",
        changed(answer=[f"${k:,}" for k in range(1000, 1059)] + ["1.000,5"]),
        r"row 60: '1.000,5' is not a number such as 1,234.5",
    ),
    "too many classes": ("a.csv", changed(answer=[f"c{k}" for k in range(60)]), "too many for"),
    "a class with one row": ("a.csv", changed(answer=["x", *["y"] * 29, *["z"] * 30]), "class 'x'"),
    "target is the only column": ("a.csv", GOOD[["answer"]].to_csv(index=False), "only column"),
    "only an id": (
        "a.csv",
        GOOD[["answer"]].assign(id=range(60)).to_csv(index=False),
        "no column is left to learn from .*row numbers: 'id'",
    ),
    "only names": (
        "a.csv",
        GOOD[["answer"]].assign(name=[f"n{k}" for k in range(60)]).to_csv(index=False),
        "text that is different in nearly every row: 'name'",
    ),
    "constant columns": ("a.csv", changed(a=1, b=2, town="x"), "the same value in every row: 'a'"),
    "columns without values": ("a.csv", changed(a="", b="?", town="NA"), "without values: 'a'"),
    "text among numbers": ("a.csv", changed(b=LATE), "column 'b', row 60: 'oops' is not a number"),
    "units": (
        "a.csv",
        changed(b=[*(f"{k}%" for k in range(59)), "7 kg"]),
        "row 60: '7 kg' is not a number such as 1,234.5",
    ),
    "an infinite price": ("a.csv", changed(b=[*(f"${k}" for k in range(59)), "$inf"]), "row 60"),
    "several columns at once": (
        "a.csv",
        changed(a=LATE, b=LATE),
        "column 'a', row 60: 'oops'.*column 'b', row 60: 'oops'",
    ),
    "1e300": ("a.csv", changed(b=[*range(59), 1e300]), r"column 'b', row 60: 1e\+300 is beyond"),
    "infinite number": ("a.csv", changed(b=[*range(59), "-inf"]), "row 60: -inf is beyond"),
    "impossible date": ("a.csv", changed(b=["2020-01-01"] * 59 + ["2020-13-01"]), "is not a date"),
    "lists": (
        "a.parquet",
        as_bytes(lambda f: GOOD.assign(b=[[1, 2]] * 60).to_parquet(f)),
        "column 'b' holds lists or other nested values",
    ),
    "1 row": ("a.csv", rows(1), "1 row is too few; at least 10"),
    "2 rows": ("a.csv", rows(2), "2 rows are too few"),
    "3 rows": ("a.csv", rows(3), "3 rows are too few"),
    "3 rows with a label": (
        "a.csv",
        changed(answer=["x", "y", "z", *[""] * 57]),
        "3 rows are too few",
    ),
}


@pytest.mark.parametrize("case", DATA)
@pytest.mark.parametrize("command", ["train", "diagnose"])
def test_bad_tables(refused, tmp_path, command, case):
    name, content, message = DATA[case]
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    out = ("--out", tmp_path / "new" / "out") if command == "train" else ()
    line = refused(command, path, "--target", "answer", *out)
    assert str(path) in line
    assert re.search(message, line)


OPTIONS = {
    "wrong target": (["--target", "answr"], "no column 'answr'; did you mean 'answer'?"),
    "target in other letters": (["--target", "ANSWER"], "did you mean 'answer'?"),
    "empty target": (["--target", ""], "there is no column ''"),
    "regression on text": (["--task", "regression"], "holds text such as .*--task classification"),
    "unknown task": (["--task", "ranking"], "--task"),
    "unknown option": (["--epochs", "5"], "No such option.*--epochs"),
    "negative ridge": (["--ridge", "-1"], "--ridge '-1' must be a positive number"),
    "zero ridge": (["--ridge", "0"], "--ridge '0' must be"),
    "negative seed": (["--seed", "-1"], "--seed"),
    "large seed": (["--seed", str(2**32)], "--seed"),
    "one table too many": (["more.csv"], "unexpected extra argument"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_bad_options_of_train(refused, tmp_path, case):
    arguments, message = OPTIONS[case]
    (tmp_path / "data.csv").write_text(TEXT)
    target = [] if "--target" in arguments else ["--target", "answer"]
    out = tmp_path / "out"
    line = refused("train", tmp_path / "data.csv", *target, *arguments, "--out", out)
    assert re.search(message, line)


def test_what_is_missing(refused, tmp_path):
    (tmp_path / "data.csv").write_text(TEXT)
    assert "--target" in refused("train", tmp_path / "data.csv")
    assert "DATA" in refused("train", "--target", "answer")
    assert "does not exist" in refused("train", tmp_path / "absent.csv", "--target", "answer")
    (tmp_path / "empty").mkdir()
    assert "is a folder" in refused("train", tmp_path / "empty", "--target", "answer")
    assert "is a folder" in refused("diagnose", tmp_path / "empty", "--target", "answer")
    assert "DATA" in refused("predict", tmp_path)
    assert "No such command" in refused("learn", tmp_path)
    grades = table()[["a", "b", "price"]].to_csv(index=False)
    (tmp_path / "price.csv").write_text(grades)
    arguments = ("--target", "price", "--task", "classification", "--out", tmp_path / "out")
    assert "--task regression" in refused("train", tmp_path / "price.csv", *arguments)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("data.csv", "cannot write there"),
        ("data.csv/deeper", "cannot write there"),
        ("data.csv/deeper/still", "cannot write there"),
        ("/proc/decoupled", "cannot write there"),
        ("/dev/null", "cannot write there"),
        ("taken", "has a report.html that is not from a training; choose another folder"),
        ("stranger", "has a model.safetensors|has a left_out.csv"),
        ("folders", "a report.html that is not|has the name of a file"),
        ("x" * 300, "cannot write there|File name too long"),
    ],
)
def test_folders_that_cannot_be_written_to(refused, tmp_path, out, message):
    (tmp_path / "data.csv").write_text(TEXT)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "report.html").write_text("my own report")
    (tmp_path / "stranger").mkdir()
    save_file({"a": torch.ones(1)}, tmp_path / "stranger" / "model.safetensors")
    (tmp_path / "folders" / "report.html").mkdir(parents=True)
    line = refused(
        "train", tmp_path / "data.csv", "--target", "answer", "--out", tmp_path / out, *FAST
    )
    assert re.search(message, line)


@pytest.fixture
def model(tmp_path, trained):
    shutil.copytree(trained / "answer", tmp_path / "model")
    return tmp_path / "model"


def cut(length):
    return lambda path: path.write_bytes(path.read_bytes()[:length])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


MODELS = {
    "of another version": (lambda p: resigned(p, put("format", value=99)), "format 99 and this"),
    "tampered": (flip, "checksum is wrong: the file was damaged or edited"),
    "edited text": (
        lambda p: p.write_bytes(p.read_bytes().replace(b"answer", b"answes")),
        "checksum is wrong",
    ),
    "truncated": (cut(-10), "damaged"),
    "truncated in the header": (
        cut(200),
        "is not a model or checkpoint of decoupled-descent, or it was truncated; name",
    ),
    "empty": (cut(0), "is not a model"),
    "a table": (lambda p: p.write_text(TEXT), "is not a model"),
    "of another program": (lambda p: save_file({"a": torch.ones(1)}, p), "is not a model"),
    "a pickle": (lambda p: torch.save({"a": torch.ones(1)}, p), "is not a model"),
    "not finite": (
        lambda p: resigned(
            p, lambda _, tensors: tensors["member.0.theta"].fill_(np.nan) * 0 is None
        ),
        "out of range",
    ),
    "missing": (lambda p: p.unlink(), "does not exist"),
    "a folder": (lambda p: (p.unlink(), p.mkdir()), "cannot be read"),
}


@pytest.mark.parametrize("case", MODELS)
def test_bad_models(refused, tmp_path, model, case):
    spoil, message = MODELS[case]
    spoil(model / "model.safetensors")
    (tmp_path / "data.csv").write_text(TEXT)
    line = refused("predict", model, tmp_path / "data.csv", "--out", tmp_path / "out.csv")
    assert re.search(message, line)
    assert str(model) in line


PREDICT = {
    "a missing column": (GOOD.drop(columns="b"), "lacks 'b', which the model was trained with"),
    "a renamed column": (GOOD.rename(columns={"b": "c"}), "lacks 'b'.*it has 'a', 'c'"),
    "text where numbers were": (GOOD.assign(b="high"), "column 'b', row 1: 'high' is not a number"),
    "text among numbers": (GOOD.assign(b=LATE), "row 60: 'oops' is not a number"),
    "1e300": (GOOD.assign(b=1e300), r"1e\+300 is beyond"),
    "no rows": (GOOD[:0], "names but no rows"),
}


@pytest.mark.parametrize("case", PREDICT)
def test_bad_tables_to_predict(refused, tmp_path, model, case):
    frame, message = PREDICT[case]
    frame.to_csv(tmp_path / "data.csv", index=False)
    line = refused("predict", model, tmp_path / "data.csv", "--json")
    assert re.search(message, line)
    assert str(tmp_path / "data.csv") in line


def test_files_of_predictions_that_cannot_be_written(refused, tmp_path, model):
    data = tmp_path / "data.csv"
    data.write_text(TEXT)
    assert "is a folder; name a file" in refused("predict", model, data, "--out", tmp_path)
    for suffix in (".csv.gz", ".parquet", ".XLSX"):
        line = refused("predict", model, data, "--out", tmp_path / f"out{suffix}")
        assert "written as CSV; name a file ending in .csv" in line
    for out in (tmp_path / "absent" / "out.csv", data / "out.csv", "/proc/out.csv"):
        assert "cannot write there" in refused("predict", model, data, "--out", out)
    assert "is read by this command" in refused("predict", model, data, "--out", data)
    inside = model / "model.safetensors"
    assert "is read by this command" in refused("predict", model, data, "--out", inside)
    assert "does not exist" in refused("predict", tmp_path / "absent", data)
    assert "does not exist" in refused("predict", model, tmp_path / "absent.csv")


def test_in_a_process_of_its_own(tmp_path):
    (tmp_path / "data.csv").write_text(TEXT)
    program = Path(sys.executable).with_name("decoupled")
    arguments = ["train", "data.csv", "--target", "answr", "--out", "out"]
    done = subprocess.run(
        [program, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: data\.csv.*\n", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def test_errors_beside_json_leave_standard_output_empty(refused, tmp_path):
    (tmp_path / "data.csv").write_text(TEXT)
    refused(
        "diagnose", tmp_path / "data.csv", "--target", "b", "--task", "classification", "--json"
    )
