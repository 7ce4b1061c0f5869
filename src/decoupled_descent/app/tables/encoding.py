"""Turn a table into numbers piece by piece, and count unexpected values.

The rules for the columns were learnt from other rows: a sample of the table, or the training rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from decoupled_descent.app.tables.column import Column
from decoupled_descent.app.tables.columns import Columns
from decoupled_descent.app.tables.pieces import Pieces, Scan
from decoupled_descent.app.tables.shares import Share
from decoupled_descent.app.tables.values import (
    Floats,
    is_number,
    levels_of,
    spelling,
    texts_of,
)
from decoupled_descent.files import unnamed_file

#: So many different values of a kind are shown.
SHOWN = 3


@dataclass
class Count:
    """The number of values of some kind, and the first ones."""

    rows: int = 0
    first: int = 0  # row number of the first value
    texts: list[str] = field(default_factory=list)  # a few values as they are written

    def add(self, column: pd.Series, found: NDArray[np.bool_]) -> None:
        """Count the values where ``found`` is true."""
        if found.any():
            different = column[found].unique()[: SHOWN + 1]
            texts = [f"{str(value).strip()!r:.60}" for value in different]
            self.join(Count(int(found.sum()), int(column.index[found.argmax()]), texts))

    def join(self, other: Count) -> None:
        """Add the values of later rows."""
        self.first = self.first if self.rows else other.first
        self.texts = [*dict.fromkeys([*self.texts, *other.texts])][: SHOWN + 1]
        self.rows += other.rows

    def said(self, one: str, several: str = "") -> str:
        """Return a sentence: the count, the words for one or several values, and the first ones."""
        count = f"{self.rows:,} values {several or one}" if self.rows > 1 else f"1 value {one}"
        shown = ", ".join(self.texts[:SHOWN]) + ", …" * (len(self.texts) > SHOWN)
        return f"{count}: {shown} (first in row {self.first:,})"


@dataclass
class Counts:
    """The unexpected values of one column."""

    unreadable: Count = field(default_factory=Count)  # not a number, or not a date
    unknown: Count = field(default_factory=Count)  # categories that have no column
    absent: Count = field(default_factory=Count)  # missing values

    @property
    def each(self) -> tuple[Count, Count, Count]:
        """The three counts."""
        return self.unreadable, self.unknown, self.absent


class Tally:
    """Turns pieces of a table into numbers and counts unexpected values.

    Unknown categories become "other" if the column has such a value. Otherwise they are 0 in the
    columns of all known categories.

    Args:
        columns: The rules for the columns.
        strict: Raise ``ValueError`` for text in a column of numbers or dates, and for numbers
            beyond ±1e100. Otherwise such values count as missing.

    Example:
        >>> table = pd.DataFrame({"age": [31, 40, 40, 52], "pet": ["cat", "dog", "dog", "cat"]})
        >>> tally = Tally(Columns.learn(table))
        >>> tally.apply(pd.DataFrame({"age": ["44", "forty"], "pet": ["cat", "emu"]}, index=[8, 9]))
        array([[44.,  1.,  0.],
               [40.,  0.,  0.]])
        >>> print(*tally.notes("the sample"), sep=chr(10))
        'age': 1 value is not a number and counts as missing: 'forty' (first in row 9)
        'pet': 1 value not seen in the sample: 'emu' (first in row 9)
    """

    def __init__(self, columns: Columns, strict: bool = False) -> None:
        self.columns, self.strict = columns, strict
        self.found = {column.name: Counts() for column in columns.columns}

    def apply(self, frame: pd.DataFrame) -> Floats:
        """Turn rows into a matrix of finite numbers, and count."""
        table = self.columns.table(frame)
        return np.hstack([self._column(one, table[one.name]) for one in self.columns.columns])

    def _column(self, column: Column, values: pd.Series) -> Floats:
        counts = self.found[column.name]
        if column.kind in ("number", "date"):
            absent = np.isnan(column.values(values, self.strict))
            counts.unreadable.add(values, absent & ~_empty(values))
            counts.absent.add(values, absent)
        elif column.kind == "category":
            codes, texts = levels_of(values)
            known = set(map(spelling, column.levels))
            new = [k for k, text in enumerate(texts) if spelling(text) not in known]
            counts.unknown.add(values, np.isin(codes, new))
            counts.absent.add(values, codes < 0)
        return column.apply(values, self.strict)

    def told(self) -> dict[str, list[list[Any]]]:
        """Return the counts as lists, by column."""
        return {
            name: [[one.rows, one.first, one.texts] for one in counts.each]
            for name, counts in self.found.items()
        }

    def add(self, told: dict[str, list[list[Any]]]) -> None:
        """Add the counts of later rows, as of :meth:`told`."""
        for name, counts in self.found.items():
            for mine, other in zip(counts.each, told[name], strict=True):
                mine.join(Count(*other))

    def notes(self, known: str, everything: bool = False) -> list[str]:
        """Return a sentence for each column with unexpected values.

        Args:
            known: What the rows are called from which the rules were learnt.
            everything: Whether to report also what is usual: missing numbers and dates, and rare
                values of columns that have a category "other".
        """
        said = {one.name: self._notes(one, known, everything) for one in self.columns.columns}
        return [f"{name!r}: {'; '.join(parts)}" for name, parts in said.items() if parts]

    def _notes(self, column: Column, known: str, everything: bool) -> list[str]:
        counts, said = self.found[column.name], list[str]()
        if counts.unreadable.rows:
            one = f"is not a {column.kind} and counts as missing"
            several = f"are not {column.kind}s and count as missing"
            said.append(counts.unreadable.said(one, several))
        if counts.unknown.rows and (everything or not column.other):
            said.append(
                counts.unknown.said(f"not seen in {known}" + ", or only rarely" * column.other)
            )
        absent = counts.absent.rows
        if absent and column.kind == "category" and not column.missing:
            plural = "s" * (absent > 1)
            said.append(f"{absent:,} missing value{plural}; there were none in {known}")
        if absent and column.kind != "category" and everything:
            said.append(column.filled(absent))
        return said


def _empty(values: pd.Series) -> NDArray[np.bool_]:
    """Return which cells are empty, or have a text that stands for a missing value."""
    if is_number(values.dtype) or types.is_datetime64_any_dtype(values.dtype):
        return np.asarray(values.isna(), dtype=bool)
    return texts_of(values)[0] < 0


class Encoded(NamedTuple):
    """A table as numbers."""

    X: Floats  # (n, d); that of a large table is a memory map of a temporary file
    codes: dict[str, NDArray[np.int64]]  # of the values of some columns, (n,)
    notes: list[str]  # about values that the sample did not have


def encode(
    pieces: Pieces,
    scan: Scan,
    columns: Columns,
    kept: NDArray[np.bool_],
    numbered: Sequence[str] = (),
) -> Encoded:
    """Turn the rows of this process into numbers: in memory, or of a large table on disk.

    ``kept`` says which of all rows to use. The different values of the columns ``numbered`` get the
    codes 0, 1, 2, … The codes and the sentences are those of the rows of all processes.
    """
    tally = Tally(columns)
    own: list[tuple[Floats, dict[str, NDArray[np.int64]]]] = []

    def made() -> list[Any]:
        places: dict[str, dict[str, int]] = {name: {} for name in numbered}
        own.append(_encoded(pieces, scan, tally, kept, places))
        return [tally.told(), {name: list(places[name]) for name in numbered}]

    told = pieces.share.together(made)
    X, codes = own[0]
    joined = {
        name: _numbers_of_all(pieces.share, codes[name], [texts[name] for _, texts in told])
        for name in numbered
    }
    whole = Tally(columns)
    for counts, _ in told:
        whole.add(counts)
    return Encoded(X, joined, whole.notes("the sample"))


def _encoded(
    pieces: Pieces, scan: Scan, tally: Tally, kept: NDArray[np.bool_],
    places: dict[str, dict[str, int]],
) -> tuple[Floats, dict[str, NDArray[np.int64]]]:  # fmt: skip
    """Turn rows into a matrix, and number the values of the columns in ``places``."""
    codes: dict[str, list[NDArray[np.int64]]] = {name: [] for name in places}

    def blocks() -> Iterator[Floats]:
        for frame in pieces.frames(scan):
            part = frame[kept[frame.index.to_numpy() - 1]]
            if len(part):
                yield tally.columns.apply(part) if pieces.whole else tally.apply(part)
                for name, known in places.items():
                    codes[name].append(numbers_of_texts(part[name], known))

    if pieces.whole:
        (X,) = blocks()
    else:
        shape = int(kept[scan.own].sum()), len(tally.columns.names)
        with unnamed_file(8 * shape[0] * shape[1]) as file:
            file.writelines(np.ascontiguousarray(block).data for block in blocks())
            file.flush()
            X = np.memmap(file, dtype=np.float64, mode="r", shape=shape)
    return X, {name: np.concatenate(parts) for name, parts in codes.items()}


def _numbers_of_all(
    share: Share, own: NDArray[np.int64], texts: list[list[str]]
) -> NDArray[np.int64]:
    """Join the numbers of all processes; ``texts`` are the values that each has numbered."""
    places: dict[str, int] = {}
    numbers = [[places.setdefault(text, len(places)) for text in mine] for mine in texts]
    found: NDArray[np.int64] = np.array([*numbers[share.rank], -1], dtype=np.int64)[own]
    return np.concatenate([np.frombuffer(one, np.int64) for one in share.sent(found.tobytes)])


def numbers_of_texts(column: pd.Series, places: dict[str, int]) -> NDArray[np.int64]:
    """Number the different values of a column; ``places`` has the numbers given so far."""
    found, texts = pd.factorize(column.astype(str))
    mine = [places.setdefault(str(text), len(places)) for text in texts]
    numbers: NDArray[np.int64] = np.array([*mine, -1], dtype=np.int64)[found]
    return numbers
