"""Tables in pieces: the rows and columns of a table that is read as a whole."""

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.tables import pieces
from decoupled_descent.app.tables.large import pieces_of
from decoupled_descent.app.tables.pieces import Drawn, sampled_rows
from decoupled_descent.app.tables.reading import read_table

ROWS = 97


def table(rows=ROWS):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=rows).round(3), "count": rng.integers(0, 9, rows)})
    frame["town"] = rng.choice(["Ulm", "Köln, am Rhein", 'say "x"', "two\nlines"], rows)
    frame["code"] = [f"{k % 7:02d}" for k in range(rows)]
    frame["flag"] = rng.random(rows) < 0.5
    frame["when"] = pd.date_range("2024-01-01", periods=rows).strftime("%Y-%m-%d")
    frame.loc[[3, 50], "a"] = np.nan
    frame.loc[[5, 80], "town"] = None
    return frame


def joined(path, kept=()):
    """The pieces of a file together, and what was found at first."""
    found = pieces_of(path)
    scan = found.scan(kept)
    parts = list(found.frames(scan))
    assert len(parts) > 5
    return pd.concat(parts), scan


WRITERS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "txt": lambda frame, path: frame.to_csv(
        path, index=False, sep=";", decimal=",", encoding="utf-8-sig"
    ),
    "parquet": lambda frame, path: frame.to_parquet(path, row_group_size=20),
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_pieces_are_the_table(suffix, small_pieces, tmp_path):
    path = tmp_path / f"table.{suffix}"
    WRITERS[suffix](table(), path)
    whole = read_table(path)
    found, scan = joined(path, ["a", "town", "absent"])
    pd.testing.assert_frame_equal(scan.sample, whole, check_index_type=False)
    assert scan.notes == whole.attrs["notes"]
    pd.testing.assert_frame_equal(found, whole, check_index_type=False, check_dtype=False)
    assert set(scan.kept) == {"a", "town"}
    for name, column in scan.kept.items():
        pd.testing.assert_series_equal(column, whole[name], check_names=False)
    if suffix != "parquet":
        assert scan.texts("a")[:3] == [
            one.replace(".", "," if suffix == "txt" else ".")
            for one in table()["a"].astype(str)[:3]
        ]


def test_a_first_column_without_a_name_and_a_line_of_excel(small_pieces, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"sep=;\r\n" + table().to_csv(sep=";").encode("cp1252"))
    whole = read_table(path)
    found, scan = joined(path)
    assert scan.notes == whole.attrs["notes"]
    pd.testing.assert_frame_equal(found, whole, check_index_type=False, check_dtype=False)


def test_categories_of_pieces_are_those_of_the_table(small_pieces, tmp_path):
    frame = pd.DataFrame({"size": range(90), "kind": pd.Categorical(["7"] * 45 + ["8"] * 45)})
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=15)
    found, scan = joined(tmp_path / "a.parquet", ["kind"])
    assert scan.sample["kind"].dtype == "category"
    assert found["kind"].astype(str).tolist() == frame["kind"].astype(str).tolist()
    assert scan.kept["kind"].tolist() == frame["kind"].tolist()


def test_named_index_of_parquet_is_a_column(small_pieces, tmp_path):
    frame = table().set_index("code")
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=15)
    found, scan = joined(tmp_path / "a.parquet", ["code"])
    assert found["code"].tolist() == list(frame.index) == scan.kept["code"].tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n" + "1,2\n" * 30 + "1,2,3\n" + "1,2\n" * 30, "line 32 has 3 fields"),
        ("a,b\n" + "1,2\n" * 30 + '1,"2\n' + "1,2\n" * 30, "line 32 has 2 fields|quotation mark"),
        ("a,b\n" + "1,2\n" * 300 + "\0,3\n", "byte 1204 is 0x00"),
        ("a,a\n" + "1,2\n" * 30, "more than one column"),
        ("a,b\n", "no rows"),
    ],
)
def test_what_is_wrong_is_named(content, message, small_pieces, tmp_path):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        joined(tmp_path / "a.csv")


def test_a_file_that_changed_is_refused(small_pieces, tmp_path):
    path = tmp_path / "a.csv"
    table().to_csv(path, index=False)
    found = pieces_of(path)
    scan = found.scan()
    table(90).to_csv(path, index=False)
    with pytest.raises(ValueError, match="97 rows in the first pass and 90 in"):
        list(found.frames(scan))


def test_text_in_a_column_of_numbers_that_is_kept(small_pieces, tmp_path):
    codes = [f"{k % 3:02d}" for k in range(80)]
    codes[77] = "x"
    pd.DataFrame({"a": range(80), "code": codes}).to_csv(tmp_path / "a.csv", index=False)
    scan = pieces_of(tmp_path / "a.csv").scan(["code"])
    assert scan.kept["code"].tolist() == codes


def test_rows_are_drawn_alike_whatever_the_pieces():
    """All rows have the same chance, wherever they are and however they come."""
    counts = np.zeros(30)
    for seed in range(2000):
        drawn = Drawn(6, seed)
        for start in range(0, 30, 4):
            drawn.offer(range(start, min(start + 4, 30)))
        items = drawn.items()
        assert [item + 1 for _, item in items] == [number for number, _ in items]
        assert len(set(items)) == 6
        counts[[item for _, item in items]] += 1
        if seed < 5:
            at_once, parts = Drawn(6, seed), [Drawn(6, seed, before=k) for k in (0, 13)]
            at_once.offer(range(30))
            for part, own in zip(parts, (range(13), range(13, 30)), strict=True):
                part.offer(own)
            joined = Drawn(6)
            joined.join(part.cut() for part in parts)
            assert at_once.items() == items == joined.items()
    expected, deviation = 2000 * 6 / 30, np.sqrt(2000 * 0.2 * 0.8)
    assert np.abs(counts - expected).max() < 4 * deviation


def test_the_sample_is_spread_over_the_file(small_pieces, monkeypatch, tmp_path):
    monkeypatch.setattr(pieces, "MOST_SAMPLED", 20)
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"a.{suffix}"
        WRITERS[suffix](table(), path)
        _, scan = joined(path)
        places = scan.sample.index.to_numpy()
        assert (len(places), scan.rows) == (20, ROWS)
        assert places.min() < 20
        assert places.max() > 75
        expected = table()["a"].to_numpy()[places - 1]
        np.testing.assert_array_equal(scan.sample["a"], expected)


def test_wide_tables_are_decided_on_fewer_rows():
    assert [sampled_rows(width) for width in (1, 20, 200, 10**5)] == [10**5, 50_000, 5_000, 1000]
