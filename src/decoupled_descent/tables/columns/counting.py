"""Turn tables into numbers batch by batch, and count unexpected values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.tables.columns.column import Column
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.columns.values import Floats

#: The number of different unexpected values that a sentence shows.
SHOWN = 3
#: Rows are called others than those of training if more than this share of a column is on one side
#: of the median, and if that has less than this probability for any column of the table.
CLEARLY, LEVEL = 0.8, 1e-4


@dataclass
class Count:
    """The number of values of some kind, and the first ones."""

    rows: int = 0
    first: int = 0  # row number of the first value
    texts: list[str] = field(default_factory=list)  # a few values as they are written

    def add(self, column: pd.Series, unexpected: NDArray[np.bool_]) -> None:
        """Count the values where ``unexpected`` is true."""
        if unexpected.any():
            different = column[unexpected].unique()[: SHOWN + 1]
            texts = [f"{str(value).strip()!r:.60}" for value in different]
            first = column.index[unexpected.argmax()]
            first = (
                int(first) if isinstance(first, int | np.integer) else 1 + int(unexpected.argmax())
            )
            self.merge(Count(int(unexpected.sum()), first, texts))

    def merge(self, other: Count) -> None:
        """Add the values of later rows."""
        self.first = self.first if self.rows else other.first
        self.texts = [*dict.fromkeys([*self.texts, *other.texts])][: SHOWN + 1]
        self.rows += other.rows

    def sentence(self, one: str, several: str = "") -> str:
        """Return the count, the words for one or several values, and the first values."""
        count = f"{self.rows:,} values {several or one}" if self.rows > 1 else f"1 value {one}"
        shown = ", ".join(self.texts[:SHOWN]) + ", …" * (len(self.texts) > SHOWN)
        return f"{count}: {shown} (first in row {self.first:,})"


@dataclass
class Counts:
    """The unexpected values of one column."""

    unreadable: Count = field(default_factory=Count)  # not a number, or not a date
    unknown: Count = field(default_factory=Count)  # categories that have no column
    absent: Count = field(default_factory=Count)  # missing values
    outside: Count = field(default_factory=Count)  # numbers outside anything seen
    above: Count = field(default_factory=Count)  # numbers above the median of training
    below: Count = field(default_factory=Count)  # numbers below it

    @property
    def each(self) -> tuple[Count, ...]:
        """All counts."""
        kinds = self.unreadable, self.unknown, self.absent, self.outside
        return *kinds, self.above, self.below


class CountingEncoder:
    """Turns batches of a table into numbers and counts unexpected values.

    Unknown categories become "other" if the column has such a value. Otherwise they are 0 in the
    columns of all categories.

    Args:
        columns: The rules for the columns.
        strict: Raise ``ValueError`` for text in a column of numbers or dates, and for numbers
            beyond ±1e100. Otherwise such values count as missing.

    Example:
        >>> table = pd.DataFrame({"age": [31, 40, 40, 52], "pet": ["cat", "dog", "dog", "cat"]})
        >>> encoder = CountingEncoder(Columns.learn(table))
        >>> encoder.apply(
        ...     pd.DataFrame({"age": ["44", "forty"], "pet": ["cat", "emu"]}, index=[8, 9])
        ... )
        array([[44.,  1.,  0.],
               [40.,  0.,  0.]])
        >>> print(*encoder.notes("the sample"), sep=chr(10))
        'age': 1 value is not a number and counts as missing: 'forty' (first in row 9)
        'pet': 1 value not seen in the sample: 'emu' (first in row 9)
    """

    def __init__(self, columns: Columns, strict: bool = False) -> None:
        self.columns, self.strict = columns, strict
        self.counts = {column.name: Counts() for column in columns.columns}
        self.rows = 0

    def apply(self, frame: pd.DataFrame) -> Floats:
        """Turn rows into a matrix of finite numbers, and count."""
        table = self.columns.table(frame)
        self.rows += len(frame)
        return np.hstack([self._column(one, table[one.name]) for one in self.columns.columns])

    def _column(self, column: Column, values: pd.Series) -> Floats:
        counts = self.counts[column.name]
        for name, rows in column.unusual(values, self.strict).items():
            getattr(counts, name).add(values, rows)
        return column.apply(values, self.strict)

    def to_dict(self) -> dict[str, list[list[Any]]]:
        """Return the counts as lists, by column."""
        return {
            name: [[one.rows, one.first, one.texts] for one in counts.each]
            for name, counts in self.counts.items()
        }

    def add(self, later: dict[str, list[list[Any]]]) -> None:
        """Add the counts of later rows, as of :meth:`to_dict`."""
        for name, counts in self.counts.items():
            for count, other in zip(counts.each, later[name], strict=True):
                count.merge(Count(*other))

    def notes(self, learnt_from: str, everything: bool = False) -> list[str]:
        """Return a sentence for each column with unexpected values.

        Args:
            learnt_from: The name of the rows from which the rules were learnt.
            everything: Whether to report also what is usual: missing numbers and dates, and rare
                values of columns that have a category "other".
        """
        notes = {
            column.name: self._notes(column, learnt_from, everything)
            for column in self.columns.columns
        }
        return [f"{name!r}: {'; '.join(parts)}" for name, parts in notes.items() if parts]

    def unreadable_notes(self) -> list[str]:
        """Return a sentence for each column with values that are not of its kind."""
        return [
            f"{column.name!r}: {_unreadable(column, self.counts[column.name])}"
            for column in self.columns.columns
            if self.counts[column.name].unreadable.rows
        ]

    def _notes(self, column: Column, learnt_from: str, everything: bool) -> list[str]:
        counts, notes = self.counts[column.name], list[str]()
        if counts.unreadable.rows:
            notes.append(_unreadable(column, counts))
        every = 1 < counts.outside.rows == self.rows - counts.absent.rows
        if counts.outside.rows and column.range and everything:
            notes.append(
                ("all " if every else "")
                + counts.outside.sentence(
                    f"far outside the numbers of {learnt_from} ({column.range})"
                )
                + "; are they in another unit?" * every
            )
        if column.range and everything and not every and (side := self._side(counts)):
            notes.append(
                f"{side} the median of {learnt_from}; estimates are for rows like those of "
                f"{learnt_from}, and these may be others"
            )
        if counts.unknown.rows and (everything or not column.has_other):
            notes.append(
                counts.unknown.sentence(
                    f"not seen in {learnt_from}" + ", or only rarely" * column.has_other
                )
            )
        absent = counts.absent.rows
        notes += [column.absent_note(absent, learnt_from, everything)] if absent else []
        return [note for note in notes if note]

    def _side(self, counts: Counts) -> str:
        """How many numbers are on one side of the median, if chance does not explain it; or empty.

        At most half of the rows of training are on one side. By Hoeffding's inequality a share of
        ½ + t of n rows has a probability of at most exp(−2nt²).
        """
        present = self.rows - counts.absent.rows
        tests = 2 * len(self.columns.columns)
        chance = 0.5 + math.sqrt(math.log(tests / LEVEL) / (2 * max(1, present)))
        for where, count in (("above", counts.above), ("below", counts.below)):
            if count.rows > max(chance, CLEARLY) * present:
                return f"{count.rows:,} of {present:,} values are {where}"
        return ""


def _unreadable(column: Column, counts: Counts) -> str:
    """Return the sentence about values that are not of the kind of a column."""
    one = f"is not a {column.kind} and counts as missing"
    return counts.unreadable.sentence(one, f"are not {column.kind}s and count as missing")
