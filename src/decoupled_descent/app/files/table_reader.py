"""Read tables that do not fit into memory, in batches of rows.

There are two passes over the files. The first pass counts and checks the rows, draws a random
sample of them, and loads a few complete columns, such as the target. The second pass yields the
rows in order, in batches, as data frames with the types of the sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from decoupled_descent.app.files.parquet import ParquetFile
from decoupled_descent.app.files.reading import checked_names
from decoupled_descent.app.files.reservoir import ReservoirSample, sample_size
from decoupled_descent.app.files.text import Notes
from decoupled_descent.app.files.text_file import TextFile

TableFile = TextFile | ParquetFile


class FirstPass(NamedTuple):
    """The result of the first pass over a table. Rows are numbered from 1, in the index."""

    n_rows: int  # the number of rows
    sample: pd.DataFrame  # a random sample of the rows, in the order of the table
    columns: dict[str, pd.Series]  # complete columns by name
    as_written: Callable[[str], list[str] | None]  # the texts of such a column in a text file
    notes: Notes  # sentences for the user about the files


class TableReader(ABC):
    """A table in one or several files.

    Attributes:
        size: The number of bytes, unpacked.
        in_memory: Whether all rows are in memory.
    """

    size: int
    in_memory: bool

    @abstractmethod
    def first_pass(self, names: Sequence[str] = ()) -> FirstPass:
        """Make the first pass, and load the complete columns with these names, if they exist."""

    @abstractmethod
    def frames(self, first: FirstPass) -> Iterator[pd.DataFrame]:
        """Make the second pass: yield the rows in order, with their numbers."""


class BatchReader(TableReader):
    """A table that is read in batches: the rows of one or several files of the same kind.

    The decimal mark, and the sentences about the format, are those of the first file.

    Args:
        files: The files, which have the same columns.
        most_sampled: The largest number of rows in the sample, if not that of :func:`sample_size`.
    """

    in_memory = False

    def __init__(self, files: Sequence[TableFile], most_sampled: int | None = None) -> None:
        self.files = files
        self.size = sum(file.size for file in files)
        self._most_sampled = most_sampled or sample_size(len(files[0].names))

    def first_pass(self, names: Sequence[str] = ()) -> FirstPass:
        """Read the rows once."""
        file = self.files[0]
        if not file.names:
            raise ValueError("its columns hold lists or other nested values only; spread them")
        present = [name for name in names if name in file.names]
        sample, columns = self._read(present)
        n_rows = sum(file.n_rows or 0 for file in self.files)
        numbers, rows = sample.rows()
        notes = [*file.notes]
        frame = checked_names(file.frame(rows), notes).set_axis(numbers, axis=0)
        index = pd.RangeIndex(1, n_rows + 1)
        series = {
            name: file.series(columns.column(k)).set_axis(index) for k, name in enumerate(present)
        }

        def as_written(name: str) -> list[str] | None:
            return file.as_written(columns.column(present.index(name)))

        return FirstPass(n_rows, frame, series, as_written, notes)

    def _read(self, names: list[str]) -> tuple[ReservoirSample, Any]:
        """Draw the sample, load columns, and count the rows of files that do not say it."""
        sample = ReservoirSample(self._most_sampled)
        sample.add(self.files[0].empty)
        positions = [self.files[0].names.index(name) for name in names]
        columns = [self.files[0].empty.select(positions)]
        for file in self.files:
            before = sample.count
            for table in self._batches(file):
                sample.add(table)
                columns.append(table.select(positions))
            if file.n_rows is None:
                file.n_rows = sample.count - before
        return sample, concatenated(columns)

    def _batches(self, file: TableFile) -> Iterator[Any]:
        """Yield rows of a file; errors name the file if there are several."""
        try:
            yield from file.batches()
        except ValueError as error:
            if len(self.files) == 1:
                raise
            raise ValueError(f"{file.path.name}, {error}") from error

    def frames(self, first: FirstPass) -> Iterator[pd.DataFrame]:
        """Read the rows again, and check that no file has changed."""
        names, number = list(first.sample.columns), 1
        for file in self.files:
            count = 0
            for table in self._batches(file):
                frame = file.frame(table, first.sample).rename(columns=lambda k: str(k).strip())
                index = pd.RangeIndex(number, number + len(frame))
                yield frame[names].set_axis(index, axis=0)
                number, count = number + len(frame), count + len(frame)
            if count != file.n_rows:
                raise ValueError(
                    f"{file.path.name} had {file.n_rows:,} rows in the first pass and {count:,} in "
                    "the second; did it change?"
                )


def concatenated(tables: list[Any]) -> Any:
    """Concatenate tables of Arrow with the same columns."""
    import pyarrow

    return pyarrow.concat_tables(tables).unify_dictionaries()
