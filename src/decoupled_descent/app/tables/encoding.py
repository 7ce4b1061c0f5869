"""Turn a table into numbers batch by batch, and count unexpected values.

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
from decoupled_descent.app.tables.process_group import ProcessGroup
from decoupled_descent.app.tables.table_reader import FirstPass, TableReader
from decoupled_descent.app.tables.values import (
    Floats,
    is_number,
    levels_of,
    spelling,
    texts_of,
)
from decoupled_descent.files import unnamed_file

#: The number of different unexpected values that a sentence shows.
SHOWN = 3


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
            first = int(column.index[unexpected.argmax()])
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

    @property
    def each(self) -> tuple[Count, Count, Count]:
        """The three counts."""
        return self.unreadable, self.unknown, self.absent


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

    def apply(self, frame: pd.DataFrame) -> Floats:
        """Turn rows into a matrix of finite numbers, and count."""
        table = self.columns.table(frame)
        return np.hstack([self._column(one, table[one.name]) for one in self.columns.columns])

    def _column(self, column: Column, values: pd.Series) -> Floats:
        counts = self.counts[column.name]
        if column.kind in ("number", "date"):
            absent = np.isnan(column.values(values, self.strict))
            counts.unreadable.add(values, absent & ~_empty(values))
            counts.absent.add(values, absent)
        elif column.kind == "category":
            codes, texts = levels_of(values)
            levels = set(map(spelling, column.levels))
            new = [k for k, text in enumerate(texts) if spelling(text) not in levels]
            counts.unknown.add(values, np.isin(codes, new))
            counts.absent.add(values, codes < 0)
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

    def _notes(self, column: Column, learnt_from: str, everything: bool) -> list[str]:
        counts, notes = self.counts[column.name], list[str]()
        if counts.unreadable.rows:
            one = f"is not a {column.kind} and counts as missing"
            several = f"are not {column.kind}s and count as missing"
            notes.append(counts.unreadable.sentence(one, several))
        if counts.unknown.rows and (everything or not column.other):
            notes.append(
                counts.unknown.sentence(
                    f"not seen in {learnt_from}" + ", or only rarely" * column.other
                )
            )
        absent = counts.absent.rows
        if absent and column.kind == "category" and not column.missing:
            plural = "s" * (absent > 1)
            notes.append(f"{absent:,} missing value{plural}; there were none in {learnt_from}")
        if absent and column.kind != "category" and everything:
            notes.append(column.filled(absent))
        return notes


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
    reader: TableReader,
    first: FirstPass,
    columns: Columns,
    labelled: NDArray[np.bool_],
    coded: Sequence[str] = (),
) -> Encoded:
    """Turn the rows of this process into numbers: in memory, or of a large table on disk.

    Args:
        reader: The table.
        first: The result of the first pass.
        columns: The rules for the columns.
        labelled: Whether each row of the table has a label. Rows without one are left out.
        coded: Names of columns whose different values get the codes 0, 1, 2, …

    Returns:
        The rows of this process. The codes and the sentences are those of all rows of the table.
    """
    encoder = CountingEncoder(columns)
    results: list[tuple[Floats, dict[str, NDArray[np.int64]]]] = []

    def encoded() -> list[Any]:
        codebooks: dict[str, dict[str, int]] = {name: {} for name in coded}
        results.append(_encoded(reader, first, encoder, labelled, codebooks))
        return [encoder.to_dict(), {name: list(codebooks[name]) for name in coded}]

    gathered = reader.group.all_gather(encoded)
    X, codes = results[0]
    all_codes = {
        name: _all_gather_codes(reader.group, codes[name], [texts[name] for _, texts in gathered])
        for name in coded
    }
    total = CountingEncoder(columns)
    for counts, _ in gathered:
        total.add(counts)
    return Encoded(X, all_codes, total.notes("the sample"))


def _encoded(
    reader: TableReader, first: FirstPass, encoder: CountingEncoder, labelled: NDArray[np.bool_],
    codebooks: dict[str, dict[str, int]],
) -> tuple[Floats, dict[str, NDArray[np.int64]]]:  # fmt: skip
    """Turn rows into a matrix, and the values of the columns in ``codebooks`` into codes."""
    codes: dict[str, list[NDArray[np.int64]]] = {name: [] for name in codebooks}

    def blocks() -> Iterator[Floats]:
        for frame in reader.frames(first):
            rows = frame[labelled[frame.index.to_numpy() - 1]]
            if len(rows):
                yield encoder.columns.apply(rows) if reader.in_memory else encoder.apply(rows)
                for name, codebook in codebooks.items():
                    codes[name].append(codes_of(rows[name], codebook))

    if reader.in_memory:
        (X,) = blocks()
    else:
        shape = int(labelled[first.row_range].sum()), len(encoder.columns.names)
        with unnamed_file(8 * shape[0] * shape[1]) as file:
            file.writelines(np.ascontiguousarray(block).data for block in blocks())
            file.flush()
            X = np.memmap(file, dtype=np.float64, mode="r", shape=shape)
    return X, {name: np.concatenate(parts) for name, parts in codes.items()}


def _all_gather_codes(
    group: ProcessGroup, codes: NDArray[np.int64], texts: list[list[str]]
) -> NDArray[np.int64]:
    """Return the codes of all rows; ``texts`` has the values of each process by code."""
    codebook: dict[str, int] = {}
    tables = [[codebook.setdefault(text, len(codebook)) for text in part] for part in texts]
    local: NDArray[np.int64] = np.array([*tables[group.rank], -1], dtype=np.int64)[codes]
    gathered = group.all_gather_results(local.tobytes)
    return np.concatenate([np.frombuffer(one, np.int64) for one in gathered])


def codes_of(column: pd.Series, codebook: dict[str, int]) -> NDArray[np.int64]:
    """Return the codes of the values of a column; new values are added to the codebook."""
    local, texts = pd.factorize(column.astype(str))
    table = [codebook.setdefault(str(text), len(codebook)) for text in texts]
    codes: NDArray[np.int64] = np.array([*table, -1], dtype=np.int64)[local]
    return codes
