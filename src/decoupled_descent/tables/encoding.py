"""Turn a table into numbers piece by piece, and count unexpected values.

The rules for the columns were learnt from other rows: a sample of the table, or the training rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from decoupled_descent.tables.shares import Share
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
    """The number of values of some kind, and the first one."""

    rows: int = 0
    first: int = 0  # row number of the first value
    text: str = ""  # the first value as it is written

    def add(self, column: pd.Series, found: NDArray[np.bool_]) -> None:
        """Count the values where ``found`` is true."""
        if not self.rows and found.any():
            place = int(found.argmax())
            self.first, self.text = int(column.index[place]), str(column.iloc[place]).strip()
        self.rows += int(found.sum())

    def join(self, other: Count) -> None:
        """Add the values of later rows."""
        if not self.rows:
            self.first, self.text = other.first, other.text
        self.rows += other.rows

    def said(self, words: str) -> str:
        """Return a sentence with the count and the first value; ``words`` has places for verbs."""
        several = self.rows > 1
        count = f"{self.rows:,} values" if several else "1 value"
        verbs = ("are", "count") if several else ("is", "counts")
        return (
            f"{count} {words.format(*verbs)}; the first is {self.text!r:.60} in row {self.first:,}"
        )


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

    Text in a column of numbers or dates counts as missing. Numbers beyond ±1e100 do, too. Unknown
    categories become "other" if the column has such a value. Otherwise they are 0 in the columns of
    all known categories.

    Args:
        columns: The rules for the columns.

    Example:
        >>> table = pd.DataFrame({"age": [31, 40, 40, 52], "pet": ["cat", "dog", "dog", "cat"]})
        >>> tally = Tally(Columns.learn(table))
        >>> tally.apply(pd.DataFrame({"age": ["44", "forty"], "pet": ["cat", "emu"]}, index=[8, 9]))
        array([[44.,  1.,  0.],
               [40.,  0.,  0.]])
        >>> print(*tally.notes("the sample"), sep=chr(10))
        'age': 1 value is not a number and counts as missing; the first is 'forty' in row 9
        'pet': 1 value that the sample did not have counts as "other"; the first is 'emu' in row 9
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.found = {column.name: Counts() for column in columns.columns}

    def apply(self, frame: pd.DataFrame) -> Floats:
        """Turn rows into a matrix of finite numbers, and count."""
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

    def told(self) -> dict[str, list[list[Any]]]:
        """Return the counts as lists, by column."""
        return {
            name: [[one.rows, one.first, one.text] for one in counts.each]
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
            what = f"{column.kind}s" if counts.unreadable.rows > 1 else f"a {column.kind}"
            said.append(counts.unreadable.said(f"{{0}} not {what} and {{1}} as missing"))
        if counts.unknown.rows and (everything or not column.other):
            lacked = f"that {known} did not have" + ", or only rarely," * column.other
            said.append(counts.unknown.said(f'{lacked} {{1}} as "other"'))
        absent = counts.absent.rows
        if absent and column.kind == "category" and not column.missing:
            said.append(f"{absent:,} missing value{'s' * (absent > 1)}; {known} had none")
        if absent and column.kind != "category" and everything:
            said.append(column.filled(absent))
        return said


def _absent(values: pd.Series) -> NDArray[np.bool_]:
    """Return which values are missing, including texts that stand for missing values."""
    if is_number(values.dtype) or types.is_datetime64_any_dtype(values.dtype):
        return np.asarray(values.isna(), dtype=bool)
    return texts_of(values)[0] < 0


def _unreadable(column: Column, values: pd.Series) -> NDArray[np.bool_]:
    """Return which values are present but cannot be read as numbers or dates of this column."""
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
        X: A memory map, shape (n, d), of a temporary file without a name.
        codes: For each column in ``numbered``, the numbers of its values, shape (n,).
        notes: Sentences about values that the sample did not have.
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
    """Turn the rows of this process into numbers on disk, piece by piece.

    Args:
        pieces: The table.
        scan: The result of the first pass over the table.
        columns: The rules for the columns.
        kept: Which of all rows to use.
        numbered: Names of columns whose different values are numbered 0, 1, 2, …

    Returns:
        The matrix, and, of the rows of all processes, the numbers and sentences about unexpected
        values.
    """
    tally = Tally(columns)
    own: list[tuple[Floats, dict[str, NDArray[np.int64]]]] = []

    def made() -> list[Any]:
        places: dict[str, dict[str, int]] = {name: {} for name in numbered}
        own.append(_written(pieces.frames(scan), int(kept[scan.own].sum()), tally, kept, places))
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


def _written(
    frames: Iterable[pd.DataFrame], n: int, tally: Tally, kept: NDArray[np.bool_],
    places: dict[str, dict[str, int]],
) -> tuple[Floats, dict[str, NDArray[np.int64]]]:  # fmt: skip
    """Write n rows to disk as numbers; number the values of the columns in ``places``."""
    shape = n, len(tally.columns.names)
    codes: dict[str, list[NDArray[np.int64]]] = {name: [] for name in places}
    with unnamed_file(8 * shape[0] * shape[1]) as file:
        for frame in frames:
            part = frame[kept[frame.index.to_numpy() - 1]]
            if len(part):
                file.write(np.ascontiguousarray(tally.apply(part)).tobytes())
                for name, known in places.items():
                    codes[name].append(numbers_of_texts(part[name], known))
        file.flush()
        X: Floats = np.memmap(file, dtype=np.float64, mode="r", shape=shape)
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
