"""Standard input as a table."""

import gzip
import io
import sys
from types import SimpleNamespace

import openpyxl
import pandas as pd
import pytest

from decoupled_descent.app.files import limits
from decoupled_descent.app.files.reading import read_table
from decoupled_descent.app.files.standard_input import DASH, table_path

TEXT = b"a,b\n1,2\n3,4\n"


@pytest.fixture
def piped(monkeypatch):
    def pipe(stream):
        stream = io.BytesIO(stream) if isinstance(stream, bytes) else stream
        standard = SimpleNamespace(buffer=stream, isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", standard)

    return pipe


def excel():
    stream, book = io.BytesIO(), openpyxl.Workbook()
    for row in (["a", "b"], [1, 2], [3, 4]):
        book.active.append(row)
    book.save(stream)
    return stream.getvalue()


def parquet():
    return pd.DataFrame({"a": [1, 3], "b": [2, 4]}).to_parquet()


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        gzip.compress(TEXT),
        b'{"a": 1, "b": 2}\n{"a": 3, "b": 4}\n',
        excel(),
        parquet(),
    ],
    ids=["text", "gzip", "json lines", "excel", "parquet"],  # gzip has the time in it
)
def test_the_kind_is_recognised_by_the_content(content, piped):
    piped(content)
    with table_path(DASH) as path:
        assert read_table(path).to_numpy().tolist() == [[1, 2], [3, 4]]
    assert not path.parent.exists()


def test_errors_name_standard_input(piped):
    piped(b"a,b\n1,2,3\n")
    words = r"^standard input: line 2 has 3 fields"
    with pytest.raises(ValueError, match=words), table_path(DASH) as path:
        read_table(path)
    piped(b"")
    with pytest.raises(ValueError, match="standard input is empty"), table_path(DASH):
        pass


class Endless(io.RawIOBase):
    """A stream that never ends."""

    def readable(self):
        return True

    def read(self, size=-1):
        return b"1,2\n" * (size // 4)


def test_a_stream_that_never_ends(piped, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "MOST_BYTES", 5_000_000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    piped(Endless())
    with pytest.raises(ValueError, match="standard input has more than 5 MB"), table_path(DASH):
        pass
    assert not any(tmp_path.iterdir())


def test_a_terminal_is_no_table(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(ValueError, match="standard input is a terminal"), table_path(DASH):
        pass


def test_other_paths_stay(tmp_path):
    with table_path(tmp_path / "a.csv") as path:
        assert path == tmp_path / "a.csv"
