"""Text files that pyarrow parses: the strings of Python's csv, and its line numbers in errors."""

import csv
import io
import sys

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.files.reading import read_table
from decoupled_descent.app.files.text_file import TextFile, has_spaces_at_quotes

arrow = pytest.importorskip("pyarrow")


def strings(path):
    """Return the rows of a file as lists of strings."""
    tables = list(TextFile(path).batches())
    return [list(row) for table in tables for row in zip(*table.to_pydict().values(), strict=True)]


def expected(content):
    text = io.StringIO(content.decode(), newline="")
    return [row for row in csv.reader(text, skipinitialspace=True) if row][1:]


PLAIN = b"a,b\n" + b"".join(b"%d,%d\n" % (k, 10**k) for k in range(12))


@pytest.mark.parametrize("content", [
    PLAIN, PLAIN[:-1], PLAIN.replace(b"\n", b"\r\n"), PLAIN.replace(b"\n", b"\n\n\n"),
    PLAIN.replace(b"\n", b"\r"), PLAIN.replace(b",", b",  "),
    b'a,b\n' + b'"x, ""y""\nand z",  "2"\n' * 9, b'a,b\n' + b'1,""\n2,"\n\n\n\n\n"\n' * 5,
    b'a,b\n' + b'1,3" nail\n2,a "b" c\n3,"a" "b"\n4,"a"b"c"\n' * 5,
])  # fmt: skip
def test_strings_are_those_of_the_standard_library(content, small_batches, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    assert strings(path) == expected(content)


def test_random_tables_are_read_as_by_the_standard_library(small_batches, tmp_path):
    """And as numbers they are those of a table that is read as a whole."""
    rng = np.random.default_rng(0)
    fields = ['"two\nlines"', "plain", '"say ""x"", no"', '""', " 3", '  "4"', '" 5"', "1e-3", "NA"]
    spaced = 0
    for k in range(60):
        chosen = fields if k % 2 else [field for field in fields if " " not in field]
        rows = [",".join(rng.choice(chosen, 3)) for _ in range(rng.integers(4, 30))]
        content = ("a,b,c\n" + "\n".join(rows)).encode()
        path = tmp_path / "a.csv"
        path.write_bytes(content)
        assert strings(path) == expected(content)
        file = TextFile(path)
        spaced += file._has_spaces_at_quotes
        frame = file.frame(arrow.concat_tables(file.batches()))
        pd.testing.assert_frame_equal(
            frame.set_axis(pd.RangeIndex(1, len(frame) + 1)), read_table(path)
        )
    assert 20 < spaced <= 30


def test_spaces_next_to_quotation_marks_are_noticed_between_blocks():
    content = b'a,b\n1,  "x"\n'
    for k in range(len(content)):
        assert has_spaces_at_quotes([content[:k], content[k:]], ",")
        assert not has_spaces_at_quotes([content[:k], content[k:]], ";")
    assert not has_spaces_at_quotes([b'a\tb\n\t"x"\n'], "\t")


def test_a_mark_of_utf_8_and_a_line_of_excel(small_batches, tmp_path):
    for k, content in enumerate((
        b"\xef\xbb\xbfa;b\n" + b"1;2\n" * 9, b'sep=;\r\na;b\r\n' + b"1;2\r\n" * 9,
        b"\xef\xbb\xbfsep=;\na;b\n" + b"1;2\n" * 9, b"A title\n\na;b\n" + b"1;2\n" * 9,
    )):  # fmt: skip
        (tmp_path / f"{k}.csv").write_bytes(content)
        assert TextFile(tmp_path / f"{k}.csv").names == ["a", "b"]
        assert strings(tmp_path / f"{k}.csv") == [["1", "2"]] * 9


def test_a_letter_that_is_not_utf_8_late_in_the_file(small_batches, tmp_path):
    (tmp_path / "a.csv").write_bytes(b"a,b\n" + b"Ulm,1\n" * 500 + "Köln,2\n".encode("cp1252"))
    assert strings(tmp_path / "a.csv")[-2:] == [["Ulm", "1"], ["Köln", "2"]]
    assert "Windows-1252" in TextFile(tmp_path / "a.csv").notes[0]


@pytest.mark.parametrize(("rows", "message"), [
    ('1,"two\nlines"\n\n1\n', "line 6 has 1 field,"),
    ('1,2\n"1,2\n', "line 4 has 1 field,"),
    ('1,2\n1,"2', "line 4: is a quotation mark left open"),
    ('1,"' + 700 * "x\n" + '"\n1,2\n', "straddling object"),
])  # fmt: skip
def test_errors_name_the_line(rows, message, small_batches, tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n" + rows)
    with pytest.raises(ValueError, match=message):
        strings(tmp_path / "a.csv")


def test_pyarrow_missing(small_batches, tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_bytes(PLAIN)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(OSError, match=r"needs pyarrow: pip install 'decoupled-descent\[tables\]'"):
        TextFile(tmp_path / "a.csv")
