"""Read large tables in pieces.

There are two passes over the file. The first pass counts and checks the rows, draws a random sample
of them, and keeps some columns in memory. The second pass yields all rows in pieces, as data frames
with the types of the sample.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import pandas as pd
from pandas.api import types

from decoupled_descent.tables.limits import check_size, most_bytes
from decoupled_descent.tables.parquet import Parquet
from decoupled_descent.tables.reading import READERS, kind_of_file, named
from decoupled_descent.tables.text import HEAD, MISSING, Notes, read_text, recognise, records
from decoupled_descent.tables.values import is_number, plain

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
#: A .gz file unpacks to at most so many times its size.
DENSEST = 1032
#: Damaged .gz files raise one of these. Which one depends on where the damage is.
DAMAGED = (OSError, EOFError, ValueError, zlib.error)


class Scan(NamedTuple):
    """The result of the first pass over a table. Rows are numbered from 1.

    Attributes:
        rows: The number of rows.
        sample: Rows drawn at random, in the order of the file; the index has their numbers.
        kept: Whole columns by name; the index has the numbers of the rows.
        texts: The same columns as they are written, for text files.
        notes: Sentences for the user about the file.
    """

    rows: int
    sample: pd.DataFrame
    kept: dict[str, pd.Series]
    texts: dict[str, pd.Series]
    notes: Notes


class Pieces(ABC):
    """A table in a file that is read in pieces.

    Attributes:
        path: The file.
        size: The number of its bytes, unpacked.
    """

    path: Path
    size: int

    @abstractmethod
    def scan(self, kept: Sequence[str] = ()) -> Scan:
        """Make the first pass. Keep the columns with these names, as far as they exist."""

    @abstractmethod
    def frames(self, scan: Scan) -> Iterator[pd.DataFrame]:
        """Make the second pass: yield all rows in order, in pieces, numbered from 1."""

    def checked(self, frames: Iterator[pd.DataFrame], scan: Scan) -> Iterator[pd.DataFrame]:
        """Number the rows and drop columns that the sample does not have; check the row count."""
        start = 0
        for frame in frames:
            stop = start + len(frame)
            yield frame[list(scan.sample.columns)].set_axis(
                pd.RangeIndex(start + 1, stop + 1), axis=0
            )
            start = stop
        if start != scan.rows:
            raise ValueError(
                f"it had {scan.rows:,} rows in the first pass and {start:,} in the second; is a "
                "quotation mark left open, or did the file change?"
            )


class Drawn:
    """A random sample of at most ``most`` items of a stream. All items are equally likely.

    Example:
        >>> drawn = Drawn(2)
        >>> drawn.offer(["a", "b"])
        >>> drawn.offer(["c", "d", "e"])
        >>> drawn.count, len(drawn.items())
        (5, 2)
    """

    def __init__(self, most: int, seed: int = 0) -> None:
        self.most, self.count = most, 0
        self._rng, self._bound = np.random.default_rng(seed), 1.0
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
            self._cut()

    def _cut(self) -> None:
        self._found = sorted(self._found, key=lambda one: one[:2])[: self.most]
        if len(self._found) == self.most:
            self._bound = self._found[-1][0]

    def items(self) -> list[tuple[int, Any]]:
        """Return the sample in order, as pairs of an item's number, from 1, and the item."""
        self._cut()
        return sorted(((number, item) for _, number, item in self._found), key=lambda one: one[0])


def sampled_rows(width: int) -> int:
    """Return the size of the sample for a table with ``width`` columns."""
    return min(MOST_SAMPLED, max(FEWEST_SAMPLED, FIELDS // max(1, width)))


class TextPieces(Pieces):
    """A text file, with or without gzip."""

    def __init__(self, path: Path, packed: bool) -> None:
        self.path, self._packed, self.size = path, packed, 0
        size = path.stat().st_size
        for block in self._blocks() if packed else ():
            self.size += len(block)
            check_size(self.size, most_bytes(size, whole=False))
        self.size = self.size or size
        with self._open() as stream:
            head = stream.read(HEAD)
        self._written = recognise(head, self._blocks)
        self.single = len(self._written.names) == 1

    def _open(self) -> BinaryIO:
        return cast(BinaryIO, gzip.open(self.path) if self._packed else self.path.open("rb"))

    def _blocks(self) -> Iterator[bytes]:
        with self._open() as stream:
            try:
                while block := stream.read(PIECE):
                    yield block
            except DAMAGED as error:
                raise ValueError(
                    f"the file is damaged or unreadable ({error}); save it again"
                ) from error

    def scan(self, kept: Sequence[str] = ()) -> Scan:
        """Read all rows once."""
        written = self._written
        names = [name.strip() for name in written.names]
        places = {name: names.index(name) for name in kept if name in names}
        drawn = Drawn(sampled_rows(len(names)))  # fields have no zero bytes: recognise() checks it
        texts: dict[str, list[pd.Series]] = {name: [] for name in places}
        with self._open() as stream:
            stream.read(written.skipped)
            found = records(stream, written.encoding, written.separator)
            next(found)
            while block := list(itertools.islice(found, TOGETHER)):
                for line, record in block:
                    if len(record) != len(names):
                        raise written.wrong_width(line, len(record))
                drawn.offer(block, lambda one: "\0".join(one[1]))
                for name, place in places.items():
                    column = [record[place] for _, record in block]
                    texts[name].append(pd.Series(column, dtype="str"))
        chosen = drawn.items()
        sample = self._typed((joined.split("\0") for _, joined in chosen), written.names)
        notes = list(written.notes)
        frame = named(sample, notes).set_axis([number for number, _ in chosen], axis=0)
        index = pd.RangeIndex(1, drawn.count + 1)
        raw = {k: pd.concat(one).set_axis(index) for k, one in texts.items()}
        whole = {name: self._column(one) for name, one in raw.items()}
        return Scan(drawn.count, frame, whole, raw, notes)

    def _typed(self, rows: Iterable[list[str]], names: list[str]) -> pd.DataFrame:
        """Make a table from rows of strings, with the types that pandas finds in a file."""
        content = io.StringIO()
        options: dict[str, Any] = {"delimiter": self._written.separator, "lineterminator": "\n"}
        csv.writer(content, quoting=csv.QUOTE_ALL, **options).writerows(
            itertools.chain([names], rows)
        )
        content.seek(0)
        written = self._written._replace(names=names)
        frame = written.read(content, encoding=None, skip_blank_lines=False)
        frame.columns = names
        return cast(pd.DataFrame, frame)

    def _column(self, texts: pd.Series) -> pd.Series:
        """Convert a column of strings to the type that it has when it is read as a whole."""
        size = 10 * TOGETHER
        parts = [
            self._typed(([one] for one in texts.iloc[start : start + size]), ["one"])["one"]
            for start in range(0, len(texts), size)
        ]
        kinds = {"" if types.is_string_dtype(part.dtype) else part.dtype.kind for part in parts}
        if kinds <= set("iuf") or kinds == {"b"}:
            return pd.concat(parts).set_axis(texts.index)
        return texts.mask(texts.isin(MISSING))

    def frames(self, scan: Scan) -> Iterator[pd.DataFrame]:
        """Read pieces with pandas. Columns that are text in the sample stay text."""
        written = self._written
        names = [name.strip() for name in written.names]
        places = [names.index(name) for name in scan.sample.columns]
        text = [k for k in places if not is_number(scan.sample[names[k]].dtype)]
        rows = max(1, round(scan.rows * PIECE / self.size))

        def read() -> Iterator[pd.DataFrame]:
            with self._open() as stream:
                stream.read(written.skipped)
                try:
                    with written.read(
                        stream, usecols=places, dtype=dict.fromkeys(text, str), chunksize=rows
                    ) as reader:
                        for frame in reader:
                            yield frame.set_axis([names[k] for k in frame.columns], axis=1)
                except pd.errors.ParserError as error:
                    raise ValueError(f"{error}; is a quotation mark left open?") from error

        return self.checked(read(), scan)


class ParquetPieces(Pieces):
    """A parquet file."""

    def __init__(self, path: Path, file: Parquet) -> None:
        self.path, self._file, self.size = path, file, file.size
        check_size(self.size, most_bytes(path.stat().st_size, whole=False))

    def _batches(self) -> Iterator[Any]:
        return self._file.batches(max(1, round(self._file.rows * PIECE / self.size)))

    def scan(self, kept: Sequence[str] = ()) -> Scan:
        """Read all batches of rows once."""
        import pyarrow

        rows = self._file.rows
        drawn = Drawn(sampled_rows(self._file.width))
        for start in range(0, rows, MOST_SAMPLED):
            drawn.offer(range(start, min(start + MOST_SAMPLED, rows)))
        places = np.array([number - 1 for number, _ in drawn.items()], dtype=np.int64)
        taken, columns, start = [], {name: list[pd.Series]() for name in kept}, 0
        for batch in self._batches():
            inside = places[(places >= start) & (places < start + len(batch))] - start
            taken.append(batch.take(pyarrow.array(inside)))
            for name in kept:
                if name in batch.schema.names:
                    columns[name].append(_uncategorised(plain(batch.column(name).to_pandas())))
            start += len(batch)
        notes: Notes = []
        sample = self._file.frame(pyarrow.concat_tables(taken))
        frame = named(sample, notes).set_axis(places + 1, axis=0)
        index = pd.RangeIndex(1, rows + 1)
        whole = {name: pd.concat(one).set_axis(index) for name, one in columns.items() if one}
        return Scan(rows, frame, whole, {}, notes)

    def frames(self, scan: Scan) -> Iterator[pd.DataFrame]:
        """Yield batches of rows as data frames."""
        found = map(self._file.frame, self._batches())
        return self.checked((one.rename(columns=lambda k: str(k).strip()) for one in found), scan)


def _uncategorised(column: pd.Series) -> pd.Series:
    """Turn categories into plain values, since pieces may have different categories."""
    dtype = column.dtype
    return (
        column.astype(dtype.categories.dtype) if isinstance(dtype, pd.CategoricalDtype) else column
    )


def _is_large(path: Path, packed: bool, most: int) -> bool:
    """Whether a text file has more than ``most`` bytes, unpacked; False if it is damaged."""
    size = path.stat().st_size
    if not packed or size * DENSEST <= most:
        return not packed and size > most
    count = 0
    try:
        with gzip.open(path) as stream:
            while (block := stream.read(PIECE)) and count <= most:
                count += len(block)
    except DAMAGED:  # reported when the file is read
        return False
    return count > most


def pieces_of(path: str | Path, large: int | None = None) -> Pieces | None:
    """Open a table that has to be read in pieces; return None if it is read as a whole.

    Tables of at most ``large`` bytes (default ``LARGE``), text files with one column, and other
    kinds of files are read as a whole. Raises ``ValueError`` or ``OSError`` that names the file.
    """
    path, most = Path(path), LARGE if large is None else large
    suffix, packed = kind_of_file(path)
    kind = READERS.get(suffix)
    text = kind is read_text
    if not path.is_file() or not (text or suffix == ".parquet") or (packed and not text):
        return None
    try:
        if not text:
            file = Parquet(path, path.stat().st_size)
            return ParquetPieces(path, file) if file.size > most else None
        if not _is_large(path, packed, most):
            return None
        found = TextPieces(path, packed)
        return None if found.single else found
    except (ValueError, OSError) as error:
        kind_of_error = ValueError if isinstance(error, ValueError) else OSError
        raise kind_of_error(f"{path}: {' '.join(str(error).split())}") from error
