"""Open tables that are too large to be read as a whole."""

from __future__ import annotations

import gzip
from pathlib import Path

from decoupled_descent.tables import pieces
from decoupled_descent.tables.parquet import Parquet
from decoupled_descent.tables.parquet_pieces import ParquetPieces
from decoupled_descent.tables.pieces import Pieces
from decoupled_descent.tables.reading import READERS, kind_of_file
from decoupled_descent.tables.shares import Share
from decoupled_descent.tables.text import read_text
from decoupled_descent.tables.text_pieces import DAMAGED, TextPieces

#: A .gz file unpacks to at most so many times its size.
DENSEST = 1032


def _is_large(path: Path, packed: bool, most: int) -> bool:
    """Whether a text file has more than ``most`` bytes, unpacked; False if it is damaged."""
    size = path.stat().st_size
    if not packed or size * DENSEST <= most:
        return not packed and size > most
    count = 0
    try:
        with gzip.open(path) as stream:
            while (block := stream.read(pieces.PIECE)) and count <= most:
                count += len(block)
    except DAMAGED:  # reported when the file is read
        return False
    return count > most


def pieces_of(path: str | Path, share: Share | None = None, usual: str = "") -> Pieces | None:
    """Open a table that has to be read in pieces; return None if it is read as a whole.

    Tables of at most ``LARGE`` bytes, text files with one column, and other kinds of files are read
    as a whole. Several processes read smaller tables in pieces, too, each its own.

    Args:
        path: The file.
        share: Which of several processes this is.
        usual: The decimal mark of a text file that does not show it.

    Raises ``ValueError`` or ``OSError`` that names the file.
    """
    path, most = Path(path), pieces.LARGE if share is None else 0
    suffix, packed = kind_of_file(path)
    text = READERS.get(suffix) is read_text
    if not path.is_file() or not (text or suffix == ".parquet") or (packed and not text):
        return None
    try:
        if not text:
            file = Parquet(path, path.stat().st_size)
            return ParquetPieces(path, file, share or Share()) if file.size > most else None
        if not _is_large(path, packed, most):
            return None
        found = TextPieces(path, packed, share or Share(), usual)
        return None if found.single else found
    except (ValueError, OSError) as error:
        kind_of_error = ValueError if isinstance(error, ValueError) else OSError
        raise kind_of_error(f"{path}: {' '.join(str(error).split())}") from error
