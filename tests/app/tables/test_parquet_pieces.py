"""Parquet files that several processes read."""

import pandas as pd
import pytest

from decoupled_descent.app.tables import pieces
from decoupled_descent.app.tables.large import pieces_of
from tests.app.tables.company import in_company
from tests.app.tables.test_pieces import ROWS, WRITERS, table
from tests.app.tables.test_text_pieces import assert_together

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("most", [20, 1000])
def test_each_process_reads_its_own_rows(most, small_pieces, monkeypatch, tmp_path):
    monkeypatch.setattr(pieces, "MOST_SAMPLED", most)
    WRITERS["parquet"](table(), tmp_path / "a.parquet")
    assert assert_together(tmp_path / "a.parquet", 3) == [33, 32, 32]


def test_categories_of_processes_are_those_of_the_table(small_pieces, tmp_path):
    kinds = pd.Categorical(["7"] * 45 + ["8"] * 45)
    frame = pd.DataFrame({"a": range(90), "town": kinds})
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=15)
    assert assert_together(tmp_path / "a.parquet", 3) == [30] * 3


def test_groups_of_other_processes_are_not_read(small_pieces, tmp_path):
    WRITERS["parquet"](table(), tmp_path / "a.parquet")
    found = pieces_of(tmp_path / "a.parquet")
    groups, whole = [], found._file._file.iter_batches

    class Watched:
        def __getattr__(self, name):
            return getattr(found._file.__dict__["watched"], name)

        def iter_batches(self, row_groups, **options):
            groups.extend(row_groups)
            return whole(row_groups=row_groups, **options)

    found._file.watched, found._file._file = found._file._file, Watched()
    assert sum(map(len, found._file.batches(7, slice(25, 61)))) == 36
    assert groups == [1, 2, 3]


def test_parts_without_labels_are_divided_anew(small_pieces, tmp_path):
    WRITERS["parquet"](table(), tmp_path / "a.parquet")

    def read(share):
        found = pieces_of(tmp_path / "a.parquet", share)
        scan = found.scan()
        known = pd.RangeIndex(ROWS).to_numpy() < 30
        return pd.concat(found.frames(found.labelled(scan, known))).index.tolist()

    parts = in_company(3, read)
    assert [k for part in parts for k in part] == list(range(1, 31))
    assert [len(part) for part in parts] == [10] * 3
