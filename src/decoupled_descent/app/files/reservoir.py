"""A random sample of the rows of a table whose number of rows is not known in advance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The rules for the columns are learnt from a random sample. This is its largest number of rows.
MOST_SAMPLED = 100_000
#: The sample of a wide table is smaller: about FIELDS fields, but at least FEWEST_SAMPLED rows.
FIELDS, FEWEST_SAMPLED = 1_000_000, 1_000


def sample_size(width: int) -> int:
    """Return the largest number of rows in the sample of a table with ``width`` columns."""
    return min(MOST_SAMPLED, max(FEWEST_SAMPLED, FIELDS // max(1, width)))


class ReservoirSample:
    """A random sample of rows that arrive as tables of Arrow. All rows are equally likely.

    Each row draws a random key, and the sample has the rows with the lowest keys. The key depends
    on the seed and on the row's number only. So the sample does not depend on how the rows are
    divided into batches.

    Args:
        most: The largest number of rows in the sample.
        seed: The seed of the keys.

    Example:
        >>> import pyarrow as pa
        >>> sample = ReservoirSample(2)
        >>> sample.add(pa.table({"a": [1, 2]}))
        >>> sample.add(pa.table({"a": [3, 4, 5]}))
        >>> sample.count, len(sample.rows()[1])
        (5, 2)
    """

    def __init__(self, most: int, seed: int = 0) -> None:
        self.most, self.count = most, 0
        bits = np.random.PCG64(seed)
        self._generator, self._largest_key, self._stored = np.random.Generator(bits), 1.0, 0
        self._tables: list[Any] = []  # rows, with their keys and numbers in the last two columns

    def add(self, table: Any) -> None:
        """Add the next rows of the table."""
        import pyarrow

        keys = self._generator.random(len(table))
        chosen = keys < self._largest_key
        rows = table.filter(pyarrow.array(chosen))
        numbers = self.count + 1 + np.flatnonzero(chosen)
        rows = rows.append_column("key", pyarrow.array(keys[chosen]))
        self._tables.append(rows.append_column("number", pyarrow.array(numbers, pyarrow.int64())))
        self.count += len(table)
        self._stored += len(rows)
        if self._stored > 1.25 * self.most:
            self._keyed_rows()

    def _keyed_rows(self) -> Any:
        """Return the sample as a table of Arrow, with keys and row numbers in the last columns."""
        import pyarrow

        table = pyarrow.concat_tables(self._tables).unify_dictionaries()
        if len(table) >= self.most:
            keys = table.column(table.num_columns - 2).to_numpy()
            self._largest_key = float(np.partition(keys, self.most - 1)[self.most - 1])
            table = table.filter(pyarrow.array(keys <= self._largest_key))
        self._tables, self._stored = [table], len(table)
        return table

    def rows(self) -> tuple[NDArray[np.int64], Any]:
        """Return the numbers of the sampled rows, from 1, in order, and the rows themselves."""
        table = self._keyed_rows()
        numbers = table.column(table.num_columns - 1).to_numpy()
        return numbers, table.select(range(table.num_columns - 2))
