"""Text files that several processes read: each has rows of its own, and all know the same."""

import pandas as pd
import pytest

from decoupled_descent.app.tables import pieces, text_pieces
from decoupled_descent.app.tables.large import pieces_of
from tests.app.tables.company import in_company
from tests.app.tables.test_pieces import ROWS, WRITERS, joined, table

TEXTS = [suffix for suffix in WRITERS if suffix != "parquet"]


def read_by(path, size, kept=("a", "town", "absent")):
    """What each of so many processes has: its rows, and the first pass."""

    def read(share):
        found = pieces_of(path, share)
        scan = found.scan(kept)
        parts = list(found.frames(scan))
        assert share.sums > 3
        return pd.concat(parts), scan

    found = in_company(size, read)
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found


def assert_together(path, size):
    """Compare what processes read with what one does."""
    whole, alone = joined(path, ["a", "town", "absent"])
    found = read_by(path, size)
    pd.testing.assert_frame_equal(
        pd.concat([rows for rows, _ in found]), whole, check_index_type=False, check_dtype=False
    )
    for rows, scan in found:
        assert (scan.rows, scan.notes) == (alone.rows, alone.notes)
        assert rows.index.tolist() == [k + 1 for k in range(scan.rows)[scan.own]]
        pd.testing.assert_frame_equal(scan.sample, alone.sample)
        assert set(scan.kept) == set(alone.kept)
        for name, column in scan.kept.items():
            pd.testing.assert_series_equal(column, alone.kept[name], check_names=False)
            assert scan.texts(name) == alone.texts(name)
    return [len(rows) for rows, _ in found]


@pytest.mark.parametrize("suffix", TEXTS)
@pytest.mark.parametrize("most", [20, 1000])
def test_each_process_reads_its_own_rows(suffix, most, small_pieces, monkeypatch, tmp_path):
    monkeypatch.setattr(pieces, "MOST_SAMPLED", most)
    path = tmp_path / f"table.{suffix}"
    WRITERS[suffix](table(), path)
    parsed, whole = [], text_pieces.records

    def records(*arguments):
        for one in whole(*arguments):
            parsed.append(None)
            yield one

    sizes = assert_together(path, 3)
    assert min(sizes) > ROWS / 5
    monkeypatch.setattr(text_pieces, "records", records)
    read_by(path, 3)
    assert len(parsed) == ROWS + 1  # each row once, and the names


def test_marks_of_a_file_and_of_excel(small_pieces, tmp_path):
    for content in (
        b"sep=;\r\n" + table().to_csv(sep=";").encode("cp1252"),
        b"\xef\xbb\xbf" + table().to_csv(index=False, quoting=1).encode(),
    ):
        (tmp_path / "a.csv").write_bytes(content)
        assert min(assert_together(tmp_path / "a.csv", 3)) > ROWS / 5


def test_a_letter_that_is_not_utf8_in_one_part(small_pieces, tmp_path):
    frame = table().assign(town="Ulm")
    frame.loc[ROWS - 2, "town"] = "Köln"
    frame.to_csv(tmp_path / "a.csv", index=False, encoding="cp1252")
    assert_together(tmp_path / "a.csv", 3)
    assert "Windows-1252" in read_by(tmp_path / "a.csv", 2)[0][1].notes[0]


def test_marks_inside_fields_have_every_process_read_all(small_pieces, tmp_path):
    lines = ["a,town"] + [f'{k},a {k}" nail' for k in range(400)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    assert assert_together(tmp_path / "a.csv", 3) == [134, 133, 133]


@pytest.mark.parametrize(("content", "message"), [
    ("a,b\n" + "1,2\n" * 50 + "1,2,3\n" + "1,2\n", "line 52 has 3 fields"),
    ("a,b\n" + "1,2\n" * 50 + "\0,2\n" * 2, "byte 204 is 0x00"),
    ("a,b\n" + '1,"2"\n' * 50 + '1,"2\n' + "1,2\n" * 9, "field|quotation mark"),
])  # fmt: skip
def test_what_is_wrong_in_the_last_part_is_said_by_all(content, message, small_pieces, tmp_path):
    (tmp_path / "a.csv").write_text(content)

    def read(share):
        found = pieces_of(tmp_path / "a.csv", share)
        scan = found.scan()
        return share.together(lambda: len(list(found.frames(scan))))

    said = in_company(2, read)
    assert {type(one) for one in said} == {ValueError}
    assert len(set(map(str, said))) == 1
    with pytest.raises(ValueError, match=message):
        raise said[0]
    with pytest.raises(ValueError, match=message):
        joined(tmp_path / "a.csv")


def test_parts_without_labels_are_divided_anew(small_pieces, tmp_path):
    path = tmp_path / "a.csv"
    WRITERS["csv"](table(), path)

    def read(share):
        found = pieces_of(path, share)
        scan = found.scan(["a"])
        known = scan.kept["a"].notna().to_numpy().copy()
        assert found.labelled(scan, known) is scan
        known[30:] = False
        scan = found.labelled(scan, known)
        rows = pd.concat(found.frames(scan)).index
        known[2:] = False
        with pytest.raises(ValueError, match="2 rows with a label are too few for 3 processes"):
            found.labelled(scan, known)
        return rows.tolist()

    parts = in_company(3, read)
    assert [len(part) for part in parts] == [11, 10, 9]  # two of the first process have none
    assert [k for part in parts for k in part] == list(range(1, 31))
