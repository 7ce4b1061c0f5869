"""Tables in batches: the rows and columns of a table that is read as a whole."""

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.files import reservoir
from decoupled_descent.app.files.opening import open_table
from decoupled_descent.app.files.reading import read_table

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


def both_passes(path, names=()):
    """Return the rows of the second pass, and the result of the first pass."""
    reader = open_table(path)
    assert not reader.in_memory
    first = reader.first_pass(names)
    frames = list(reader.frames(first))
    assert len(frames) > 5
    return pd.concat(frames), first


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
def test_batches_are_the_table(suffix, small_batches, tmp_path):
    path = tmp_path / f"table.{suffix}"
    WRITERS[suffix](table(), path)
    whole = read_table(path)
    rows, first = both_passes(path, ["a", "town", "absent"])
    pd.testing.assert_frame_equal(first.sample, whole, check_index_type=False)
    assert first.notes == whole.attrs["notes"]
    pd.testing.assert_frame_equal(rows, whole, check_index_type=False, check_dtype=False)
    assert set(first.columns) == {"a", "town"}
    for name, column in first.columns.items():
        pd.testing.assert_series_equal(column, whole[name], check_names=False)
    if suffix != "parquet":
        assert first.as_written("a")[:3] == [
            one.replace(".", "," if suffix == "txt" else ".")
            for one in table()["a"].astype(str)[:3]
        ]


def test_a_first_column_without_a_name_and_a_line_of_excel(small_batches, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"sep=;\r\n" + table().to_csv(sep=";").encode("cp1252"))
    whole = read_table(path)
    rows, first = both_passes(path)
    assert first.notes == whole.attrs["notes"]
    pd.testing.assert_frame_equal(rows, whole, check_index_type=False, check_dtype=False)


def test_categories_of_batches_are_those_of_the_table(small_batches, tmp_path):
    frame = pd.DataFrame({"size": range(90), "kind": pd.Categorical(["7"] * 45 + ["8"] * 45)})
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=15)
    rows, first = both_passes(tmp_path / "a.parquet", ["kind"])
    assert first.sample["kind"].dtype == "category"
    assert rows["kind"].astype(str).tolist() == frame["kind"].astype(str).tolist()
    assert first.columns["kind"].tolist() == frame["kind"].tolist()


def test_named_index_of_parquet_is_a_column(small_batches, tmp_path):
    frame = table().set_index("code")
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=15)
    rows, first = both_passes(tmp_path / "a.parquet", ["code"])
    assert rows["code"].tolist() == list(frame.index) == first.columns["code"].tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n" + "1,2\n" * 30 + "1,2,3\n" + "1,2\n" * 30, "line 32 has 3 fields"),
        (
            "a,b\n" + "1,2\n" * 30 + '1,"2\n' + "1,2\n" * 30,
            "line 32: is a quotation mark left open",
        ),
        ("a,b\n" + "1,2\n" * 300 + "\0,3\n", "byte 1204 is 0x00"),
        ("a,a\n" + "1,2\n" * 30, "more than one column"),
        ("a,b\n", "no rows"),
    ],
)
def test_errors_name_the_line(content, message, small_batches, tmp_path):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        both_passes(tmp_path / "a.csv")


def test_a_file_that_changed_is_refused(small_batches, tmp_path):
    path = tmp_path / "a.csv"
    table().to_csv(path, index=False)
    reader = open_table(path)
    first = reader.first_pass()
    table(90).to_csv(path, index=False)
    with pytest.raises(ValueError, match="97 rows in the first pass and 90 in"):
        list(reader.frames(first))


def test_text_in_a_complete_column_of_numbers(small_batches, tmp_path):
    codes = [f"{k % 3:02d}" for k in range(80)]
    codes[77] = "x"
    pd.DataFrame({"a": range(80), "code": codes}).to_csv(tmp_path / "a.csv", index=False)
    first = open_table(tmp_path / "a.csv").first_pass(["code"])
    assert first.columns["code"].tolist() == codes


def test_the_sample_is_spread_over_the_file(small_batches, monkeypatch, tmp_path):
    monkeypatch.setattr(reservoir, "MOST_SAMPLED", 20)
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"a.{suffix}"
        WRITERS[suffix](table(), path)
        _, first = both_passes(path)
        numbers = first.sample.index.to_numpy()
        assert (len(numbers), first.n_rows) == (20, ROWS)
        assert numbers.min() < 20
        assert numbers.max() > 75
        expected = table()["a"].to_numpy()[numbers - 1]
        np.testing.assert_array_equal(first.sample["a"], expected)


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_folder_is_the_table_of_its_files(suffix, small_batches, tmp_path):
    """In pieces, and as a whole."""
    frame = table()
    WRITERS[suffix](frame, tmp_path / f"all.{suffix}")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    for k, start in enumerate((0, 40, 41)):
        stop = (40, 41, ROWS)[k]
        WRITERS[suffix](frame[start:stop].reset_index(drop=True), folder / f"part-{k}.{suffix}")
    whole = read_table(tmp_path / f"all.{suffix}")
    rows, first = both_passes(folder, ["a", "town"])
    pd.testing.assert_frame_equal(first.sample, whole, check_index_type=False)
    pd.testing.assert_frame_equal(rows, whole, check_index_type=False, check_dtype=False)
    pd.testing.assert_series_equal(first.columns["town"], whole["town"], check_names=False)
    assert first.notes == whole.attrs["notes"]
    pd.testing.assert_frame_equal(read_table(folder), whole)
