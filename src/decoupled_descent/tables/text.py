"""Read delimited text: recognise its encoding, separator and decimal mark; report wrong lines."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import pandas as pd

from decoupled_descent.tables.limits import check_width

Notes = list[str]

# The comma is last because it may be a decimal mark.
SEPARATORS = {";": "semicolon", "\t": "tab", ",": "comma"}
#: Texts that are missing values in every column. MARKERS has more; some of them may be classes.
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null"]
# Excel may write this first line.
SEP_LINE = re.compile(rb"(?:\xef\xbb\xbf)?\"?sep=([;,\t])\"?(?=[\r\n])")
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
COMMA, POINT = re.compile(r"[+-]?\d*,\d+"), re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
#: The first bytes of other kinds of files, in lower case, and what the user should do.
OTHERS = {
    b"<!doctype": "a web page; download the table itself",
    b"<html": "a web page; download the table itself",
    b"<?xml": "XML; save it as CSV",
    b"[{": "JSON; save it as CSV",
    b'{"': "JSON; save it as CSV",
    b"%pdf": "a PDF; save its table as CSV",
    b"version https://git-lfs": "a pointer of Git LFS; download the file with git lfs pull",
}
#: In the order in which they are tried.
ENCODINGS = ("utf-8-sig", "cp1252")
OTHER_ENCODING = "the text is not UTF-8; it was read as Windows-1252 (Latin-1)"
#: The separator and the decimal mark are recognised from so many rows and bytes.
LOOK, HEAD = 1000, 16 * 2**20


class Written(NamedTuple):
    """The format of a text file, as recognised from its first rows.

    Attributes:
        encoding: The encoding of the text.
        separator: The character between fields.
        decimal: The decimal mark.
        names: The names of the columns, with any spaces around them.
        first: The first rows, as strings.
        skipped: The number of bytes before the names.
        notes: Sentences for the user about the format.
    """

    encoding: str
    separator: str
    decimal: str
    names: list[str]
    first: list[list[str]]
    skipped: int
    notes: Notes

    def read(self, stream: Any, **options: Any) -> Any:
        """Read the table with pandas. The columns of the result are numbered from 0."""
        return pd.read_csv(
            stream,
            **{
                "sep": self.separator,
                "encoding": self.encoding,
                "header": 0,
                "names": range(len(self.names)),
                "index_col": False,
                "skipinitialspace": True,
                "skip_blank_lines": len(self.names) > 1,
                "keep_default_na": False,
                "na_values": MISSING,
                "low_memory": False,
                "decimal": self.decimal,
            }
            | options,
        )

    def wrong_width(self, line: int, width: int) -> ValueError:
        """Return the error for a row with too few or too many fields."""
        return ValueError(
            f"line {line} has {width} fields, but the first row has {len(self.names)} names "
            f"(the separator is a {SEPARATORS[self.separator]}); correct the line, or put "
            "quotation marks around fields that contain the separator"
        )


def records(
    stream: BinaryIO, encoding: str, separator: str, before: Callable[[], int] = lambda: 0
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each row. Skip blank lines; close the stream.

    ``before()`` is the number of lines of the file before the stream, for errors.
    """
    with io.TextIOWrapper(stream, encoding=encoding, newline="") as text:
        reader = csv.reader(text, delimiter=separator, skipinitialspace=True)
        line = 1
        try:
            for record in reader:
                if record:
                    yield line, record
                line = reader.line_num + 1
        except csv.Error as error:
            where = line + before()
            raise ValueError(f"line {where}: {error}; is a quotation mark left open?") from error


def _widths(content: bytes, encoding: str, separator: str) -> Iterator[tuple[int, int]]:
    """Yield the line number and the number of fields of each row. Fast without quotation marks."""
    if b'"' in content:
        found = records(io.BytesIO(content), encoding, separator)
        return ((line, len(record)) for line, record in found)
    lines = enumerate(content.splitlines(), start=1)
    return ((k, line.count(separator.encode()) + 1) for k, line in lines if line)


def decodes(blocks: Iterable[bytes], encoding: str, place: int = 0) -> bool:
    """Whether text can be decoded so. Raise ``ValueError`` if the content is not text.

    Args:
        blocks: The bytes, in blocks.
        encoding: The encoding.
        place: The number of bytes of the file before them.
    """
    decoder, possible = codecs.getincrementaldecoder(encoding)(), True
    for block in blocks:
        if not place and block.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ValueError("the text is UTF-16; save it as UTF-8")
        control = CONTROL.search(block, 0, 1 << 20) if not place else None
        found = control.start() if control else block.find(b"\0")
        if found >= 0:
            raise ValueError(
                f"byte {place + found} is 0x{block[found]:02x}, which does not occur in text "
                "files; check that the extension matches the content"
            )
        place += len(block)
        possible = possible and _decoded(decoder, block)
    return possible and _decoded(decoder, b"")


def _decoded(decoder: codecs.IncrementalDecoder, block: bytes) -> bool:
    """Whether the next bytes can be decoded; none stands for the end."""
    try:
        decoder.decode(block, final=not block)
    except UnicodeDecodeError:
        return False
    return True


def _separator(content: bytes, encoding: str) -> str:
    """Choose the separator for which most rows have as many fields as the first row."""
    scores = {}
    for separator in SEPARATORS:
        try:
            found = list(itertools.islice(records(io.BytesIO(content), encoding, separator), LOOK))
        except ValueError:  # a wrong separator can make fields too long for the reader
            continue
        widths = [len(record) for _, record in found]
        if widths and widths[0] > 1:
            scores[separator] = (widths.count(widths[0]) / len(widths), widths[0])
    return max(scores, key=lambda separator: scores[separator], default=",")


def _decimal(rows: list[list[str]], separator: str) -> tuple[str, Notes]:
    """Return the decimal mark: a comma if a number contains one and no number contains a point."""
    values = [value.strip() for row in rows for value in row]
    commas = [value for value in values if COMMA.fullmatch(value)]
    if separator == "," or not commas or any(POINT.fullmatch(value) for value in values):
        return ".", []
    value = commas[0]
    read = float(value.replace(",", "."))
    return ",", [f"the comma is the decimal mark: {value!r} was read as {read!r}"]


def recognise(head: bytes, decoded: Callable[[str], bool]) -> Written:
    """Recognise the format of a text file.

    Args:
        head: The first bytes of the file, at least ``HEAD`` if it has so many. Separator, names and
            decimal mark are found in whole lines of them.
        decoded: Whether all bytes of the file can be decoded in an encoding.
    """
    if len(head) >= HEAD:
        head = head[: head.rfind(b"\n", 0, HEAD) + 1] or head[:HEAD]
    start = head[:100].removeprefix(codecs.BOM_UTF8).lstrip().lower()
    for beginning, kind in OTHERS.items():
        if start.startswith(beginning):
            raise ValueError(f"this is {kind}")
    encoding = next((one for one in ENCODINGS if decoded(one)), None)
    if encoding is None:
        raise ValueError("the text is neither UTF-8 nor Windows-1252 (Latin-1); save it as UTF-8")
    notes = [] if encoding == ENCODINGS[0] else [OTHER_ENCODING]
    told = SEP_LINE.match(head)
    head = head[told.end() :] if told else head
    separator = told[1].decode() if told else _separator(head, encoding)
    found = records(io.BytesIO(head), encoding, separator)
    names = next(found, (0, [""]))[1]
    if not any(name.strip() for name in names):
        raise ValueError("the file is empty or begins with an empty row; save the table again")
    check_width(len(names))
    first = [record for _, record in itertools.islice(found, LOOK)]
    decimal, more = _decimal(first, separator)
    skipped = told.end() if told else 0
    return Written(encoding, separator, decimal, names, first, skipped, notes + more)


def read_text(content: bytes, only: str | None = None) -> tuple[pd.DataFrame, Notes]:
    """Read a table from the bytes of a text file.

    Args:
        content: The bytes.
        only: The name of a column. If given, only this column is read, and its values stay text.

    Returns:
        The table, and sentences for the user about its format.
    """
    written = recognise(content, lambda encoding: decodes([content], encoding))
    content, names = content[written.skipped :], written.names
    for line, width in _widths(content, written.encoding, written.separator):
        if width != len(names):
            raise written.wrong_width(line, width)
    if len(names) == 1:
        _check_single([names, *written.first])
        content = content.removeprefix(codecs.BOM_UTF8).strip()  # empty lines inside are rows
    options: dict[str, Any] = {}
    if only is not None:
        place = [name.strip() for name in names].index(only)
        options, names = {"usecols": [place], "dtype": str}, [only]
    try:
        frame = written.read(io.BytesIO(content), **options)
    except pd.errors.ParserError as error:
        raise ValueError(f"{error}; is a quotation mark left open?") from error
    frame.columns = names
    return frame, written.notes


def _check_single(rows: list[list[str]]) -> None:
    """Raise ``ValueError`` if one column looks like several, separated by spaces or bars.

    Several words without any digit are accepted as one value.
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
