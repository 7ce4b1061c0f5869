"""Which tables are read in pieces, and which are refused before."""

import gzip

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.tables import limits, pieces
from decoupled_descent.app.tables.large import pieces_of
from decoupled_descent.app.tables.parquet import Parquet
from decoupled_descent.app.tables.reading import read_table
from tests.app.tables.test_pieces import table


def test_small_tables_and_other_kinds_are_read_as_a_whole(tmp_path):
    table().to_csv(tmp_path / "a.csv", index=False)
    table().to_csv(tmp_path / "a.csv.gz", index=False)
    table().to_parquet(tmp_path / "a.parquet")
    np.save(tmp_path / "a.npy", np.eye(3))
    for path in tmp_path.iterdir():
        found = pieces_of(path)
        assert found.whole
        scan = found.scan(["count", "absent"])
        (frame,) = found.frames(scan)
        pd.testing.assert_frame_equal(frame, read_table(path))
        assert scan.sample is frame
        assert (scan.rows, list(scan.kept)) == (len(frame), ["count"] if len(frame) > 3 else [])
        written = table()["count"].astype(str).tolist() if ".csv" in path.suffixes else None
        assert len(frame) == 3 or scan.texts("count") == written
    with pytest.raises(FileNotFoundError, match=r"absent\.csv does not exist"):
        pieces_of(tmp_path / "absent.csv")


def test_packed_files_are_large_by_their_content(monkeypatch, tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 5000))
    monkeypatch.setattr(pieces, "LARGE", 20_004)
    assert pieces_of(path).whole
    monkeypatch.setattr(pieces, "LARGE", 20_003)
    assert not pieces_of(path).whole
    assert pieces_of(path).size == 20_004
    monkeypatch.setattr(limits, "SMALL", 10_000)
    with pytest.raises(ValueError, match=r"a\.csv\.gz: it unpacks to more than"):
        pieces_of(path)


def test_parquet_is_measured_before_it_is_read(monkeypatch, tmp_path):
    path = tmp_path / "a.parquet"
    pd.DataFrame({"a": np.zeros(200_000), "b": np.zeros(200_000)}).to_parquet(path)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(limits, "MOST_BYTES", 3_000_000)
    monkeypatch.setattr(Parquet, "frame", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(ValueError, match="unpacks to more than 3 MB"):
        read_table(path)
    monkeypatch.setattr(pieces, "LARGE", 3_000_000)
    assert pieces_of(path).size >= 3_200_000
    monkeypatch.setattr(limits, "SMALL", 1_000_000)
    with pytest.raises(ValueError, match=r"a\.parquet: it unpacks to more than"):
        pieces_of(path)


def test_one_column_is_read_as_a_whole(small_pieces, tmp_path):
    (tmp_path / "a.csv").write_text("size\n1\n\n3\n")
    assert pieces_of(tmp_path / "a.csv").whole


def test_damaged_files_are_named(small_pieces, monkeypatch, tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing else")
    with pytest.raises(ValueError, match=r"a\.parquet: the file is damaged"):
        pieces_of(tmp_path / "a.parquet")
    packed = gzip.compress(table(2000).to_csv(index=False).encode())
    (tmp_path / "a.csv.gz").write_bytes(packed[:-2000])
    with pytest.raises(ValueError, match=r"a\.csv\.gz: the file is damaged"):
        pieces_of(tmp_path / "a.csv.gz")
    monkeypatch.setattr(pieces, "LARGE", 10**6)
    with pytest.raises(ValueError, match=r"a\.csv\.gz: the file is damaged"):
        pieces_of(tmp_path / "a.csv.gz")  # as a whole
