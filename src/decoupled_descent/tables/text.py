"""Delimited text: recognise encoding, separator and decimal mark; name the line that is wrong."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pandas as pd

Notes = list[str]

SEPARATORS = {";": "semicolon", "\t": "tab", ",": "comma"}  # the comma last: it may be decimal
#: Missing values in any column; MARKERS has more, some of which may be the name of a class.
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null"]
SEP_LINE = re.compile(rb"(?:\xef\xbb\xbf)?\"?sep=([;,\t])\"?(?=[\r\n])")  # Excel's first line
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
COMMA, POINT = re.compile(r"[+-]?\d*,\d+"), re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
#: How files of other kinds begin, in small letters, and what to do with them.
OTHERS = {
    b"<!doctype": "a web page; download the table itself",
    b"<html": "a web page; download the table itself",
    b"<?xml": "XML; save it as CSV",
    b"[{": "JSON; save it as CSV",
    b'{"': "JSON; save it as CSV",
    b"%pdf": "a PDF; save its table as CSV",
    b"version https://git-lfs": "a pointer of Git LFS; fetch the file with git lfs pull",
}
MOST_COLUMNS = 100_000  # of a table
LOOK = 1000  # rows used to recognise how a file is written


def _records(content: bytes, encoding: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row's first line and its fields; skip blank lines."""
    stream = io.TextIOWrapper(io.BytesIO(content), encoding=encoding, newline="")
    reader = csv.reader(stream, delimiter=separator, skipinitialspace=True)
    line = 1
    try:
        for record in reader:
            if record:
                yield line, record
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {line}: {error}; is a quotation mark left open?") from error


def _widths(content: bytes, encoding: str, separator: str) -> Iterator[tuple[int, int]]:
    """Yield each row's first line and its number of fields; fast if nothing is quoted."""
    if b'"' in content:
        return ((line, len(record)) for line, record in _records(content, encoding, separator))
    lines = enumerate(content.splitlines(), start=1)
    return ((k, line.count(separator.encode()) + 1) for k, line in lines if line)


def _encoding(content: bytes) -> tuple[str, Notes]:
    """Return UTF-8, or else Windows-1252 with a note; refuse what is not text."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("the text is UTF-16; save it as UTF-8")
    control = CONTROL.search(content, 0, 1 << 20)
    place = control.start() if control else content.find(b"\0")
    if place >= 0:
        raise ValueError(
            f"byte {place} is 0x{content[place]:02x}, which no text contains; is the file of "
            "another kind than its extension says?"
        )
    other = "the text is not UTF-8: read as Windows-1252 (Latin-1)"
    for encoding, notes in (("utf-8-sig", []), ("cp1252", [other])):
        with suppress(UnicodeDecodeError):
            content.decode(encoding)
            return encoding, notes
    raise ValueError("the text is neither UTF-8 nor Windows-1252 (Latin-1); save it as UTF-8")


def _separator(content: bytes, encoding: str) -> str:
    """Choose the separator by which most of the first rows have as many fields as the names."""
    scores = {}
    for separator in SEPARATORS:
        try:
            found = list(itertools.islice(_records(content, encoding, separator), LOOK))
        except ValueError:  # the wrong separator can make fields too long
            continue
        widths = [len(record) for _, record in found]
        if widths and widths[0] > 1:
            scores[separator] = (widths.count(widths[0]) / len(widths), widths[0])
    return max(scores, key=lambda separator: scores[separator], default=",")


def _decimal(rows: list[list[str]], separator: str) -> tuple[str, Notes]:
    """Return the decimal mark: a comma if some number has one, and none has a point."""
    values = [value.strip() for row in rows for value in row]
    commas = [value for value in values if COMMA.fullmatch(value)]
    if separator == "," or not commas or any(POINT.fullmatch(value) for value in values):
        return ".", []
    value = commas[0]
    read = float(value.replace(",", "."))
    return ",", [f"the comma is the decimal mark: {value!r} was read as {read!r}"]


def read_text(content: bytes, only: str | None = None) -> tuple[pd.DataFrame, Notes]:
    """Read a table from the bytes of a text file; return it with notes on what was recognised.

    ``only`` names one column, which is then read alone and as it is written.
    """
    start = content[:100].removeprefix(codecs.BOM_UTF8).lstrip().lower()
    for beginning, kind in OTHERS.items():
        if start.startswith(beginning):
            raise ValueError(f"this is {kind}")
    encoding, notes = _encoding(content)
    told = SEP_LINE.match(content)
    content = content[told.end() :] if told else content
    separator = told[1].decode() if told else _separator(content, encoding)
    records = _records(content, encoding, separator)
    names = next(records, (0, [""]))[1]
    if not any(name.strip() for name in names):
        raise ValueError("the file is empty, or begins with an empty row; write the table again")
    check_width(len(names))
    for line, width in _widths(content, encoding, separator):
        if width != len(names):
            raise ValueError(
                f"line {line} has {width} fields, but there are {len(names)} names in the first "
                f"row (separated by a {SEPARATORS[separator]}); correct the line, or put quotation "
                "marks around fields that contain the separator"
            )
    first = [record for _, record in itertools.islice(records, LOOK)]
    single = len(names) == 1
    if single:
        _check_single([names, *first])
        content = content.removeprefix(codecs.BOM_UTF8).strip()  # empty lines in between are rows
    decimal, more = _decimal(first, separator)
    options: dict[str, Any] = {}
    columns = len(names)
    if only is not None:
        place = [name.strip() for name in names].index(only)
        options, names = {"usecols": [place], "dtype": str}, [only]
    try:
        frame = pd.read_csv(
            io.BytesIO(content),
            sep=separator,
            encoding=encoding,
            header=0,
            names=range(columns),
            index_col=False,
            skipinitialspace=True,
            skip_blank_lines=not single,
            keep_default_na=False,
            na_values=MISSING,
            low_memory=False,
            decimal=decimal,
            **options,
        )
    except pd.errors.ParserError as error:
        raise ValueError(f"{error}; is a quotation mark left open?") from error
    frame.columns = names
    return frame, notes + more


def check_width(width: int) -> None:
    """Raise ``ValueError`` if a table has more columns than are read."""
    if width > MOST_COLUMNS:
        raise ValueError(
            f"it has {width:,} columns, and at most {MOST_COLUMNS:,} are read; keep those that you "
            "need, or save its transpose if rows and columns were exchanged"
        )


def _check_single(rows: list[list[str]]) -> None:
    """Refuse what looks like one column but is separated by spaces or vertical bars.

    Several words in every row may be one value, unless there are numbers among them.
    """
    for pattern, name in ((r"\s+", "spaces"), (r"\|", "vertical bars")):
        parts = [re.split(pattern, row[0].strip()) for row in rows]
        widths = {len(part) for part in parts}
        words = name == "spaces" and not any(re.search(r"\d", part[0]) for part in rows[1:])
        if len(widths) == 1 and widths != {1} and not words:
            raise ValueError(
                f"the columns seem to be separated by {name}; separate them by commas, semicolons "
                "or tabs"
            )
