"""Tables: every dialect read alike, every bad file refused in one line."""

import contextlib
import gzip
import io
import math
import re
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.files.reading import read_table
from decoupled_descent.app.files.targets import labels_of, recognise_task

NAN = float("nan")
PLAIN = "size,town,price\n1.5,Bonn,20\n2.5,Köln,30\n,Ulm,41\n"
EXPECTED = {"size": [1.5, 2.5, NAN], "town": ["Bonn", "Köln", "Ulm"], "price": [20, 30, 41]}


def written(folder, name, content):
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def parquet(frame):
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    return buffer.getvalue()


def assert_table(frame, expected):
    assert list(frame.columns) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(frame[name].to_list(), values)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", PLAIN),
        ("A.CSV", PLAIN),
        ("crlf.csv", PLAIN.replace("\n", "\r\n")),
        ("mac.csv", PLAIN.replace("\n", "\r")),
        ("bom.csv", b"\xef\xbb\xbf" + PLAIN.encode()),
        ("latin.csv", PLAIN.encode("latin-1")),
        ("semicolon.csv", PLAIN.replace(",", ";")),
        ("decimal.csv", PLAIN.replace(",", ";").replace(".", ",")),
        ("tab.tsv", PLAIN.replace(",", "\t")),
        ("decimal.tsv", PLAIN.replace(",", "\t").replace(".", ",")),
        ("comma.tsv", PLAIN),
        ("tab.txt", PLAIN.replace(",", "\t")),
        ("spaces.csv", PLAIN.replace(",", ", ").replace("size", " size ")),
        ("blank.csv", "\n" + PLAIN.replace("\n", "\n\n") + "\n"),
        ("unfinished.csv", PLAIN.rstrip("\n")),
        ("quoted.csv", re.sub(r"([^,\n]+)", r'"\1"', PLAIN)),
        ("trailing.csv", PLAIN.replace("\n", ",\n")),
        ("markers.csv", PLAIN.replace("\n,Ulm", "\nNA,Ulm")),
        ("a.csv.gz", gzip.compress(PLAIN.encode(), mtime=0)),
        ("a.b.tsv.gz", gzip.compress(PLAIN.replace(",", "\t").encode(), mtime=0)),
        ("a.parquet", parquet(pd.DataFrame(EXPECTED))),
        ("text.parquet", parquet(pd.DataFrame(EXPECTED, index=["u", "v", "w"]))),
        ("index.parquet", parquet(pd.DataFrame(EXPECTED).set_index("size"))),
        ("twice.parquet", parquet(pd.DataFrame(EXPECTED).set_index("town", drop=False))),
        ("arrow.parquet", parquet(pd.DataFrame(EXPECTED).convert_dtypes(dtype_backend="pyarrow"))),
        ("sep.csv", "sep=;\n" + PLAIN.replace(",", ";")),
        ("sep.csv", b"\xef\xbb\xbf" + ('"sep=,"\r\n' + PLAIN).encode()),
    ],
)
def test_same_table_however_written(tmp_path, name, content):
    frame = read_table(written(tmp_path, name, content))
    assert_table(frame, EXPECTED)
    assert frame.index.tolist() == [1, 2, 3]
    assert pd.api.types.is_float_dtype(frame["size"])


@pytest.mark.parametrize(
    ("content", "notes"),
    [
        (PLAIN, []),
        (PLAIN.encode("latin-1"), [r"not UTF-8; it was read as Windows-1252"]),
        ("a;b\n1,5;2\n", [r"decimal mark: '1,5' was read as 1\.5"]),
        (",a,b\n7,1,2\n3,4,5\n", ["first column has no name.*left out as an index"]),
    ],
)
def test_notes(tmp_path, content, notes):
    result = read_table(written(tmp_path, "a.csv", content)).attrs["notes"]
    assert len(result) == len(notes)
    for sentence, pattern in zip(result, notes, strict=True):
        assert re.search(pattern, sentence)


@pytest.mark.parametrize("first", ["", "Unnamed: 0"])
@pytest.mark.parametrize("rows", [("5", "0", "3"), ("Fiat", "Opel", "Seat")])
def test_index_columns_are_left_out(tmp_path, first, rows):
    lines = [f"{first},a,b", *(f"{row},1,2" for row in rows)]
    assert_table(
        read_table(written(tmp_path, "a.csv", "\n".join(lines))), {"a": [1] * 3, "b": [2] * 3}
    )


def test_what_pandas_writes_comes_back(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=20), "b": rng.choice(["x", "y, z"], 20)})
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "a.csv")
    table.to_parquet(tmp_path / "a.parquet")
    result = read_table(tmp_path / "a.csv").sort_values("a").reset_index(drop=True)
    pd.testing.assert_frame_equal(result, table.sort_values("a").reset_index(drop=True))
    result = read_table(tmp_path / "a.parquet").reset_index(drop=True)
    pd.testing.assert_frame_equal(result, table)


def test_nameless_matrices_written_by_pandas(tmp_path):
    pd.DataFrame([[1.5, 2.5], [3.5, 4.5]]).to_csv(tmp_path / "a.csv")
    assert_table(read_table(tmp_path / "a.csv"), {"0": [1.5, 3.5], "1": [2.5, 4.5]})


def test_types_of_arrow_become_plain_ones(tmp_path):
    days = pd.Series(pd.date_range("2020-01-01", periods=3)).dt.date
    table = pd.DataFrame({"day": days.astype("date32[pyarrow]"), "ok": [True, None, False]})
    table["ok"] = table["ok"].astype("bool[pyarrow]")
    frame = read_table(written(tmp_path, "a.parquet", parquet(table)))
    assert not any(isinstance(dtype, pd.ArrowDtype) for dtype in frame.dtypes)
    assert_table(frame, {"day": days.tolist(), "ok": [True, None, False]})


MATRIX = np.random.default_rng(0).normal(size=(4, 2))
NOISE = np.random.default_rng(1).bytes(3000)


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.npy", npy(MATRIX), ["x0", "x1"]),
        ("a.npy", npy(MATRIX.astype(">f8")), ["x0", "x1"]),
        ("a.npy", npy(np.asfortranarray(MATRIX)), ["x0", "x1"]),
        ("a.npz", npz(data=MATRIX), ["x0", "x1"]),
        ("a.npz", npz(X=MATRIX), ["x0", "x1"]),
        ("a.npz", npz(X=MATRIX, y=np.arange(4)), ["x0", "x1", "y"]),
        ("a.npz", npz(X=MATRIX, y=np.arange(4)[:, None]), ["x0", "x1", "y"]),
        ("a.npy", npz(X=MATRIX), ["x0", "x1"]),
        ("a.npz", npy(MATRIX), ["x0", "x1"]),
    ],
)
def test_arrays(tmp_path, name, content, columns):
    frame = read_table(written(tmp_path, name, content))
    assert list(frame.columns) == columns
    np.testing.assert_array_equal(frame[["x0", "x1"]].to_numpy(), MATRIX)
    if "y" in columns:
        assert frame["y"].tolist() == [0, 1, 2, 3]


def test_text_labels_in_arrays(tmp_path):
    labels = np.array(["cat", "dog", "dog", "cat"])
    frame = read_table(written(tmp_path, "a.npz", npz(X=MATRIX, y=labels)))
    assert frame["y"].tolist() == labels.tolist()


NUMBERS = np.random.default_rng(2).normal(size=500)
WHOLE = parquet(pd.DataFrame({"a": range(500), "b": NUMBERS}))
OBJECTS = np.array([[1, "a"], [2, None]], dtype=object)
EXPLOIT = b"\x80\x04\x95" + b"cos\nsystem\n(S'false'\ntR."


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", "", "file is empty"),
        ("bom.csv", b"\xef\xbb\xbf", "file is empty"),
        ("blank.csv", "\n\n  \n", "empty"),
        ("commas.csv", ",,\n1,2,3\n", "begins with an empty row"),
        ("header.csv", "a,b\n", "names but no rows"),
        ("header.csv", "a,b", "names but no rows"),
        ("a.sav", "PK", r"'\.sav' is not known; use one of \.csv, "),
        ("nothing", "a,b\n1,2\n", "'' is not known"),
        ("a.npz.gz", "x", r"'\.npz\.gz' is not known"),
        ("double.csv", "a,b,a\n1,2,3\n", "more than one column is called 'a'; rename"),
        ("double.csv", "a,b, a\n1,2,3\n", "more than one column is called 'a'"),
        (
            "long.csv",
            "a,b\n1,2\n3,4,5\n6,7\n",
            "line 3 has 3 fields, but the first row has 2 names",
        ),
        (
            "short.csv",
            "a,b,c\n1,2,3\n\n3,4\n5,6,7\n",
            "line 4 has 2 fields, but the first row has 3",
        ),
        ("multi.csv", 'a,b\n"x\ny",1\n2\n', "line 4 has 1 field,"),
        ("rownames.csv", "a,b\nr1,1,2\nr2,3,4\n", "line 2 has 3 fields.*separator is a comma"),
        ("nameless.csv", "a,,c\n1,2,3\n4,5,6\n", "column 2 has no name; name it, or delete it"),
        ("nameless.csv", ",b\n1.5,2\n2.5,3\n", "column 1 has no name"),
        ("nameless.csv", ",b\n1,2\n1,3\n", "column 1 has no name"),
        ("only.csv", '"",Unnamed: 1\n1,\n2,\n', "no column has a name"),
        ("numbers.csv", "1.5,2,3\n4,5,6\n", "first line has numbers; add a line"),
        ("digits.csv", "0,0,3\n4,5,6\n", "first line has numbers"),
        ("spaces.csv", "a b c\n1 2 3\n4 5 6\n", "separated by spaces; separate them by commas"),
        ("bars.csv", "a|b\n1|2\n", "separated by vertical bars"),
        ("open.csv", 'a,b\n1,"x\n2,y\n', "quotation mark|quotation marks"),
        ("open.csv", 'a,b\n1,2\n3,"x' + "y,\n" * 60_000, "line 3: field larger.*left open"),
        ("nul.csv", b"a,b\n1,\0\n", "byte 6 is 0x00, which does not occur in text"),
        ("late.csv", b"a,b\n" + b"1,2\n" * 300_000 + b"\0,1\n", "byte 1200004 is 0x00"),
        ("zip.csv", npz(a=MATRIX), "byte 2 is 0x03.*check that the extension matches"),
        ("parquet.csv", WHOLE, "does not occur in text files"),
        ("random.csv", NOISE, "does not occur in text files"),
        ("utf16.csv", PLAIN.encode("utf-16")[:-1], "UTF-16 but is damaged; save it as UTF-8"),
        ("neither.csv", b"a,b\n\x81\x8d,1\n", "neither UTF-8 nor Windows-1252"),
        ("a.csv.gz", PLAIN, "not a .gz file"),
        ("a.csv.gz", gzip.compress(PLAIN.encode(), mtime=0)[:-9], "damaged"),
        ("a.csv.gz", b"\x1f\x8b" + NOISE[:50], "damaged"),
        ("a.parquet", WHOLE[:-20], "damaged or not a parquet file"),
        ("a.parquet", WHOLE[:40] + WHOLE[60:], "damaged or not a parquet file"),
        ("a.parquet", PLAIN, "damaged or not a parquet file"),
        ("a.parquet", parquet(pd.DataFrame({"a": []})), "names but no rows"),
        ("a.npy", npy(MATRIX)[:-3], "damaged"),
        ("a.npy", NOISE[:200], "damaged"),
        ("a.npy", EXPLOIT, "damaged, is not a NumPy file, or contains Python objects"),
        ("a.npy", npy(OBJECTS, allow_pickle=True), "contains Python objects.*save arrays"),
        ("a.npy", npy(MATRIX[0]), r"the array has shape \(2,\).*must be a matrix"),
        ("a.npy", npy(MATRIX[None]), r"shape \(1, 4, 2\)"),
        ("a.npy", npy(MATRIX + 1j), "dtype complex128"),
        ("a.npy", npy(MATRIX[:0]), "names but no rows"),
        ("a.npy", npy(MATRIX[:, :0]), r"shape \(4, 0\)"),
        ("a.npz", npz(X=MATRIX)[:-30], "damaged"),
        ("a.npz", npz(X=MATRIX, y=OBJECTS), "contains Python objects"),
        ("a.npz", npz(), "it contains nothing; keep one matrix"),
        ("a.npz", npz(X=MATRIX, z=MATRIX), "contains 'X', 'z'; keep one matrix, or X and y"),
        ("a.npz", npz(X=MATRIX, y=np.arange(3)), r"y has shape \(3,\).*each of the 4 rows"),
        ("a.npz", npz(X=MATRIX[0], y=np.arange(2)), r"X has shape \(2,\)"),
        ("a.npz", npz(weights=MATRIX[None]), r"weights has shape \(1, 4, 2\)"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    file = written(tmp_path, name, content)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_pickles_are_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    array = np.empty((1, 1), dtype=object)
    array[0, 0] = Trap()
    for name, content in (("a.npy", npy(array)), ("a.npz", npz(X=array))):
        with pytest.raises(ValueError, match="Python objects"):
            read_table(written(tmp_path, name, content))
    assert not (tmp_path / "sprung").exists()


def test_bytes_flipped_in_arrays_never_escape_as_other_errors(tmp_path):
    whole = npz(X=MATRIX, y=np.arange(4))
    for place in range(0, len(whole), 7):
        spoilt = bytearray(whole)
        spoilt[place] ^= 0xFF
        with contextlib.suppress(ValueError):
            assert len(read_table(written(tmp_path, "a.npz", bytes(spoilt)))) > 0


def test_an_encrypted_archive(tmp_path):
    content = bytearray(npz(X=MATRIX))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1  # the flag for encryption
    assert zipfile.is_zipfile(io.BytesIO(content))
    with pytest.raises(ValueError, match="needs a password"):
        read_table(written(tmp_path, "a.npz", bytes(content)))


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("absent.csv", FileNotFoundError, "absent.csv does not exist; check the name"),
        ("a.csv/b.csv", FileNotFoundError, "does not exist"),
        ("folder.parquet", IsADirectoryError, "folder.parquet is a folder without"),
        ("x" * 300 + ".csv", OSError, "cannot be read"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, kind, message):
    written(tmp_path, "a.csv", PLAIN)
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(kind, match=message) as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file whose reading fails")
def test_unreadable(tmp_path):
    (tmp_path / "a.csv").symlink_to("/proc/self/mem")
    with pytest.raises(OSError, match=r"a\.csv cannot be read \(.*\); check its permissions"):
        read_table(tmp_path / "a.csv")


def test_pyarrow_missing(tmp_path, monkeypatch):
    file = written(tmp_path, "a.parquet", WHOLE)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(OSError, match=r"a.parquet: .*pip install 'decoupled-descent\[tables\]'"):
        read_table(file)


def test_from_file_to_task(tmp_path):
    lines = [f"{k / 7:.3f};{'yes' if k % 3 else 'no'};{k % 4}" for k in range(60)]
    lines[4] = "0,5;;"
    text = "size;answer;stars\n" + "\n".join(line.replace(".", ",") for line in lines)
    table = read_table(written(tmp_path, "a.csv", text))
    labels, _, notes = labels_of(table["answer"])
    assert labels.nunique() == 2
    assert len(table.attrs["notes"]) == 1
    assert notes == ["1 row without a value of 'answer' was left out: 5"]
    assert recognise_task(labels) == "classification"
    assert recognise_task(labels_of(table["stars"])[0]) == "classification"
    sizes = labels_of(table["size"])[0]
    assert recognise_task(sizes) == "regression"
    assert math.isclose(sizes[8], 1.0)
