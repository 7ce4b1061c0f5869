"""Read large tables in pieces.

There are two passes over the file. The first pass counts and checks the rows, draws a random sample
of them, and keeps some columns in memory. The second pass yields the rows in pieces, as data frames
with the types of the sample. Several processes can read a table together: each has rows of its own,
and what the first pass finds is that of all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.app.tables.shares import Share
from decoupled_descent.app.tables.text import Notes

#: Tables with more bytes than this, unpacked, are read in pieces. Training on a table that is read
#: as a whole takes up to fifteen times its size in memory.
LARGE = 250_000_000
#: The rules for the columns are learnt from a random sample with at most so many rows.
MOST_SAMPLED = 100_000
#: The sample of a wide table is smaller: about FIELDS fields, but at least FEWEST_SAMPLED rows.
FIELDS, FEWEST_SAMPLED = 1_000_000, 1_000
#: The bytes of a piece, unpacked.
PIECE = 16 * 2**20
#: The number of text rows that are checked at once.
TOGETHER = 10_000


class Scan(NamedTuple):
    """The result of the first pass over a table. Rows are numbered from 1, in the index."""

    rows: int  # the number of rows
    own: slice  # those that the second pass yields in this process, counted from 0
    sample: pd.DataFrame  # rows drawn at random, in the order of the file
    kept: dict[str, pd.Series]  # whole columns by name
    texts: Callable[[str], list[str] | None]  # one of them as it is written, for text files
    notes: Notes  # sentences for the user about the file


class Pieces(ABC):
    """A table in a file that is read in pieces."""

    path: Path
    size: int  # the number of its bytes, unpacked
    share: Share  # which of the processes this is that read the table together
    whole = False  # whether all rows are in memory

    @abstractmethod
    def scan(self, kept: Sequence[str] = ()) -> Scan:
        """Make the first pass. Keep the columns with these names, as far as they exist."""

    @abstractmethod
    def frames(self, scan: Scan) -> Iterator[pd.DataFrame]:
        """Make the second pass: yield this process's rows in order, in pieces, with numbers."""

    @abstractmethod
    def read_only(self, own: slice, scan: Scan) -> Scan:
        """Have the second pass yield these rows in this process."""

    def labelled(self, scan: Scan, known: NDArray[np.bool_]) -> Scan:
        """Divide anew, if a process has no row with a label; ``known`` says which rows have one."""
        if min(self.share.together(lambda: int(known[scan.own].sum()))) > 0:
            return scan
        places = np.flatnonzero(known)
        mine = places[self.share.span(len(places))]
        if len(places) < self.share.size:
            raise ValueError(
                f"{len(places)} rows with a label are too few for {self.share.size} processes"
            )
        return self.read_only(slice(int(mine[0]), int(mine[-1]) + 1), scan)

    def checked(
        self, frames: Iterator[pd.DataFrame], scan: Scan, read: slice
    ) -> Iterator[pd.DataFrame]:
        """Number the rows and drop columns that the sample does not have; check the row count.

        Args:
            frames: The rows that are read, in order.
            scan: What the first pass found.
            read: Which rows these should be, counted from 0. They include those of this process.
        """
        start, own = read.start, scan.own
        for frame in frames:
            stop = start + len(frame)
            found = frame[list(scan.sample.columns)].set_axis(
                pd.RangeIndex(start + 1, stop + 1), axis=0
            )
            yield found.iloc[max(0, own.start - start) : max(0, own.stop - start)]
            start = stop
        if start != read.stop:
            raise ValueError(
                f"it had {read.stop - read.start:,} rows in the first pass and "
                f"{start - read.start:,} in the second; is a quotation mark left open, or did the "
                "file change?"
            )


class Drawn:
    """A random sample of at most ``most`` items of a stream. All items are equally likely.

    Args:
        most: The largest size of the sample.
        seed: The seed of the generator.
        before: The number of items of the stream that others are offered first. With it, samples
            of the parts of a stream can be joined to the sample of the whole.

    Example:
        >>> drawn = Drawn(2)
        >>> drawn.offer(["a", "b"])
        >>> drawn.offer(["c", "d", "e"])
        >>> drawn.count, len(drawn.items())
        (5, 2)
    """

    def __init__(self, most: int, seed: int = 0, before: int = 0) -> None:
        self.most, self.count = most, before
        generator = np.random.PCG64(seed)
        generator.advance(before)
        self._rng, self._bound = np.random.Generator(generator), 1.0
        self._found: list[tuple[float, int, Any]] = []

    def offer(self, items: Sequence[Any], kept: Callable[[Any], Any] = lambda one: one) -> None:
        """Add the next items of the stream; ``kept(item)`` is what the sample stores of an item."""
        keys = self._rng.random(len(items))  # the sample has the items with the lowest keys
        self._found += [
            (float(keys[k]), self.count + k + 1, kept(items[k]))
            for k in np.flatnonzero(keys < self._bound).tolist()
        ]
        self.count += len(items)
        if len(self._found) > 1.25 * self.most:
            self.cut()

    def cut(self) -> list[tuple[float, int, Any]]:
        """Return the sample: keys, numbers from 1, and items, by their keys."""
        self._found = sorted(self._found, key=lambda one: one[:2])[: self.most]
        if len(self._found) == self.most:
            self._bound = self._found[-1][0]
        return self._found

    def join(self, others: Iterable[Iterable[Any]]) -> None:
        """Add the samples of other parts of the stream, as of :meth:`cut`."""
        self._found += [(key, number, item) for one in others for key, number, item in one]

    def items(self) -> list[tuple[int, Any]]:
        """Return the sample in order, as pairs of an item's number, from 1, and the item."""
        return sorted(((number, item) for _, number, item in self.cut()), key=lambda one: one[0])


def sampled_rows(width: int) -> int:
    """Return the size of the sample for a table with ``width`` columns."""
    return min(MOST_SAMPLED, max(FEWEST_SAMPLED, FIELDS // max(1, width)))
