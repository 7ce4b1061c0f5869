"""Sheets of spreadsheets as CSV text, which is then read like any other text file.

Excel's .xlsx is read with openpyxl, its older .xls with xlrd, and .ods of LibreOffice from its XML
in one pass: libraries for it hold the complete document in memory. Empty rows and columns at the
end are left out. The number of cells is limited: a small file can claim any number.
"""

from __future__ import annotations

import csv
import datetime
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple
from xml.etree import ElementTree

from decoupled_descent.app.files.limits import check_size, most_bytes
from decoupled_descent.app.files.targets import did_you_mean
from decoupled_descent.app.files.two_header_rows import joined_names
from decoupled_descent.checks import ignoring
from decoupled_descent.tables.columns.values import listed

#: The largest number of cells. A cell takes about a hundred bytes of memory.
MOST_CELLS = 10_000_000
#: A small file may have fewer cells: this number, or this many per byte. Rows and cells of a sheet
#: can be repeated by one number, and a reference to the last cell makes all others.
SMALL_CELLS, CELLS_PER_BYTE = 1_000_000, 100
#: The most columns and rows of an .ods sheet; Excel's limits are lower.
MOST_ROWS, MOST_WIDTH = 2**20, 2**14
DAMAGED = "the file is damaged or not {} ({}); save it again"
TOO_MANY = "the sheet has more than {:,} cells; save it as .csv, or delete empty rows and columns"
#: XML names in .ods files.
OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"

Row = Sequence[Any]


class Book(NamedTuple):
    """A spreadsheet: the names of its sheets, and how to read the rows of one."""

    sheets: list[str]
    rows: Callable[[str], Iterable[Row]]


def as_csv(content: bytes, suffix: str, sheet: str | None = None) -> tuple[bytes, list[str]]:
    """Return one sheet as CSV text, and sentences for the user.

    Args:
        content: The bytes of the file.
        suffix: Its suffix, one of ``BOOKS``.
        sheet: The name of the sheet; the first one that is not empty by default.

    Raises ``ValueError`` if the file is damaged, too large, or has no such sheet; ``OSError`` if a
    package is needed that is not installed.
    """
    open_book, what = BOOKS[suffix]
    try:
        book = open_book(content)
        if sheet is not None and sheet not in book.sheets:
            hint = did_you_mean(sheet, book.sheets)
            raise ValueError(f"there is no sheet {sheet!r}; {hint}there are {listed(book.sheets)}")
        names, rows = book.sheets if sheet is None else [sheet], list[Row]()
        for name in names:
            rows = _limited(book.rows(name), most_cells(len(content)))
            if rows:
                break
    except (ValueError, OSError, MemoryError):
        raise
    except Exception as error:  # the type depends on where the damage is
        raise ValueError(DAMAGED.format(what, f"{type(error).__name__}: {error!s:.100}")) from error
    if not rows:
        raise ValueError("the sheet is empty" if sheet else "it has no sheet with values")
    notes = []
    if sheet is None and len(book.sheets) > 1:
        others = listed(one for one in book.sheets if one != name)
        notes = [f"the sheet {name!r} was read; --sheet NAME reads another: {others}"]
    rows, more = joined_names(rows)
    return _written(rows), [*notes, *more]


def most_cells(size: int) -> int:
    """How many cells a sheet of a file of this size may have.

    Example:
        >>> most_cells(5_000), most_cells(10**9)
        (1000000, 10000000)
    """
    return min(MOST_CELLS, max(SMALL_CELLS, CELLS_PER_BYTE * size))


def _limited(rows: Iterable[Row], most: int) -> list[Row]:
    """Rows without empty cells at the end, and without empty rows at the end."""
    kept: list[Row] = []
    cells = filled = 0
    for row in rows:
        cells += len(row) + 1
        width = next((k for k in range(len(row), 0, -1) if row[k - 1] not in (None, "")), 0)
        kept.append(row if width == len(row) else row[:width])  # repeated rows are one object
        filled = len(kept) if width else filled
        if cells > most:
            raise ValueError(TOO_MANY.format(most))
    del kept[filled:]
    if len(kept) * max(map(len, kept), default=0) > most:
        raise ValueError(TOO_MANY.format(most))
    return kept


def _written(rows: list[Row]) -> bytes:
    """Rows as CSV text, all of the same width."""
    width = max(map(len, rows))
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
    for row in rows:
        if row:
            writer.writerow([*map(cell_text, row), *[""] * (width - len(row))])
    return stream.getvalue().encode("utf-8", errors="replace")


def cell_text(value: Any) -> str:
    """The value of a cell as text: whole numbers without a point, dates as 2024-05-31.

    Example:
        >>> [cell_text(one) for one in (None, 3.0, 2.5, True, datetime.datetime(2024, 5, 31))]
        ['', '3', '2.5', 'True', '2024-05-31']
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    if isinstance(value, datetime.timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return str(value).replace("\0", "")


def _need(package: str, what: str) -> None:
    if find_spec(package) is None:
        raise OSError(f"{what} needs {package}: pip install 'decoupled-descent[tables]'")


def _unpacked(content: bytes) -> zipfile.ZipFile:
    """Open the archive that a spreadsheet is, after a check of the size that it unpacks to."""
    archive = zipfile.ZipFile(io.BytesIO(content))
    check_size(sum(one.file_size for one in archive.infolist()), most_bytes(len(content)))
    return archive


def _xlsx(content: bytes) -> Book:
    _need("openpyxl", "Excel")
    import openpyxl

    _unpacked(content).close()
    with ignoring(UserWarning):  # on styles and extensions, which are not read
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)

    def rows(name: str) -> Iterator[Row]:
        book[name].reset_dimensions()  # files may state a wrong size
        with ignoring(UserWarning):
            yield from book[name].iter_rows(values_only=True)

    return Book([one.title for one in book.worksheets], rows)


def _xls(content: bytes) -> Book:
    _need("xlrd", "an .xls file")
    import xlrd

    book = xlrd.open_workbook(file_contents=content, logfile=io.StringIO(), ragged_rows=True)

    def value(cell: Any) -> Any:
        if cell.ctype == xlrd.XL_CELL_DATE:
            return xlrd.xldate_as_datetime(cell.value, book.datemode)
        if cell.ctype in (xlrd.XL_CELL_ERROR, xlrd.XL_CELL_EMPTY, xlrd.XL_CELL_BLANK):
            return None
        return bool(cell.value) if cell.ctype == xlrd.XL_CELL_BOOLEAN else cell.value

    def rows(name: str) -> Iterator[Row]:
        sheet = book.sheet_by_name(name)
        return ([value(cell) for cell in sheet.row(k)] for k in range(sheet.nrows))

    return Book(book.sheet_names(), rows)


def _ods(content: bytes) -> Book:
    with _unpacked(content) as archive:
        text = archive.read("content.xml")
    if b"<!ENTITY" in text:  # one can stand for very much text, and spreadsheets have none
        raise ValueError("the file declares entities of XML; save it again")
    names = [
        str(element.get(f"{TABLE}name"))
        for event, element in ElementTree.iterparse(io.BytesIO(text), events=("start", "end"))
        if element.tag == f"{TABLE}table" and event == "start"
    ]
    return Book(names, lambda name: _ods_rows(text, name))


def _ods_rows(text: bytes, sheet: str) -> Iterator[Row]:
    """Yield the rows of one sheet; those at its end may be empty."""
    inside, empty = False, 0
    for event, element in ElementTree.iterparse(io.BytesIO(text), events=("start", "end")):
        if element.tag == f"{TABLE}table":
            inside = event == "start" and element.get(f"{TABLE}name") == sheet
            if event == "end":
                element.clear()
        elif inside and event == "end" and element.tag == f"{TABLE}table-row":
            row, times = _ods_cells(element), _repeated(element, "rows", MOST_ROWS)
            element.clear()
            if not row:
                empty += times  # many at the end of most sheets
                continue
            yield from (() for _ in range(min(empty, MOST_CELLS)))
            empty = 0
            yield from (row for _ in range(times))


def _repeated(element: Any, what: str, most: int) -> int:
    """How often a cell or a row is repeated."""
    return min(most, max(1, int(element.get(f"{TABLE}number-{what}-repeated", "1"))))


def _ods_cells(row: Any) -> list[Any]:
    """The values of a row, without empty cells at its end."""
    values: list[Any] = []
    empty = 0
    for cell in row:
        if cell.tag not in (f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
            continue
        value, times = _ods_value(cell), _repeated(cell, "columns", MOST_WIDTH)
        if value in (None, ""):
            empty += times
            continue
        if len(values) + empty + times > 4 * MOST_WIDTH:
            raise ValueError(f"a row has more than {4 * MOST_WIDTH:,} cells; delete empty columns")
        values += [None] * empty + [value] * times
        empty = 0
    return values


def _ods_value(cell: Any) -> Any:
    """The value of a cell by its type: a number, a date, a truth value or text."""
    kind = cell.get(f"{OFFICE}value-type")
    if kind in ("float", "percentage", "currency"):
        return float(cell.get(f"{OFFICE}value"))
    if kind == "date":
        return str(cell.get(f"{OFFICE}date-value")).replace("T", " ").removesuffix(" 00:00:00")
    if kind == "boolean":
        return cell.get(f"{OFFICE}boolean-value") == "true"
    return "\n".join("".join(part.itertext()) for part in cell.iter(f"{TEXT}p"))


#: How spreadsheets are opened, and what they are, by suffix.
BOOKS: dict[str, tuple[Callable[[bytes], Book], str]] = {
    ".xlsx": (_xlsx, "an Excel file"),
    ".xlsm": (_xlsx, "an Excel file"),
    ".xls": (_xls, "an Excel file"),
    ".ods": (_ods, "an OpenDocument spreadsheet"),
}
