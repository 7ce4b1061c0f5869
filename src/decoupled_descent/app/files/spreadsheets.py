"""Sheets of spreadsheets as CSV text, which is then read like any other text file.

.xlsx and .ods are read with calamine, after a check of what they expand to. xlrd reads the older
.xls: it keeps each text once, and has no cells that the file does not have. Empty rows and columns
at the end are left out.
"""

from __future__ import annotations

import csv
import datetime
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from decoupled_descent.app.files.claims import OdsPart, check_xlsx
from decoupled_descent.app.files.limits import (
    LARGE,
    check_cells,
    check_size,
    most_bytes,
    most_cells,
    need,
)
from decoupled_descent.app.files.packing import parts_of
from decoupled_descent.app.files.targets import did_you_mean
from decoupled_descent.app.files.two_header_rows import is_filled, joined_names
from decoupled_descent.tables.columns.values import listed

#: The suffixes of spreadsheets, and what they are.
BOOKS = {
    ".xlsx": "an Excel file",
    ".xlsm": "an Excel file",
    ".xls": "an Excel file",
    ".ods": "an OpenDocument spreadsheet",
}
DAMAGED = "the file is damaged or not {} ({}); save it again"
OLD_EXCEL = b"\xd0\xcf\x11\xe0"
#: The parts of an .ods file that are read. Only the first one can be large.
ODS_PARTS = ("content.xml", "mimetype", "META-INF/manifest.xml")

Row = Sequence[Any]


class Book(NamedTuple):
    """A spreadsheet: the names of its sheets, which of them are hidden, and the rows of one."""

    sheets: list[str]
    hidden: set[str]
    rows: Callable[[str], Iterable[Row]]
    #: Cells that are merged: the first and the last row and column, counted from 0.
    merged: Callable[[str], Iterable[tuple[int, int, int, int]]] = lambda _: ()


def as_csv(content: bytes, suffix: str, sheet: str | None = None) -> tuple[bytes, list[str]]:
    """Return one sheet as CSV text, and sentences for the user.

    Args:
        content: The bytes of the file.
        suffix: Its suffix, one of ``BOOKS``.
        sheet: The name of the sheet. By default, it is the first one that has values, and one that
            is not hidden if there is any.

    Raises ``ValueError`` if the file is damaged, too large, or has no such sheet; ``OSError`` if a
    package is needed that is not installed.
    """
    try:
        book = _xls(content) if content.startswith(OLD_EXCEL) else _opened(content)
        if sheet is not None and sheet not in book.sheets:
            hint = did_you_mean(sheet, book.sheets)
            raise ValueError(f"there is no sheet {sheet!r}; {hint}there are {listed(book.sheets)}")
        names = sorted(book.sheets, key=book.hidden.__contains__) if sheet is None else [sheet]
        rows = list[Row]()
        for name in names:
            rows = _without_empty_ends(book.rows(name), most_cells(len(content)))
            if rows:
                break
    except (ValueError, OSError, MemoryError):
        raise
    except Exception as error:  # the type depends on where the damage is
        reason = f"{type(error).__name__}: {error!s:.100}"
        raise ValueError(DAMAGED.format(BOOKS[suffix], reason)) from error
    if not rows:
        raise ValueError("the sheet is empty" if sheet else "it has no sheet with values")
    notes = []
    if sheet is None and (len(book.sheets) > 1 or book.hidden):
        others = listed(one for one in book.sheets if one != name)
        is_hidden = ", which is hidden," if name in book.hidden else ""
        more = f"; --sheet NAME reads another: {others}" if others else ""
        notes = [f"the sheet {name!r}{is_hidden} was read{more}"]
    notes += _fill_down(rows, book.merged(name))
    rows, about = without_surroundings(rows)
    rows, more_notes = joined_names(rows)
    return _written(rows, most_bytes(len(content))), [*notes, *about, *more_notes]


def _fill_down(rows: list[Row], merged: Iterable[tuple[int, int, int, int]]) -> list[str]:
    """Give every row of a merged cell of one column its value; return a sentence."""
    filled = 0
    for top, left, bottom, right in merged:
        if left != right or top >= len(rows) or left >= len(rows[top]):
            continue
        for k in range(top + 1, min(bottom, len(rows) - 1) + 1):
            row = [*rows[k], *[None] * (left + 1 - len(rows[k]))]
            row[left] = rows[top][left]
            rows[k], filled = row, filled + 1
    cells = f"{filled} cell{'s' * (filled > 1)}"
    return [f"merged cells were filled downwards ({cells})"] if filled else []


def without_surroundings(rows: list[Row]) -> tuple[list[Row], list[str]]:
    """Leave out empty columns before a table, and footnotes below it; return sentences.

    Footnotes are rows with one text alone, after an empty row. Titles above the table stay.

    Example:
        >>> sheet = [["Title"], ["", "a", "b"], ["", 1, 2], [], ["", "* in kg"]]
        >>> without_surroundings(sheet)
        ([['Title'], ['a', 'b'], [1, 2]], ["a footnote was left out: '* in kg'"])
    """
    filled = [[k for k, cell in enumerate(row) if is_filled(cell)] for row in rows]
    table = [k for k, places in enumerate(filled) if len(places) > 1]
    if not table:
        return rows, []
    end, notes, kept = table[-1] + 1, [], rows
    last = [rows[k][places[0]] for k, places in enumerate(filled[end:], end) if places]
    if last and not filled[end] and all(isinstance(text, str) for text in last):
        several = f"{len(last)} footnotes were" if len(last) > 1 else "a footnote was"
        notes, kept = [f"{several} left out: {listed(text.strip() for text in last)}"], rows[:end]
    start = min(filled[k][0] for k in table)
    moved = [
        row[start:] if not places or places[0] >= start else row[places[0] :]
        for row, places in zip(kept, filled, strict=False)
    ]
    return moved, notes


def _without_empty_ends(rows: Iterable[Row], most: int) -> list[Row]:
    """Rows without empty cells at the end, and without empty rows at the end."""
    kept: list[Row] = []
    cells = filled = 0
    for row in rows:
        cells += len(row) + 1
        check_cells(cells, most)
        width = next((k for k in range(len(row), 0, -1) if row[k - 1] not in (None, "")), 0)
        kept.append(row if width == len(row) else row[:width])
        filled = len(kept) if width else filled
    del kept[filled:]
    check_cells(len(kept) * max(map(len, kept), default=0), most)
    return kept


def _written(rows: list[Row], most: int) -> bytes:
    """Rows as CSV text of at most this size, all of the same width."""
    width = max(map(len, rows))
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
    for row in rows:
        if row:
            writer.writerow([*map(cell_text, row), *[""] * (width - len(row))])
            check_size(stream.tell(), most)
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


def _opened(content: bytes) -> Book:
    """Open an .xlsx or .ods file that contains the checked parts of this one, and no others."""
    need("python-calamine", "a spreadsheet")
    import python_calamine

    most, cells = min(most_bytes(len(content)), 2 * LARGE), most_cells(len(content))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        is_ods = ODS_PARTS[0] in archive.namelist()
    if is_ods:
        parts = parts_of(content, ODS_PARTS.__contains__, most)
        OdsPart(cells, most).read(parts[ODS_PARTS[0]])
    else:
        parts = parts_of(content, lambda name: name.lower().endswith((".xml", ".rels")), most)
        check_xlsx(parts, cells, most)
    checked = io.BytesIO()  # calamine finds parts of an archive in other ways than Python does
    with zipfile.ZipFile(checked, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    checked.seek(0)
    book = python_calamine.CalamineWorkbook.from_filelike(checked)
    visible = python_calamine.SheetVisibleEnum.Visible
    hidden = {one.name for one in book.sheets_metadata if one.visible != visible}

    def merged(name: str) -> Iterator[tuple[int, int, int, int]]:
        sheet = book.get_sheet_by_name(name)
        up, left = sheet.start or (0, 0)  # rows begin with the first cell that is not empty
        for (top, first), (bottom, last) in sheet.merged_cell_ranges or ():
            yield top - up, first - left, bottom - up, last - left

    def rows(name: str) -> Iterable[Row]:
        return book.get_sheet_by_name(name).to_python()

    return Book(book.sheet_names, hidden, rows, merged)


def _xls(content: bytes) -> Book:
    need("xlrd", "an .xls file")
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

    return Book(book.sheet_names(), {one.name for one in book.sheets() if one.visibility}, rows)
