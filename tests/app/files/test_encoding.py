"""Batches of a table as numbers: those of the whole table."""

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.files import limits
from decoupled_descent.app.files.encoding import codes_of, encode
from decoupled_descent.app.files.opening import open_table
from decoupled_descent.app.files.reading import read_table
from decoupled_descent.tables.columns.rules import Columns


def table(rows=80):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"age": rng.integers(20, 60, rows), "pet": rng.choice(["cat", "dog"], rows)}
    )
    frame["when"] = pd.date_range("2024-03-01", periods=rows).strftime("%d.%m.%Y")
    frame["price"] = [f"${1000 + 7 * k:,}.50" for k in range(rows)]
    frame["customer_id"] = [k // 3 for k in range(rows)]
    return frame


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_on_disk_is_that_of_memory(suffix, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "LARGE", 0)
    monkeypatch.setattr(limits, "BATCH_BYTES", 400)
    path = tmp_path / f"a.{suffix}"
    table().to_csv(path, index=False) if suffix == "csv" else table().to_parquet(path)
    reader, labelled = open_table(path), np.arange(80) % 5 > 0
    first = reader.first_pass()
    learnt = Columns.learn(read_table(path)[labelled])
    encoded = encode(reader, first, learnt, labelled, ["customer_id"])
    assert isinstance(encoded.X, np.memmap)
    np.testing.assert_array_equal(encoded.X, learnt.apply(read_table(path)[labelled]))
    codes = np.unique(table()["customer_id"][labelled], return_inverse=True)[1]
    np.testing.assert_array_equal(encoded.codes["customer_id"], codes)
    assert encoded.notes == []
    monkeypatch.setattr(limits, "LARGE", 10**6)
    small = open_table(path)
    whole = encode(small, small.first_pass(), learnt, labelled, ["customer_id"])
    assert not isinstance(whole.X, np.memmap)
    np.testing.assert_array_equal(whole.X, encoded.X)
    np.testing.assert_array_equal(whole.codes["customer_id"], codes)
    assert whole.notes == []


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_batches_give_one_matrix_and_all_notes(suffix, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "LARGE", 0)
    path, frame = tmp_path / f"a.{suffix}", table()
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    learnt = Columns.learn(read_table(path)[:50])
    frame.loc[[41, 71, 76], "price"] = "gratis"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    labelled = np.arange(80) % 5 > 0

    reader = open_table(path)
    found = encode(reader, reader.first_pass(), learnt, labelled, ["customer_id"])
    assert found.X.shape == (64, len(learnt.names))
    assert len(found.codes["customer_id"]) == 64
    assert "3 values are not numbers" in found.notes[0]
    assert "'gratis' (first in row 42)" in found.notes[0]


def test_values_keep_their_codes_in_later_batches():
    codebook = {}
    first = codes_of(pd.Series(["b", "a", "b"]), codebook)
    second = codes_of(pd.Series(["c", "a"]), codebook)
    assert [*first, *second] == [0, 1, 0, 2, 1]
