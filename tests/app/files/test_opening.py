"""Which tables are read as a whole, which in batches, and which are refused before."""

import gzip

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.files import limits
from decoupled_descent.app.files.opening import open_table
from decoupled_descent.app.files.parquet import ParquetFile
from decoupled_descent.app.files.reading import read_table
from tests.app.files.test_table_reader import table


def test_small_tables_and_other_kinds_are_read_as_a_whole(tmp_path):
    table().to_csv(tmp_path / "a.csv", index=False)
    table().to_csv(tmp_path / "a.csv.gz", index=False)
    table().to_parquet(tmp_path / "a.parquet")
    np.save(tmp_path / "a.npy", np.eye(3))
    for path in tmp_path.iterdir():
        reader = open_table(path)
        assert reader.in_memory
        first = reader.first_pass(["count", "absent"])
        (frame,) = reader.frames(first)
        pd.testing.assert_frame_equal(frame, read_table(path))
        assert first.sample is frame
        assert (first.n_rows, list(first.columns)) == (
            len(frame),
            ["count"] if len(frame) > 3 else [],
        )
        written = table()["count"].astype(str).tolist() if ".csv" in path.suffixes else None
        assert len(frame) == 3 or first.as_written("count") == written
    with pytest.raises(FileNotFoundError, match=r"absent\.csv does not exist"):
        open_table(tmp_path / "absent.csv")


def test_packed_files_are_large_by_their_content(monkeypatch, tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 5000))
    monkeypatch.setattr(limits, "LARGE", 20_004)
    assert open_table(path).in_memory
    monkeypatch.setattr(limits, "LARGE", 20_003)
    assert not open_table(path).in_memory
    assert open_table(path).size == 20_004
    monkeypatch.setattr(limits, "SMALL", 10_000)
    with pytest.raises(ValueError, match=r"a\.csv\.gz: it unpacks to more than"):
        open_table(path)


def test_parquet_is_measured_before_it_is_read(monkeypatch, tmp_path):
    path = tmp_path / "a.parquet"
    pd.DataFrame({"a": np.zeros(200_000), "b": np.zeros(200_000)}).to_parquet(path)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(limits, "MOST_BYTES", 3_000_000)
    monkeypatch.setattr(ParquetFile, "frame", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(ValueError, match="unpacks to more than 3 MB"):
        read_table(path)
    monkeypatch.setattr(limits, "LARGE", 3_000_000)
    assert open_table(path).size >= 3_200_000
    monkeypatch.setattr(limits, "SMALL", 1_000_000)
    with pytest.raises(ValueError, match=r"a\.parquet: it unpacks to more than"):
        open_table(path)


def test_one_column_is_read_as_a_whole(small_batches, tmp_path):
    (tmp_path / "a.csv").write_text("size\n1\n\n3\n")
    assert open_table(tmp_path / "a.csv").in_memory


def test_damaged_files_are_named(small_batches, monkeypatch, tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing else")
    with pytest.raises(ValueError, match=r"a\.parquet: the file is damaged"):
        open_table(tmp_path / "a.parquet")
    packed = gzip.compress(table(2000).to_csv(index=False).encode())
    (tmp_path / "a.csv.gz").write_bytes(packed[:-2000])
    with pytest.raises(ValueError, match=r"a\.csv\.gz: the file is damaged"):
        open_table(tmp_path / "a.csv.gz")
    monkeypatch.setattr(limits, "LARGE", 10**6)
    with pytest.raises(ValueError, match=r"a\.csv\.gz: the file is damaged"):
        open_table(tmp_path / "a.csv.gz")  # as a whole


def test_folders_have_one_kind_of_file_with_the_same_columns(tmp_path):
    table().to_csv(tmp_path / "a.csv", index=False)
    table()[:60].to_csv(tmp_path / "b.csv", index=False)
    reader = open_table(tmp_path)
    assert reader.in_memory
    first = reader.first_pass(["count"])
    assert (first.n_rows, first.sample.index[-1]) == (157, 157)
    assert first.as_written("count") == [str(k) for k in first.columns["count"]]
    table()[:60].drop(columns="a").to_csv(tmp_path / "c.csv", index=False)
    with pytest.raises(ValueError, match=r"c\.csv: its columns are not those of a\.csv"):
        open_table(tmp_path)
    table().to_parquet(tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="has text files and parquet files; keep one kind"):
        open_table(tmp_path)


def test_parquet_files_of_a_folder_have_the_same_types(tmp_path):
    table().to_parquet(tmp_path / "a.parquet")
    table().astype({"count": "float"}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet: its columns are not those of a\.parquet"):
        open_table(tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 nothing else")
    with pytest.raises(ValueError, match=r"b\.parquet: the file is damaged"):
        open_table(tmp_path)


def test_folders_without_tables_are_refused(tmp_path):
    (tmp_path / "_hidden.csv").write_text("a,b\n1,2\n")
    with pytest.raises(IsADirectoryError, match="is a folder without csv or parquet files"):
        open_table(tmp_path)
    (tmp_path / "a.csv").write_text("a\n1\n2\n")
    with pytest.raises(ValueError, match=r"a\.csv: it has one column"):
        open_table(tmp_path)
