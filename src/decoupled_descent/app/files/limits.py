"""What a file may expand to. Everything is checked before memory is taken.

A small file can be made to expand to any size: by packing, by values that are stored once and used
often, by numbers of repetitions, by references to the last cell of a sheet. All readers have the
same limits. The content of a file may have ``SMALL`` bytes, or ``DENSE`` times those of the file,
and a table ``SMALL_CELLS`` cells, or ``CELLS_PER_BYTE`` times the bytes of the file. If it is read
as a whole, ``MOST_BYTES`` and ``MOST_CELLS`` are further limits.
"""

from __future__ import annotations

from importlib.util import find_spec

MOST_BYTES = 2_000_000_000
DENSE, SMALL = 100, 25_000_000
MOST_COLUMNS = 100_000
#: A cell takes about a hundred bytes while its value is an object of Python.
MOST_CELLS, SMALL_CELLS, CELLS_PER_BYTE = 10_000_000, 1_000_000, 100
#: Files in an archive, sheets of a spreadsheet.
MOST_PARTS = 10_000
#: Tables with more bytes than this, unpacked, are read in pieces. Training on a table that is read
#: as a whole takes up to fifteen times its size in memory.
LARGE = 250_000_000
#: The bytes of a batch of rows, unpacked. pyarrow reads 32 batches of a text file in advance: with
#: batches of 16 MB, the peak of memory is 600 MB higher.
BATCH_BYTES = 2 * 2**20


def need(package: str, what: str) -> None:
    """Raise ``OSError`` if a package is not installed; ``what`` cannot be read without it."""
    if find_spec(package.replace("-", "_")) is None:
        raise OSError(f"{what} needs {package}: pip install 'decoupled-descent[tables]'")


def most_bytes(size: int, in_memory: bool = True) -> int:
    """Return how many bytes a file of this size may expand to.

    Example:
        >>> most_bytes(1_000), most_bytes(10**8), most_bytes(10**8, in_memory=False)
        (25000000, 2000000000, 10000000000)
    """
    most = max(SMALL, DENSE * size)
    return min(MOST_BYTES, most) if in_memory else most


def most_cells(size: int, objects: bool = True) -> int:
    """Return how many cells the table of a file of this size may have.

    Example:
        >>> most_cells(5_000), most_cells(10**9), most_cells(10**9, objects=False)
        (1000000, 10000000, 100000000000)
    """
    most = max(SMALL_CELLS, CELLS_PER_BYTE * size)
    return min(MOST_CELLS, most) if objects else most


def check_size(size: int, most: int) -> None:
    """Raise ``ValueError`` if a file expands to too many bytes."""
    if size > most:
        raise ValueError(
            f"it unpacks to more than {most / 1e6:,.0f} MB, the limit for a file of this size; "
            "train on a part of the rows, or save it unpacked"
        )


def check_cells(cells: int, most: int) -> None:
    """Raise ``ValueError`` if a table has too many cells."""
    if cells > most:
        raise ValueError(
            f"it has more than {most:,} cells; save it as .csv or .parquet, or delete empty rows "
            "and columns"
        )


def check_parts(parts: int) -> None:
    """Raise ``ValueError`` if an archive has too many files, or a spreadsheet too many sheets."""
    if parts > MOST_PARTS:
        raise ValueError(
            f"it has {parts:,} parts; the limit is {MOST_PARTS:,}; save the table alone"
        )


def check_width(width: int) -> None:
    """Raise ``ValueError`` if a table has too many columns."""
    if width > MOST_COLUMNS:
        raise ValueError(
            f"it has {width:,} columns; the limit is {MOST_COLUMNS:,}; keep the columns that you "
            "need, or transpose the table if rows and columns were exchanged"
        )
