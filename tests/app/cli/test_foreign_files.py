"""Files of other kinds under the name of a table: one line that says what they are."""

import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest

from tests.app.cli.test_bad_input import GOOD, TEXT, as_bytes, zipped

DATA = {
    "a web page": ("a.csv", "<!DOCTYPE html>\n<html><h1>404, not found</h1>", "this is a web page"),
    "JSON": ("a.csv", json.dumps([{"a": 1, "answer": "x"}] * 20), "this is JSON; save it as CSV"),
    "JSON lines": ("a.csv", '{"a": 1, "answer": "x"}\n' * 20, "this is JSON; save it as CSV"),
    "XML": ("a.csv", "<?xml version='1.0'?>\n<a/>\n", "this is XML; save it as CSV"),
    "a PDF": ("a.csv", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", "this is a PDF"),
    "a pointer of Git LFS": (
        "a.csv",
        "version https://git-lfs.github.com/spec/v1\nsize 12345\n",
        "git lfs pull",
    ),
    "xls called csv": (
        "a.csv",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99),
        "check that the extension matches",
    ),
    "xlsx called csv": ("a.csv", zipped("xl/workbook.xml", "<a/>"), "does not occur in text files"),
    "a merge conflict": ("a.csv", TEXT.replace("\n", "\n<<<<<<< HEAD\n", 1), "line 2 has 1 field,"),
    "packed twice": (
        "a.csv.gz",
        gzip.compress(gzip.compress(TEXT.encode())),
        "does not occur in text files",
    ),
    "text called gz": ("a.csv.gz", TEXT, "damaged or not a .gz file"),
    "columns of fixed width": (
        "a.txt",
        "a    b    answer\n" + "1    2    yes\n" * 20,
        "separated by spaces",
    ),
    "vertical bars": ("a.csv", TEXT.replace(",", "|"), "separated by vertical bars"),
    "a title below": ("a.csv", TEXT + "Report, of, 2024, by, us\n", "line 62 has 5 fields"),
    "names twice": ("a.csv", TEXT.splitlines()[0] + "\n" + TEXT, "class 'answer'"),
    "a zero byte": (
        "a.csv",
        TEXT.replace("Ulm", "U\x00lm", 1),
        "0x00, which does not occur in text",
    ),
    "rows as columns": ("a.csv", "a,1,2,3\nanswer,x,y,x\n", "there is no column 'answer'"),
    "rows in quotation marks": (
        "a.csv",
        "".join(f'"{line}"\n' for line in TEXT.splitlines()),
        "there is no column 'answer'",
    ),
    "nested parquet": (
        "a.parquet",
        as_bytes(lambda s: GOOD.assign(b=[{"u": 1}] * 60).to_parquet(s)),
        "holds lists or other nested values",
    ),
    "bytes in parquet": (
        "a.parquet",
        as_bytes(lambda s: GOOD.assign(b=[b"x"] * 60).to_parquet(s)),
        "holds bytes",
    ),
    "durations in parquet": (
        "a.parquet",
        as_bytes(lambda s: GOOD.assign(b=pd.to_timedelta(range(60), "s")).to_parquet(s)),
        "has the type timedelta64",
    ),
    "parquet without rows": (
        "a.parquet",
        as_bytes(lambda s: GOOD[:0].to_parquet(s)),
        "names but no rows",
    ),
    "more labels than rows": (
        "a.npz",
        as_bytes(np.savez, X=np.ones((20, 2)), y=np.arange(21)),
        "each of the 20 rows",
    ),
    "complex numbers": (
        "a.npz",
        as_bytes(np.savez, X=1j * np.ones((20, 2)), y=np.arange(20)),
        "complex128",
    ),
    "images": (
        "a.npz",
        as_bytes(np.savez, X=np.ones((20, 2, 2)), y=np.arange(20)),
        r"shape \(20, 2, 2\)",
    ),
    "a structured array": (
        "a.npz",
        as_bytes(np.savez, X=np.zeros(20, dtype=[("a", "f8")])),
        "must be a matrix",
    ),
}


@pytest.mark.parametrize("case", DATA)
def test_files_of_other_kinds(refused, tmp_path, case):
    name, content, words = DATA[case]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    target = "y" if name.endswith(".npz") else "answer"
    line = refused("train", path, "--target", target, "--out", tmp_path / "o")
    assert line.startswith(f"error: {path}: ")
    assert re.search(words, line)
