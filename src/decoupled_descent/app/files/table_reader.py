"""Read tables that do not fit into memory, in batches of rows and in several processes.

There are two passes over the files. The first pass counts and checks the rows, draws a random
sample of them, and loads a few complete columns, such as the target. The second pass yields the
rows of this process in order, in batches, as data frames with the types of the sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.app.files.parquet import ParquetFile
from decoupled_descent.app.files.process_group import ProcessGroup
from decoupled_descent.app.files.reading import checked_names
from decoupled_descent.app.files.reservoir import ReservoirSample, sample_size
from decoupled_descent.app.files.text import Notes
from decoupled_descent.app.files.text_file import TextFile

TableFile = TextFile | ParquetFile


class FirstPass(NamedTuple):
    """The result of the first pass over a table. Rows are numbered from 1, in the index."""

    n_rows: int  # the number of rows
    row_range: slice  # the rows that the second pass yields in this process, counted from 0
    sample: pd.DataFrame  # a random sample of the rows, in the order of the table
    columns: dict[str, pd.Series]  # complete columns by name
    as_written: Callable[[str], list[str] | None]  # the texts of such a column in a text file
    notes: Notes  # sentences for the user about the files


class TableReader(ABC):
    """A table in one or several files.

    Attributes:
        size: The number of bytes, unpacked.
        group: The processes that read the table.
        in_memory: Whether all rows are in memory.
    """

    size: int
    group: ProcessGroup
    in_memory: bool

    @abstractmethod
    def first_pass(self, names: Sequence[str] = ()) -> FirstPass:
        """Make the first pass, and load the complete columns with these names, if they exist."""

    @abstractmethod
    def frames(self, first: FirstPass) -> Iterator[pd.DataFrame]:
        """Make the second pass: yield the rows of this process in order, with their numbers."""

    def rebalance(self, first: FirstPass, labelled: NDArray[np.bool_]) -> FirstPass:
        """Divide the rows anew if a process has no row with a label.

        Args:
            first: The result of the first pass.
            labelled: Whether each row of the table has a label.
        """
        if min(self.group.all_gather(lambda: int(labelled[first.row_range].sum()))) > 0:
            return first
        rows = np.flatnonzero(labelled)
        if len(rows) < self.group.size:
            raise ValueError(
                f"{len(rows)} rows with a label are too few for {self.group.size} processes"
            )
        rows = rows[self.group.row_range(len(rows))]
        return first._replace(row_range=slice(int(rows[0]), int(rows[-1]) + 1))


class BatchReader(TableReader):
    """A table that is read in batches: the rows of one or several files of the same kind.

    The decimal mark, and the sentences about the format, are those of the first file.

    Args:
        files: The files, which have the same columns.
        group: The processes that read them.
        most_sampled: The largest number of rows in the sample, if not that of :func:`sample_size`.
    """

    in_memory = False

    def __init__(
        self, files: Sequence[TableFile], group: ProcessGroup, most_sampled: int | None = None
    ) -> None:
        self.files, self.group = files, group
        self.size = sum(file.size for file in files)
        self._most_sampled = most_sampled or sample_size(len(files[0].names))

    def first_pass(self, names: Sequence[str] = ()) -> FirstPass:
        """Read the rows once. An error of one process is raised in all."""
        file = self.files[0]
        if not file.names:
            raise ValueError("its columns hold lists or other nested values only; spread them")
        present = [name for name in names if name in file.names]
        results: list[tuple[ReservoirSample, Any]] = []
        self.group.all_gather(lambda: results.append(self._read(present)))
        sample, columns = results[0]
        if isinstance(file, ParquetFile):  # each process has read its row range only
            sample.merge(all_gather_tables(self.group, sample.keyed_rows()))
            columns = concatenated(all_gather_tables(self.group, columns))
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

        return FirstPass(n_rows, self.group.row_range(n_rows), frame, series, as_written, notes)

    def _read(self, names: list[str]) -> tuple[ReservoirSample, Any]:
        """Draw the sample and load columns, of all rows or, if they are counted, of a range."""
        counts = [file.n_rows for file in self.files if file.n_rows is not None]
        counted = isinstance(self.files[0], ParquetFile)
        rows = self.group.row_range(sum(counts)) if counted else slice(0, None)
        sample = ReservoirSample(self._most_sampled, start=rows.start)
        sample.add(self.files[0].empty)
        positions = [self.files[0].names.index(name) for name in names]
        columns = [self.files[0].empty.select(positions)]
        for file, part in self._parts(rows):
            before = sample.count
            for table in self._batches(file, part):
                sample.add(table)
                columns.append(table.select(positions))
            if not counted:
                file.n_rows = sample.count - before
        return sample, concatenated(columns)

    def _parts(self, rows: slice) -> Iterator[tuple[TableFile, slice]]:
        """Yield the files with rows in a range, and the range in each file; None is its end."""
        start, stop = rows.start, rows.stop
        for file in self.files:
            n = file.n_rows
            if stop is None:
                yield file, slice(0, None)
            elif n is not None:
                if start < n and stop > 0:
                    yield file, slice(max(0, start), None if stop >= n else stop)
                start, stop = start - n, stop - n

    def _batches(self, file: TableFile, rows: slice) -> Iterator[Any]:
        """Yield rows of a file; errors name the file if there are several."""
        try:
            yield from file.batches(rows.start, rows.stop)
        except ValueError as error:
            if len(self.files) == 1:
                raise
            raise ValueError(f"{file.path.name}, {error}") from error

    def frames(self, first: FirstPass) -> Iterator[pd.DataFrame]:
        """Read the rows of this process again, and check that no file has changed."""
        names = list(first.sample.columns)
        number = first.row_range.start + 1
        for file, part in self._parts(first.row_range):
            count = 0
            for table in self._batches(file, part):
                frame = file.frame(table, first.sample).rename(columns=lambda k: str(k).strip())
                index = pd.RangeIndex(number, number + len(frame))
                yield frame[names].set_axis(index, axis=0)
                number, count = number + len(frame), count + len(frame)
            expected = (file.n_rows or 0 if part.stop is None else part.stop) - part.start
            if count != expected:
                raise ValueError(
                    f"{file.path.name} had {expected:,} rows in the first pass and {count:,} in "
                    "the second; did it change?"
                )


def concatenated(tables: list[Any]) -> Any:
    """Concatenate tables of Arrow with the same columns."""
    import pyarrow

    return pyarrow.concat_tables(tables).unify_dictionaries()


def all_gather_tables(group: ProcessGroup, table: Any) -> list[Any]:
    """Return the table of Arrow that each process passes, by rank."""
    from pyarrow import BufferOutputStream, ipc

    if group.size == 1:
        return [table]

    def serialised() -> bytes:
        sink = BufferOutputStream()
        with ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return bytes(sink.getvalue())

    return [ipc.open_stream(one).read_all() for one in group.all_gather_results(serialised)]
