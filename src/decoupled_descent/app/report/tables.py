"""Tables of the report: names of columns, what kind of cells they have, and the cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

#: The kinds of cells that ``templates/macros.html`` can write.
KINDS = ("text", "number", "badge", "bar", "advice", "candidate")


class Column(NamedTuple):
    """The name of a column, and the kind of its cells."""

    name: str
    kind: str = "text"


class Table(NamedTuple):
    """A table; the first cell of each row is its heading."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]


def numbers(*names: str) -> list[Column]:
    """Columns of numbers, which are aligned to the right."""
    return [Column(name, "number") for name in names]
