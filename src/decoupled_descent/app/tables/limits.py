"""What a file may unpack to. Everything is checked before memory is taken.

A small file can be made to unpack to any size. The content of a packed file may have ``SMALL``
bytes, or ``DENSE`` times those of the file; of a file that is read as a whole at most
``MOST_BYTES``.
"""

from __future__ import annotations

MOST_BYTES = 2_000_000_000
DENSE, SMALL = 100, 100_000_000
MOST_COLUMNS = 100_000


def most_bytes(size: int, whole: bool = True) -> int:
    """Return how many bytes a packed file of this size may unpack to.

    Example:
        >>> most_bytes(1_000), most_bytes(10**8), most_bytes(10**8, whole=False)
        (100000000, 2000000000, 10000000000)
    """
    most = max(SMALL, DENSE * size)
    return min(MOST_BYTES, most) if whole else most


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
