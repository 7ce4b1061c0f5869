"""Parquet files: limits before reading, nested values, text that is stored once."""

import io
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.files import limits
from decoupled_descent.app.files.opening import open_table
from decoupled_descent.app.files.parquet import ParquetFile
from decoupled_descent.app.files.reading import read_table
from decoupled_descent.tables.columns.rules import Columns

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def written(path, **columns):
    parquet.write_table(arrow.table(columns), path)
    return path


def test_text_has_the_type_that_pandas_gives_it(tmp_path):
    texts = ["b", None, "a", "b"]
    kinds = (arrow.string(), arrow.large_string(), arrow.binary())
    path = written(
        tmp_path / "a.parquet",
        **{str(kind): arrow.array(texts, arrow.string()).cast(kind) for kind in kinds},
        category=arrow.array(texts).dictionary_encode(),
        number=arrow.array([1, 2, 3, 4]),
    )
    result, wanted = read_table(path), pd.read_parquet(path)
    for name in wanted.columns:
        assert result[name].dtype == wanted[name].dtype
        assert result[name].isna().tolist() == wanted[name].isna().tolist()
        assert result[name].dropna().tolist() == wanted[name].dropna().tolist()


@pytest.mark.parametrize("large", [True, False])
def test_nested_columns_are_not_read_and_can_be_dropped(tmp_path, monkeypatch, large):
    monkeypatch.setattr(limits, "LARGE", 0 if large else 10**9)
    path = written(
        tmp_path / "a.parquet",
        lists=arrow.array([[1.0, 2.0]] * 12),
        a=arrow.array(np.arange(12.0) ** 2),
        records=arrow.array([{"u": 1}] * 12),
        town=arrow.array(["x", "y"] * 6),
    )
    table = open_table(path)
    assert table.in_memory != large
    frame = table.first_pass(["lists"]).sample
    assert list(frame.columns) == ["lists", "a", "records", "town"]
    with pytest.raises(ValueError, match="'lists' holds lists or other nested values"):
        Columns.learn(frame)
    assert Columns.learn(frame, drop=["lists", "records"]).names == ["a", "town=x", "town=y"]
    assert pd.concat(table.frames(table.first_pass()))["a"].tolist() == frame["a"].tolist()


def test_nested_columns_alone_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "LARGE", 0)
    path = written(tmp_path / "a.parquet", lists=arrow.array([[1.0, 2.0]] * 12))
    with pytest.raises(ValueError, match="lists or other nested values only"):
        open_table(path).first_pass()


def test_long_lists_do_not_count_because_they_are_not_read(tmp_path):
    lists = arrow.array([[0.0] * 10_000] * 50)
    path = written(tmp_path / "a.parquet", lists=lists, a=arrow.array(np.arange(50.0)))
    assert ParquetFile(path, 1).size < 10_000
    before = arrow.total_allocated_bytes()
    assert read_table(path)["a"].sum() == 1225
    assert arrow.total_allocated_bytes() - before < 100_000


DAMAGED = """
import sys
from decoupled_descent.app.files.parquet import read_parquet

content = open(sys.argv[1], "rb").read()
refused = 0
for place in range(len(content) - 8 - int.from_bytes(content[-8:-4], "little"), len(content)):
    try:
        read_parquet(content[:place] + bytes([100]) + content[place + 1 :])
    except ValueError:
        refused += 1
print(refused)
"""


def test_no_damaged_byte_of_the_footer_ends_the_process(tmp_path):
    """In some places pyarrow would, if the numbers of single columns were read."""
    path = written(tmp_path / "a.parquet", a=arrow.array([1.0, 2.0]), t=arrow.array(["x", "yy"]))
    done = subprocess.run(
        [sys.executable, "-c", DAMAGED, path], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_text_that_is_stored_once_is_measured_before_it_is_copied(tmp_path, monkeypatch):
    path = written(tmp_path / "a.parquet", a=arrow.array(["x" * 50_000] * 200))
    assert ParquetFile(path, 1).size < 100_000
    monkeypatch.setattr(limits, "SMALL", 10_000_000)
    monkeypatch.setattr(limits, "DENSE", 1)
    assert len(read_table(path)) == 200
    monkeypatch.setattr(limits, "SMALL", 9_000_000)
    before = arrow.total_allocated_bytes()
    with pytest.raises(ValueError, match=r"a\.parquet: it unpacks to more than 9 MB"):
        read_table(path)
    assert arrow.total_allocated_bytes() - before < 1_000_000
    monkeypatch.setattr(limits, "LARGE", 0)
    table = open_table(path)
    with pytest.raises(ValueError, match="it unpacks to more than 9 MB"):
        table.first_pass()


def test_wide_values_are_measured_before_they_are_read(tmp_path):
    """They are stored once; a small file would take gigabytes."""
    kind = arrow.binary(1_000_000)
    values = arrow.array([bytes(kind.byte_width)], type=kind).take(arrow.array([0] * 200))
    path = written(tmp_path / "a.parquet", a=values, y=arrow.array(range(200)))
    assert path.stat().st_size < 100_000
    before = arrow.total_allocated_bytes()
    with pytest.raises(ValueError, match="it unpacks to more than 25 MB"):
        read_table(path)
    assert arrow.total_allocated_bytes() - before < 10_000_000


def test_too_many_columns_are_refused_before_reading(tmp_path, monkeypatch):
    path = written(tmp_path / "a.parquet", **{f"c{k}": arrow.array([1]) for k in range(12)})
    monkeypatch.setattr(limits, "MOST_COLUMNS", 11)
    monkeypatch.setattr(ParquetFile, "read", lambda *_: pytest.fail("it was read"))
    with pytest.raises(ValueError, match="it has 12 columns; the limit is 11"):
        read_table(path)


def test_an_index_without_a_name_is_not_a_column():
    stream = io.BytesIO()
    pd.DataFrame({"a": [1, 2], "b": [[1], [2]]}, index=[7, 9]).to_parquet(stream)
    frame = ParquetFile(stream, len(stream.getvalue())).read()
    assert list(frame.columns) == ["a", "b"]


def test_text_that_is_not_utf_8_is_damage(tmp_path):
    path = written(tmp_path / "a.parquet", a=arrow.array(["quite", "other"]))
    content = path.read_bytes()
    assert b"quite" in content
    path.write_bytes(content.replace(b"quite", b"\xff\xff\xff\xff\xff"))
    with pytest.raises(ValueError, match="damaged or not a parquet file"):
        read_table(path)
