"""How large a spreadsheet becomes that is a small file: counted from its XML, before it is read.

calamine makes a rectangle of cells up to the last one that a sheet names, a copy of a shared text
for each of its uses, and all rows and cells that .ods states by a number of repetitions.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any
from xml.parsers import expat

from decoupled_descent.app.files.limits import check_cells, check_parts, check_size

#: A reference to a cell. No sheet has more columns than three letters name.
REFERENCE = re.compile(r"([A-Za-z]{0,3})(\d{0,9})")
#: The start of a shared text, with any prefix.
SHARED_TEXT = re.compile(rb"<(?:[^\s<>/]*:)?si[\s/>]")
CELLS = ("table-cell", "covered-table-cell")


class XmlPart:
    """Counts what a part of a spreadsheet expands to, while its XML is parsed.

    Args:
        most_cells: The largest number of cells.
        most_bytes: The largest number of bytes of all texts.
    """

    def __init__(self, most_cells: int, most_bytes: int) -> None:
        self.most_cells, self.most_bytes = most_cells, most_bytes
        self.text: list[str] = []  # since the start of a cell or text

    def read(self, content: bytes) -> None:
        """Parse the part; raise ``ValueError`` if it is too large, or is no XML."""
        parser: Any = expat.ParserCreate("utf-8")  # whatever the file says: calamine reads UTF-8
        parser.buffer_text = True
        parser.StartElementHandler = lambda name, given: self.start(_local(name), given)
        parser.EndElementHandler = lambda name: self.end(_local(name))
        parser.CharacterDataHandler = lambda text: self.text.append(text)
        parser.StartDoctypeDeclHandler = _refuse_entities
        try:
            parser.Parse(content, True)
        except expat.ExpatError as error:
            raise ValueError(f"its XML is damaged: {error}") from error

    def start(self, name: str, given: dict[str, str]) -> None:
        """Handle the start of an element."""

    def end(self, name: str) -> None:
        """Handle the end of an element."""


class XlsxPart(XmlPart):
    """A part of an .xlsx file: a sheet, the shared texts, or another one, which has no cells.

    Attributes:
        lengths: The lengths of the shared texts that the part defines.

    Args:
        most_cells: The largest number of cells.
        most_bytes: The largest number of bytes of all texts.
        shared: The lengths of the shared texts that sheets use.
    """

    def __init__(self, most_cells: int, most_bytes: int, shared: list[int]) -> None:
        super().__init__(most_cells, most_bytes)
        self.lengths: list[int] = []
        self.shared, self.is_shared, self.size = shared, False, 0
        self.row = self.column = self.last_row = self.last_column = 0

    def start(self, name: str, given: dict[str, str]) -> None:
        """Note the position of a cell, which is the next one if the file does not say it."""
        if name == "c":
            column, row = _position(given.get("r", ""))
            self.row, self.column = row or self.row, column or self.column + 1
            self.last_row = max(self.last_row, self.row)
            self.last_column = max(self.last_column, self.column)
            check_cells(self.last_row * self.last_column, self.most_cells)
            self.is_shared = given.get("t") == "s"
        elif name == "row":
            self.row, self.column = _position(given.get("r", ""))[1] or self.row + 1, 0
        if name in ("c", "v", "si"):
            self.text.clear()

    def end(self, name: str) -> None:
        """Add the length of a text that is shared."""
        if name == "si":
            self.lengths.append(sum(map(len, self.text)))
            check_cells(len(self.lengths), self.most_cells)
        elif name == "v" and self.is_shared:
            index = "".join(self.text).strip()
            known = index.isdecimal() and len(index) < 10 and int(index) < len(self.shared)
            self.size += self.shared[int(index)] if known else 0
            check_size(self.size, self.most_bytes)


class OdsPart(XmlPart):
    """The content of an .ods file. Empty rows and cells count only if others follow."""

    def __init__(self, most_cells: int, most_bytes: int) -> None:
        super().__init__(most_cells, most_bytes)
        self.sheets = self.rows = self.empty_rows = self.width = self.size = self.cells = 0
        self.row_times = self.row_width = self.empty = self.row_size = 0
        self.times, self.spaces, self.is_filled = 0, 0, False

    def start(self, name: str, given: dict[str, str]) -> None:
        """Note how often a row or a cell is repeated."""
        about = {_local(key): value for key, value in given.items()}
        if name == "table-row":
            self.row_times = _times(about, "number-rows-repeated")
            self.row_width = self.empty = self.row_size = 0
        elif name in CELLS:
            self.times, self.spaces = _times(about, "number-columns-repeated"), 0
            self.is_filled = "value-type" in about
            self.text = list(given.values())
        elif name == "s":
            self.spaces += _times(about, "c")
        elif name == "table":
            self.sheets += 1
            check_parts(self.sheets)
            self.cells += self.rows * self.width
            self.rows = self.empty_rows = self.width = 0

    def end(self, name: str) -> None:
        """Add the cells of a row, and the rows of a sheet; all sheets are read together."""
        if name in CELLS and not self.is_filled:
            self.empty += self.times
        elif name in CELLS:
            self.row_width += self.empty + self.times
            self.row_size += (sum(map(len, self.text)) + self.spaces) * self.times
            self.empty = 0
        elif name == "table-row" and not self.row_width:
            self.empty_rows += self.row_times
        elif name == "table-row":
            self.rows += self.empty_rows + self.row_times
            self.empty_rows, self.width = 0, max(self.width, self.row_width)
            self.size += self.row_size * self.row_times
            check_cells(self.cells + self.rows * self.width, self.most_cells)
            check_size(self.size, self.most_bytes)


def check_xlsx(parts: dict[str, bytes], most_cells: int, most_bytes: int) -> None:
    """Raise ``ValueError`` if a sheet of an .xlsx file with these parts becomes too large."""
    shared: list[int] = []
    with_shared = [name for name, content in parts.items() if SHARED_TEXT.search(content)]
    for name in [*with_shared, *(name for name in parts if name not in with_shared)]:
        part = XlsxPart(most_cells, most_bytes, shared)
        part.read(parts[name])
        if part.lengths and (shared or part.last_row):
            raise ValueError(f"the shared texts are not in one part, but in {name}; save it again")
        shared = shared or part.lengths


def _local(name: str) -> str:
    """The name of an element or attribute without that of its namespace."""
    return name.rpartition(":")[2]


@cache
def _column(letters: str) -> int:
    """The number of a column from its letters: 1 for A, 27 for AA."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - 64
    return number


def _position(reference: str) -> tuple[int, int]:
    """Column and row of a reference such as B7 or 7; 0 stands for a part that is not given."""
    match = REFERENCE.fullmatch(reference)
    if not match:
        raise ValueError(f"a cell has the position {reference!r:.30}; save the file again")
    return _column(match[1]), int(match[2] or 0)


def _times(about: dict[str, str], key: str) -> int:
    """How often something is repeated."""
    text = about.get(key, "1")
    if not re.fullmatch(r"\d{1,9}", text):
        raise ValueError(
            f"{key} is {text!r:.30}, and must be a whole number of nine digits at most; "
            "save the file again"
        )
    return max(1, int(text))


def _refuse_entities(*_: object) -> None:
    """Raise ``ValueError``: an entity can stand for very much text, and spreadsheets have none."""
    raise ValueError("the file declares a document type or entities of XML; save it again")
