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

from decoupled_descent.app.files.limits import check_width
from decoupled_descent.app.files.names import check_names
from decoupled_descent.checks import counted
from decoupled_descent.tables.columns.codes import are_names
from decoupled_descent.tables.columns.styles import only_one, plain_numbers
from decoupled_descent.tables.columns.values import BadCellError

Notes = list[str]

# The comma is last because it may be a decimal mark.
SEPARATORS = {";": "semicolon", "\t": "tab", ",": "comma"}
#: Texts that are missing values in every column. MARKERS has more; some of them may be classes.
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null"]
# Excel may write this first line.
SEP_LINE = re.compile(rb"(?:\xef\xbb\xbf)?\"?sep=([;,\t])\"?(?=[\r\n])")
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
COMMA = re.compile(r"[+-]?\d*,\d+")
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
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
#: The largest number of rows, and of bytes, from which separator and decimal mark are recognised.
LOOK, HEAD = 1000, 16 * 2**20
#: The number of rows in which the names of the columns are looked for.
TITLES = 20


class TextFormat(NamedTuple):
    """The format of a text file, as recognised from its first rows."""

    encoding: str
    separator: str  # the character between fields
    decimal: str  # the decimal mark, empty if the rows do not show it
    names: list[str]  # of the columns, with any spaces around them
    first: list[list[str]]  # the first rows, as strings
    skipped: int  # the number of bytes before the names
    above: int  # the number of lines in these bytes, but not that of ``sep=``
    notes: Notes  # sentences for the user about the format

    @property
    def padded(self) -> list[int]:
        """Positions of columns of names such as 01067, which must stay text."""
        width = len(self.names)
        rows = [row for row in self.first if len(row) == width]
        cells = ([row[k].strip() for row in rows] for k in range(width))
        return [k for k, texts in enumerate(cells) if are_names([t for t in texts if t])]

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
                "decimal": self.decimal or ".",
            }
            | options,
        )

    def wrong_width(self, line: int, width: int) -> ValueError:
        """Return the error for a row with too few or too many fields."""
        return BadCellError(
            f"line {line} has {counted(width, 'field')}, but the first row has {len(self.names)} "
            f"names (the separator is a {SEPARATORS[self.separator]}); correct the line, or put "
            "quotation marks around fields that contain the separator"
        )


def records(
    stream: BinaryIO, encoding: str, separator: str, above: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each row. Skip blank lines; close the stream.

    ``above`` is the number of lines of the file before the stream, for errors.
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
            raise ValueError(
                f"line {line + above}: {error}; is a quotation mark left open?"
            ) from error


def _widths(content: bytes, encoding: str, separator: str) -> Iterator[tuple[int, int]]:
    """Yield the line number and the number of fields of each row. Fast without quotation marks."""
    if b'"' in content:
        rows = records(io.BytesIO(content), encoding, separator)
        return ((line, len(record)) for line, record in rows)
    lines = enumerate(content.splitlines(), start=1)
    return ((k, line.count(separator.encode()) + 1) for k, line in lines if line)


def decodes(blocks: Iterable[bytes], encoding: str) -> bool:
    """Return whether text can be decoded. Raise ``ValueError`` if the content is not text.

    Args:
        blocks: The bytes, in blocks.
        encoding: The encoding.
    """
    decoder, possible, offset = codecs.getincrementaldecoder(encoding)(), True, 0
    for block in blocks:
        if not offset and block.startswith(UTF_16):
            raise ValueError("the text is UTF-16; save it as UTF-8")  # smaller files are converted
        control = CONTROL.search(block, 0, 1 << 20) if not offset else None
        position = control.start() if control else block.find(b"\0")
        if position >= 0:
            raise ValueError(
                f"byte {offset + position} is 0x{block[position]:02x}, which does not occur in "
                "text files; check that the extension matches the content"
            )
        offset += len(block)
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
    """Choose the separator for which most rows have the same number of fields, more than one.

    Lines above the names may have fewer fields. Of the others, the first counts as a row of names.
    """
    scores = {}
    for separator in SEPARATORS:
        try:
            rows = list(itertools.islice(records(io.BytesIO(content), encoding, separator), LOOK))
        except ValueError:  # a wrong separator can make fields too long for the reader
            continue
        widths = [len(record) for _, record in rows]
        start = next((k for k, width in enumerate(widths[:TITLES]) if width > 1), len(widths))
        if widths[start:] and not any(re.search(r"\d", row[0]) for _, row in rows[:start]):
            first = widths[start]
            scores[separator] = (widths.count(first) / len(widths), first)
    return max(scores, key=lambda separator: scores[separator], default=",")


def _names_at(rows: list[tuple[int, list[str]]]) -> int:
    """Which of the first rows has the names of the columns: 0, unless titles are above them.

    Titles are rows with fewer fields than the others, or with empty fields where names should be.
    The names are in the first row with a different text, not a number, for every column in use.
    """
    width = max(len(row) for _, row in rows)
    used = {k for _, row in rows if len(row) == width for k, cell in enumerate(row) if cell.strip()}
    for position, (_, row) in enumerate(rows[:TITLES]):
        cells = [row[k].strip() for k in sorted(used) if k < len(row)]
        lacking = len(row) < width or not all(cells[1:])  # the first column may be an index
        if position == 0 and not lacking:
            return 0
        if not lacking and all(cells) and len(set(cells)) == len(cells) and position:
            words = pd.isna(plain_numbers(cells)).all()
            return position if words and _is_title(rows[:position], width) else 0
    return 0


def _is_title(rows: list[tuple[int, list[str]]], width: int) -> bool:
    """Whether all rows have text in at most half of the columns, and no number."""
    cells = [[cell.strip() for cell in row if cell.strip()] for _, row in rows]
    return all(2 * len(row) <= width and pd.isna(plain_numbers(row)).all() for row in cells)


def _decimal(rows: list[list[str]], separator: str, usual: str) -> tuple[str, Notes]:
    """Return the decimal mark: a comma if some number needs one and no number needs a point.

    If no number needs one of them, it is the ``usual`` one. Empty if different numbers need
    different marks, or no number shows one.
    """
    values = [value.strip() for row in rows for value in row if "," in value or "." in value]
    commas = [value for value in values if "," in value and only_one(value) == ","]
    if separator != ",":
        commas = commas or [value for value in values if COMMA.fullmatch(value)]
    if not commas and usual != ",":
        return "", []
    if any(only_one(value) == "." for value in values if "." in value):
        return "", []
    plain = [value for value in commas if COMMA.fullmatch(value)]
    if not plain or separator == ",":
        return ",", []
    number = float(plain[0].replace(",", "."))
    return ",", [f"the comma is the decimal mark: {plain[0]!r} was read as {number!r}"]


def recognise(head: bytes, decoded: Callable[[str], bool], usual: str = "") -> TextFormat:
    """Recognise the format of a text file.

    Args:
        head: The first bytes of the file: ``HEAD`` or more, or all bytes. Separator, names and
            decimal mark are recognised from complete lines of them.
        decoded: Whether all bytes of the file can be decoded in an encoding.
        usual: The decimal mark, if the file does not show it.
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
    sep_line = SEP_LINE.match(head)
    skipped = sep_line.end() if sep_line else 0
    separator = sep_line[1].decode() if sep_line else _separator(head, encoding)
    parsed = records(io.BytesIO(head[skipped:]), encoding, separator)
    rows = list(itertools.islice(parsed, LOOK + 1)) or [(1, [""])]
    position = _names_at(rows)
    above = rows[position][0] - 1 if position else 0
    skipped += sum(map(len, head[skipped:].splitlines(keepends=True)[:above]))
    names, first = rows[position][1], [record for _, record in rows[position + 1 :]]
    if not any(name.strip() for name in names):
        raise ValueError("the file is empty or begins with an empty row; save the table again")
    if position:
        lines = f"lines 1 to {above} were" if above > 1 else "line 1 was"
        notes = [*notes, f"{lines} left out: the names of the columns are in line {above + 1}"]
    check_width(len(names))
    check_names([name.strip() for name in names])  # pandas takes very long for equal names
    decimal, more = _decimal(first, separator, usual)
    return TextFormat(encoding, separator, decimal, names, first, skipped, above, notes + more)


def read_text(
    content: bytes, only: str | None = None, usual: str = "", ragged: list[int] | None = None
) -> tuple[pd.DataFrame, Notes]:
    """Read a table from the bytes of a text file.

    Args:
        content: The bytes.
        only: The name of a column. If given, only this column is read, and its values stay text.
        usual: The decimal mark, if the file does not show it.
        ragged: A list that gets the numbers of lines with too few or too many fields, which are
            then left out; None raises ``ValueError`` for them.

    Returns:
        The table, and sentences for the user about its format. ``attrs["decimal"]`` is the decimal
        mark, empty if the file does not show it.
    """
    if content.startswith(UTF_16):
        content = _from_utf_16(content)
    text_format = recognise(content, lambda encoding: decodes([content], encoding), usual)
    content, names = content[text_format.skipped :], text_format.names
    for line, width in _widths(content, text_format.encoding, text_format.separator):
        if width != len(names):
            if ragged is None:
                raise text_format.wrong_width(line + text_format.above, width)
            ragged.append(line + text_format.above)
    if ragged:
        content = _without_ragged(content, text_format)
    if len(names) == 1:
        _check_single([names, *text_format.first])
        content = content.removeprefix(codecs.BOM_UTF8).strip()  # empty lines inside are rows
    options: dict[str, Any] = {}
    if only is not None:
        position = [name.strip() for name in names].index(only)
        options, names = {"usecols": [position], "dtype": str}, [only]
    else:
        options["dtype"] = dict.fromkeys(text_format.padded, str)
    try:
        frame = text_format.read(io.BytesIO(content), **options)
    except pd.errors.ParserError as error:
        raise ValueError(f"{error}; is a quotation mark left open?") from error
    frame.columns = names
    frame.attrs["decimal"] = text_format.decimal
    return frame, text_format.notes


def _without_ragged(content: bytes, text_format: TextFormat) -> bytes:
    """Text without the rows that have too few or too many fields."""
    rows = records(io.BytesIO(content), text_format.encoding, text_format.separator)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=text_format.separator, lineterminator="\n")
    writer.writerows(row for _, row in rows if len(row) == len(text_format.names))
    return stream.getvalue().encode(text_format.encoding)


def _from_utf_16(content: bytes) -> bytes:
    """Convert text that Excel saved as "Unicode text"."""
    try:
        return content.decode("utf-16").encode()
    except UnicodeError as error:
        raise ValueError("the text begins as UTF-16 but is damaged; save it as UTF-8") from error


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
