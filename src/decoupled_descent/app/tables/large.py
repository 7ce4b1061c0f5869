"""Open tables: small ones are read as a whole, large ones in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from decoupled_descent.app.tables import pieces
from decoupled_descent.app.tables.parquet import Parquet
from decoupled_descent.app.tables.parquet_pieces import ParquetPieces
from decoupled_descent.app.tables.pieces import Pieces, Scan
from decoupled_descent.app.tables.reading import (
    READERS,
    as_written,
    blocks_of,
    kind_of_file,
    naming,
    read_table,
)
from decoupled_descent.app.tables.shares import Share
from decoupled_descent.app.tables.text import read_text
from decoupled_descent.app.tables.text_pieces import TextPieces

#: A .gz file unpacks to at most so many times its size.
DENSEST = 1032


class Whole(Pieces):
    """A table in memory: all rows are the sample, and they are the only piece."""

    whole = True

    def __init__(self, path: Path, usual: str) -> None:
        self.path, self.share, self._frame = path, Share(), read_table(path, usual)
        self.size = path.stat().st_size

    def scan(self, kept: Sequence[str] = ()) -> Scan:
        """Return the table itself."""
        frame, rows = self._frame, len(self._frame)
        whole = {name: frame[name] for name in kept if name in frame.columns}
        texts = partial(as_written, self.path)
        return Scan(rows, slice(0, rows), frame, whole, texts, frame.attrs["notes"])

    def frames(self, scan: Scan) -> Iterator[pd.DataFrame]:
        """Yield the table."""
        yield scan.sample

    def read_only(self, own: slice, scan: Scan) -> Scan:
        """Return the same result: there is only one process."""
        return scan


def pieces_of(path: Path, share: Share | None = None, usual: str = "") -> Pieces:
    """Open a table.

    Tables of at most ``LARGE`` bytes, text files with one column, and other kinds of files are read
    as a whole. Several processes read smaller tables in pieces, too, each its own.

    Args:
        path: The file.
        share: Which of several processes this is.
        usual: The decimal mark of a text file that does not show it.

    Raises ``ValueError`` or ``OSError`` that names the file.
    """
    most = pieces.LARGE if share is None else 0
    return _large(path, share or Share(), usual, most) or Whole(path, usual)


def _large(path: Path, share: Share, usual: str, most: int) -> Pieces | None:
    """Open a file that has to be read in pieces; return None if it is read as a whole."""
    suffix, packed = kind_of_file(path)
    text = READERS.get(suffix) is read_text
    if not path.is_file() or not (text or suffix == ".parquet") or (packed and not text):
        return None
    with naming(path):
        if not text:
            file = Parquet(path, path.stat().st_size)
            return ParquetPieces(path, file, share) if file.size > most else None
        if not _is_large(path, packed, most):
            return None
        found = TextPieces(path, packed, share, usual)
        return None if found.single else found


def _is_large(path: Path, packed: bool, most: int) -> bool:
    """Whether a text file has more than ``most`` bytes, unpacked."""
    size = path.stat().st_size
    if not packed or size * DENSEST <= most:
        return not packed and size > most
    return sum(map(len, blocks_of(path, whole=False))) > most
