"""What a file may unpack to. Everything is checked before memory is taken.

A small file can be made to unpack to any size. The content of a packed file may have ``SMALL``
bytes, or ``DENSE`` times those of the file. If it is read as a whole, ``MOST_BYTES`` is a further
limit.
"""

from __future__ import annotations

from importlib.util import find_spec

MOST_BYTES = 2_000_000_000
DENSE, SMALL = 100, 100_000_000
MOST_COLUMNS = 100_000
#: Tables with more bytes than this, unpacked, are read in pieces. Training on a table that is read
#: as a whole takes up to fifteen times its size in memory.
LARGE = 250_000_000
#: The bytes of a batch of rows, unpacked. pyarrow reads 32 batches of a text file in advance: with
#: batches of 16 MB, the peak of memory is 600 MB higher.
BATCH_BYTES = 2 * 2**20


def need_pyarrow(what: str) -> None:
    """Raise ``OSError`` if pyarrow is not installed; ``what`` cannot be read without it."""
    if find_spec("pyarrow") is None:
        raise OSError(f"{what} needs pyarrow: pip install 'decoupled-descent[tables]'")


def most_bytes(size: int, in_memory: bool = True) -> int:
    """Return how many bytes a packed file of this size may unpack to.

    Example:
        >>> most_bytes(1_000), most_bytes(10**8), most_bytes(10**8, in_memory=False)
        (100000000, 2000000000, 10000000000)
    """
    most = max(SMALL, DENSE * size)
    return min(MOST_BYTES, most) if in_memory else most


def check_size(size: int, most: int) -> None:
    """Raise ``ValueError`` if a file unpacks to too many bytes."""
    if size > most:
        raise ValueError(
            f"it unpacks to more than {most / 1e6:,.0f} MB, the limit for a file of this size; "
            "train on a part of the rows, or save it unpacked"
        )


def check_width(width: int) -> None:
    """Raise ``ValueError`` if a table has too many columns."""
    if width > MOST_COLUMNS:
        raise ValueError(
            f"it has {width:,} columns; the limit is {MOST_COLUMNS:,}; keep the columns that you "
            "need, or transpose the table if rows and columns were exchanged"
        )
