"""Read large text files in pieces; several processes read the rows of one file together."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import pandas as pd
from pandas.api import types

from decoupled_descent.app.tables import pieces
from decoupled_descent.app.tables.limits import check_size, most_bytes
from decoupled_descent.app.tables.pieces import Drawn, Pieces, Scan, sampled_rows
from decoupled_descent.app.tables.reading import named
from decoupled_descent.app.tables.shares import Cut, Share, Window, cut, lines_from
from decoupled_descent.app.tables.text import HEAD, MISSING, decodes, recognise, records
from decoupled_descent.app.tables.values import is_number

#: Damaged .gz files raise one of these. Which one depends on where the damage is.
DAMAGED = (OSError, EOFError, ValueError, zlib.error)

#: The bytes that are read from the file at a time.
BUFFER = 2**20


class Parsed(NamedTuple):
    """What the first pass of a process found in its rows.

    Attributes:
        rows: The number of rows.
        drawn: The sample of them, as of :meth:`Drawn.cut`. Fields are joined by zero bytes.
        texts: Columns by name, in blocks of rows, as they are written.
    """

    rows: int
    drawn: list[tuple[float, int, str]]
    texts: dict[str, list[pd.Series]]

    def sent(self) -> list[Any]:
        """Return it as lists, numbers and texts; fields have no zero bytes."""
        texts = {
            k: [[len(one), "\0".join(one)] for one in found] for k, found in self.texts.items()
        }
        return [self.rows, self.drawn, texts]

    @classmethod
    def received(cls, found: list[Any]) -> Parsed:
        """Undo :meth:`sent`."""
        texts = {
            name: [pd.Series(joined.split("\0"), dtype="str") for _, joined in blocks]
            for name, blocks in found[2].items()
        }
        return cls(found[0], found[1], texts)


class TextPieces(Pieces):
    """A text file, with or without gzip.

    Each process has the rows that begin in its part of the bytes. If quotation marks do not tell
    where rows begin, or if there are few rows, each reads all rows and uses its own.
    """

    def __init__(self, path: Path, packed: bool, share: Share, usual: str = "") -> None:
        self.path, self._packed, self.size, self.share = path, packed, 0, share
        size = path.stat().st_size
        for block in self._blocks(0) if packed else ():
            self.size += len(block)
            check_size(self.size, most_bytes(size, whole=False))
        self.size = self.size or size
        with self._open(0) as stream:
            head = stream.read(HEAD)
        share.same(self.size, head)
        start, stop = lines_from(self._open, self.size, share)

        def decoded(encoding: str) -> bool:
            return all(share.together(lambda: decodes(self._blocks(start, stop), encoding, start)))

        self._written = recognise(head, decoded, usual)
        self.single = len(self._written.names) == 1
        self._cut = self._divided(start, stop)

    def _divided(self, start: int, stop: int) -> Cut | None:
        """The rows of this process, or None if it has to read all of them."""
        written = self._written
        if self.share.size == 1:
            return None
        with self._open(written.skipped) as stream:
            mark = 3 if stream.read(3) == b"\xef\xbb\xbf" else 0
        names = written.skipped + mark
        return cut(self._open, (max(start, names), stop), written.separator, self.share)

    def _open(self, start: int = 0, stop: int | None = None) -> BinaryIO:
        """Open the file, unpacked, from one byte to before another."""
        stream = gzip.open(self.path) if self._packed else self.path.open("rb")  # noqa: SIM115
        stop = 2**62 if stop is None else stop
        return io.BufferedReader(Window(cast(BinaryIO, stream), start, stop), BUFFER)

    def _blocks(self, start: int, stop: int | None = None) -> Iterator[bytes]:
        with self._open(start, stop) as stream:
            try:
                while block := stream.read(pieces.PIECE):
                    yield block
            except DAMAGED as error:
                raise ValueError(
                    f"the file is damaged or unreadable ({error}); save it again"
                ) from error

    @property
    def _names(self) -> list[str]:
        return [name.strip() for name in self._written.names]

    def _rows(self) -> tuple[BinaryIO, str, bool]:
        """The rows of this process: a stream, its encoding, and whether the names come first."""
        written, own = self._written, self._cut
        if own is None or not self.share.rank:
            stop = None if own is None else own.stop
            return self._open(written.skipped, stop), written.encoding, True
        encoding = written.encoding.removesuffix("-sig")  # a mark is only at the start of a file
        return self._open(own.start, own.stop), encoding, False

    def scan(self, kept: Sequence[str] = ()) -> Scan:
        """Read the rows of this process once, and join what all processes found."""
        own, share = self._cut, self.share
        if own is None:
            parts = [self._parsed(kept, 0)]
        else:
            before = max(0, own.before - 1)
            found = share.together(lambda: self._parsed(kept, before).sent())
            parts = [Parsed.received(one) for one in found]
        ends = list(itertools.accumulate(part.rows for part in parts))
        mine = share.span(ends[0])
        if own is not None:
            mine = slice(ends[share.rank] - parts[share.rank].rows, ends[share.rank])
            if mine.start != before:
                raise ValueError("its rows cannot be counted; is a quotation mark left open?")
        drawn = Drawn(sampled_rows(len(self._names)))
        drawn.join(part.drawn for part in parts)
        return self._joined(parts, drawn, ends[-1], mine)

    def _joined(self, parts: list[Parsed], drawn: Drawn, rows: int, mine: slice) -> Scan:
        chosen = drawn.items()
        sample = self._typed((joined.split("\0") for _, joined in chosen), self._written.names)
        notes = list(self._written.notes)
        frame = named(sample, notes).set_axis([number for number, _ in chosen], axis=0)
        index = pd.RangeIndex(1, rows + 1)
        raw = {
            name: pd.concat([one for part in parts for one in part.texts[name]]).set_axis(index)
            for name in parts[0].texts
        }
        whole = {name: self._column(one) for name, one in raw.items()}
        return Scan(rows, mine, frame, whole, lambda name: raw[name].str.strip().tolist(), notes)

    def _parsed(self, kept: Sequence[str], before: int) -> Parsed:
        """Read rows, of which ``before`` come earlier in the file."""
        names = self._names
        places = {name: names.index(name) for name in kept if name in names}
        drawn = Drawn(sampled_rows(len(names)), before=before)
        texts: dict[str, list[pd.Series]] = {name: [] for name in places}
        stream, encoding, with_names = self._rows()
        found = records(stream, encoding, self._written.separator, self._lines_before)
        if with_names:
            next(found)
        while block := list(itertools.islice(found, pieces.TOGETHER)):
            for line, record in block:
                if len(record) != len(names):
                    raise self._written.wrong_width(line + self._lines_before(), len(record))
            drawn.offer(block, lambda one: "\0".join(one[1]))  # decodes() refuses zero bytes
            for name, place in places.items():
                column = [record[place] for _, record in block]
                texts[name].append(pd.Series(column, dtype="str"))
        return Parsed(drawn.count - before, drawn.cut(), texts)

    def _lines_before(self) -> int:
        """The number of lines before the rows of this process, for errors."""
        if self._cut is None or not self.share.rank:
            return self._written.above
        with io.TextIOWrapper(self._open(0, self._cut.start), "latin-1", newline="") as text:
            return sum(1 for _ in text)

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
        frame.attrs["decimal"] = written.decimal
        return cast(pd.DataFrame, frame)

    def _column(self, texts: pd.Series) -> pd.Series:
        """Convert a column of strings to the type that it has when it is read as a whole."""
        size = 10 * pieces.TOGETHER
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
        names = self._names
        places = [names.index(name) for name in scan.sample.columns]
        text = [k for k in places if not is_number(scan.sample[names[k]].dtype)]
        rows = max(1, round(scan.rows * pieces.PIECE / self.size))

        def read() -> Iterator[pd.DataFrame]:
            stream, encoding, with_names = self._rows()
            options = {"usecols": places, "dtype": dict.fromkeys(text, str), "chunksize": rows}
            options |= {"encoding": encoding, "header": 0 if with_names else None}
            with stream:
                try:
                    with self._written.read(stream, **options) as reader:
                        for frame in reader:
                            yield frame.set_axis([names[k] for k in frame.columns], axis=1)
                except pd.errors.ParserError as error:
                    raise ValueError(f"{error}; is a quotation mark left open?") from error

        return self.checked(read(), scan, slice(0, scan.rows) if self._cut is None else scan.own)

    def read_only(self, own: slice, scan: Scan) -> Scan:
        """Read all rows, and yield these."""
        self._cut = None
        return scan._replace(own=own)
