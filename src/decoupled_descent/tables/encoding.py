"""Encode a table that is read in pieces, and count the values that nobody expected.

How columns are treated was decided on other rows: a sample of the table, or the rows of a training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from decoupled_descent.files import unnamed_file
from decoupled_descent.tables.column import Column
from decoupled_descent.tables.columns import Columns
from decoupled_descent.tables.pieces import Pieces, Scan
from decoupled_descent.tables.values import (
    LARGEST,
    Floats,
    is_number,
    levels_of,
    parse_dates,
    parse_numbers,
    spelling,
    texts_of,
)


@dataclass
class Count:
    """How many values of a kind there were, and the first of them."""

    rows: int = 0
    first: int = 0  # the number of its row
    text: str = ""

    def add(self, column: pd.Series, found: NDArray[np.bool_]) -> None:
        """Count the values of some rows."""
        if not self.rows and found.any():
            place = int(found.argmax())
            self.first, self.text = int(column.index[place]), str(column.iloc[place]).strip()
        self.rows += int(found.sum())

    def said(self, words: str) -> str:
        """Say how many there are and what becomes of them; ``words`` has places for verbs."""
        several = self.rows > 1
        count = f"{self.rows:,} values" if several else "1 value"
        verbs = ("are", "count") if several else ("is", "counts")
        return (
            f"{count} {words.format(*verbs)}; the first is {self.text!r:.60} in row {self.first:,}"
        )


@dataclass
class Counts:
    """What one column has that was not expected."""

    unreadable: Count = field(default_factory=Count)  # no numbers, or no dates
    unknown: Count = field(default_factory=Count)  # categories without a column
    absent: Count = field(default_factory=Count)  # missing values


class Tally:
    """Turns pieces of a table into numbers, and counts what was not expected.

    Text in a column of numbers or dates, and numbers beyond ±1e100, count as missing. Categories
    that are not known count as "other" where the column has such a value, and as none of the known
    ones elsewhere.

    Args:
        columns: How columns are treated.

    Example:
        >>> table = pd.DataFrame({"age": [31, 40, 40, 52], "pet": ["cat", "dog", "dog", "cat"]})
        >>> tally = Tally(Columns.learn(table))
        >>> tally.apply(pd.DataFrame({"age": ["44", "forty"], "pet": ["cat", "emu"]}, index=[8, 9]))
        array([[44.,  1.,  0.],
               [40.,  0.,  0.]])
        >>> print(*tally.notes("the sample"), sep=chr(10))
        'age': 1 value is no number and counts as missing; the first is 'forty' in row 9
        'pet': 1 value that the sample did not have counts as "other"; the first is 'emu' in row 9
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.found = {column.name: Counts() for column in columns.columns}

    def apply(self, frame: pd.DataFrame) -> Floats:
        """Turn rows into a matrix of finite numbers."""
        table = self.columns.table(frame)
        return np.hstack([self._column(one, table[one.name]) for one in self.columns.columns])

    def _column(self, column: Column, values: pd.Series) -> Floats:
        counts = self.found[column.name]
        if column.kind in ("number", "date"):
            wrong = _unreadable(column, values)
            counts.unreadable.add(values, wrong)
            values = values.astype(object).mask(wrong) if wrong.any() else values
            counts.absent.add(values, _absent(values))
        elif column.kind == "category":
            codes, texts = levels_of(values)
            known = set(map(spelling, column.levels))
            new = [k for k, text in enumerate(texts) if spelling(text) not in known]
            counts.unknown.add(values, np.isin(codes, new))
            counts.absent.add(values, codes < 0)
        return column.apply(values)

    def notes(self, known: str, everything: bool = False) -> list[str]:
        """Say what was not expected by the rows that ``known`` names, or also what usually occurs.

        What usually occurs are missing numbers, and rare values of columns that have a place for
        them.
        """
        said = {one.name: self._notes(one, known, everything) for one in self.columns.columns}
        return [f"{name!r}: {'; '.join(parts)}" for name, parts in said.items() if parts]

    def _notes(self, column: Column, known: str, everything: bool) -> list[str]:
        counts, said = self.found[column.name], list[str]()
        if counts.unreadable.rows:
            what = "no number" if column.kind == "number" else "no date"
            said.append(counts.unreadable.said(f"{{0}} {what} and {{1}} as missing"))
        if counts.unknown.rows and (everything or not column.other):
            lacked = f"that {known} did not have" + ", or only rarely," * column.other
            said.append(counts.unknown.said(f'{lacked} {{1}} as "other"'))
        absent = counts.absent.rows
        if absent and column.kind == "category" and not column.missing:
            said.append(f"{absent:,} missing value{'s' * (absent > 1)}, of which {known} had none")
        if absent and column.kind != "category" and everything:
            said.append(column.filled(absent))
        return said


def _absent(values: pd.Series) -> NDArray[np.bool_]:
    """Which values are missing, also those that are words for it."""
    if is_number(values.dtype) or types.is_datetime64_any_dtype(values.dtype):
        return np.asarray(values.isna(), dtype=bool)
    return texts_of(values)[0] < 0


def _unreadable(column: Column, values: pd.Series) -> NDArray[np.bool_]:
    """Which values are there and cannot be read as numbers or dates of the column's style."""
    if column.kind == "date":
        if types.is_datetime64_any_dtype(values.dtype):
            return np.zeros(len(values), dtype=bool)
        codes, texts = texts_of(values)
        wrong: Any = np.isnat(parse_dates(texts, column.style))
    elif is_number(values.dtype):
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(np.abs(numbers) > LARGEST)
    else:
        codes, texts = texts_of(values)
        read = parse_numbers(texts, column.style)
        wrong = np.isnan(read) | (np.abs(read) > LARGEST)
    return np.isin(codes, np.flatnonzero(wrong))


class Encoded(NamedTuple):
    """A table as numbers on disk.

    Attributes:
        X: A memory map, shape (n, d), in a file without a name.
        codes: For each column that was asked for, a number for each of its values, shape (n,).
        notes: What the sample did not have, in sentences.
    """

    X: NDArray[np.float64]
    codes: dict[str, NDArray[np.int64]]
    notes: list[str]


def encode(
    pieces: Pieces,
    scan: Scan,
    columns: Columns,
    kept: NDArray[np.bool_],
    numbered: Sequence[str] = (),
) -> Encoded:
    """Turn the rows of a table that are to be kept into numbers on disk, piece by piece.

    Args:
        pieces: The table.
        scan: What was found when it was gone through for the first time.
        columns: How columns are treated.
        kept: Which rows are turned into numbers, of all.
        numbered: Columns whose values are numbered.

    Returns:
        The matrix, the numbers, and what was noticed.
    """
    shape = int(kept.sum()), len(columns.names)
    tally = Tally(columns)
    places: dict[str, dict[str, int]] = {name: {} for name in numbered}
    codes: dict[str, list[NDArray[np.int64]]] = {name: [] for name in numbered}
    with unnamed_file(8 * shape[0] * shape[1]) as file:
        for frame in pieces.frames(scan):
            part = frame[kept[frame.index.to_numpy() - 1]]
            if len(part):
                file.write(np.ascontiguousarray(tally.apply(part)).tobytes())
                for name in numbered:
                    codes[name].append(numbers_of_texts(part[name], places[name]))
        file.flush()
        X = np.memmap(file, dtype=np.float64, mode="r", shape=shape)
    joined = {name: np.concatenate(parts) for name, parts in codes.items()}
    return Encoded(X, joined, tally.notes("the sample"))


def numbers_of_texts(column: pd.Series, places: dict[str, int]) -> NDArray[np.int64]:
    """Number the values of a column as texts; ``places`` holds the numbers given so far."""
    found, texts = pd.factorize(column.astype(str))
    mine = [places.setdefault(str(text), len(places)) for text in texts]
    numbers: NDArray[np.int64] = np.array([*mine, -1], dtype=np.int64)[found]
    return numbers
