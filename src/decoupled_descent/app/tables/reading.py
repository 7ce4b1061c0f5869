"""Read a table from a file.

``frame.attrs["notes"]`` has sentences for the user, for example about a decimal comma or an index
column that was left out.
"""

from __future__ import annotations

import gzip
import re
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from decoupled_descent.app.tables.arrays import arrays_of, read_matrix
from decoupled_descent.app.tables.limits import check_size, check_width, most_bytes
from decoupled_descent.app.tables.parquet import read_parquet
from decoupled_descent.app.tables.text import Notes, read_text
from decoupled_descent.columns.values import listed

UNNAMED = re.compile(r"Unnamed: \d+|")
BLOCK = 2**20  # bytes that are read at a time; gzip takes memory for all that is asked for


def kind_of_file(path: Path) -> tuple[str, bool]:
    """Return the suffix of a file without ``.gz``, and whether it had ``.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = len(suffixes) > 1 and suffixes[-1] == ".gz"
    return suffixes[-2] if packed else "".join(suffixes[-1:]), packed


def read_table(path: str | Path, usual: str = "") -> pd.DataFrame:
    r"""Read a table with named columns.

    - ``.csv``, ``.tsv``, ``.txt``, also with ``.gz``: a line of names, then one line per row.
      Fields are separated by commas, semicolons or tabs, with any of these suffixes. With
      semicolons or tabs, the decimal mark may be a comma. The encoding is UTF-8, UTF-16 or
      Windows-1252. Titles above the line of names are left out. Empty lines are skipped. In a table
      of one column they are missing values.
    - ``.parquet`` (needs the extra ``tables``).
    - A folder of text files, or of parquet files, with the same columns. Its rows are those of the
      files in the order of their names (needs the extra ``tables``).
    - ``.npz`` with one matrix, or with ``X`` and ``y``; ``.npy`` with one matrix. The columns are
      called x0, x1, … and y. Pickled objects are refused.

    A first column that has no name and a different value in every row is an index. It is left out.

    Args:
        path: The file, or the folder.
        usual: The decimal mark of text files, "." or ",", if the file does not show it.

    Returns:
        The table, with rows numbered from 1. ``attrs["notes"]`` has sentences for the user,
        ``attrs["decimal"]`` the decimal mark of a text file, empty if the file does not show it.

    Raises:
        OSError: If the file cannot be read, or pyarrow is needed but not installed.
        ValueError: If its content is not a table.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.csv").write_text("size;price\n1,5;20\n2,5;30\n")
        ...     table = read_table(Path(folder, "a.csv"))
        >>> table
           size  price
        1   1.5     20
        2   2.5     30
        >>> table.attrs["notes"]
        ["the comma is the decimal mark: '1,5' was read as 1.5"]
    """
    path = Path(path)
    suffix, packed = kind_of_file(path)
    with naming(path):
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    if is_folder:
        from decoupled_descent.app.tables.opening import files_of, load

        files = files_of(path, usual)
        with naming(path):
            return load(files).first_pass().sample
    with naming(path):
        if suffix not in READERS or (packed and READERS[suffix] is not read_text):
            raise ValueError(
                f"the extension {suffix + '.gz' * packed!r} is not known; use one of "
                f"{', '.join(READERS)}"
            )
        content = _content(path)
        if not content:
            raise ValueError("the file is empty; save the table again")
        read = partial(read_text, usual=usual) if READERS[suffix] is read_text else READERS[suffix]
        return checked_names(*read(content))


def as_written(path: Path, name: str) -> list[str] | None:
    """Return one column of a text file as it is written; None for other kinds of files."""
    if READERS.get(kind_of_file(path)[0]) is not read_text:
        return None
    frame, _ = read_text(_content(path), only=name)
    return [str(one).strip() for one in frame.iloc[:, 0]]


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in the errors of a block."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"{path} does not exist; check the name and the folder") from error
    except OSError as error:
        if error.strerror is None:  # an error of ours
            raise OSError(f"{path}: {error}") from error
        raise OSError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
    except ValueError as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from error


def _content(path: Path) -> bytes:
    return b"".join(blocks_of(path)) if kind_of_file(path)[1] else path.read_bytes()


def opened(path: Path) -> BinaryIO:
    """Open a file; the content of a ``.gz`` file is unpacked."""
    return cast(BinaryIO, gzip.open(path) if kind_of_file(path)[1] else path.open("rb"))


def blocks_of(path: Path, in_memory: bool = True) -> Iterator[bytes]:
    """Yield the content of a file, unpacked, in blocks.

    Raises ``ValueError`` if the file is damaged, or unpacks to more bytes than are allowed. The
    limit for a file that is read as a whole (``in_memory``) is lower.
    """
    packed, size = kind_of_file(path)[1], 0
    try:
        with opened(path) as stream:
            while block := stream.read(BLOCK):
                size += len(block)
                if packed:
                    check_size(size, most_bytes(path.stat().st_size, in_memory))
                yield block
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:  # the type depends on the damage
        raise ValueError(
            f"the file is damaged or not a .gz file ({error}); save it again"
        ) from error


def checked_names(frame: pd.DataFrame, notes: Notes) -> pd.DataFrame:
    """Check the names and the size; drop an index column and empty columns without a name."""
    check_width(frame.shape[1])
    names = [str(name).strip() for name in frame.columns]
    unnamed = {k: None for k, name in enumerate(names) if UNNAMED.fullmatch(name)}
    twice = [n for n, count in Counter(names).items() if count > 1 and not UNNAMED.fullmatch(n)]
    plain = pd.to_numeric(pd.Series(names, dtype=object), errors="coerce")
    if plain.notna().all() and ((plain % 1 != 0).any() or twice):
        raise ValueError("the first line has numbers; add a line with the names of the columns")
    if twice:
        raise ValueError(f"more than one column is called {listed(twice)}; rename all but one")
    if not len(frame):
        raise ValueError("the table has names but no rows; add rows below the names")
    frame.columns = range(len(names))
    empty = frame.isna().to_numpy().all(0)
    for k in (k for k in unnamed if not empty[k]):
        column = frame[k]
        if k > 0 or types.is_float_dtype(column.dtype) or not column.is_unique:
            raise ValueError(f"column {k + 1} has no name; name it, or delete it")
        notes.append(INDEX)
    frame = frame.drop(columns=list(unnamed)).set_axis(pd.RangeIndex(1, len(frame) + 1), axis=0)
    if not frame.shape[1]:
        raise ValueError("no column has a name; add a line with the names of the columns")
    frame.columns = [name for k, name in enumerate(names) if k not in unnamed]
    frame.attrs = {"notes": notes, "decimal": frame.attrs.get("decimal", "")}
    return frame


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of an ``.npz`` or ``.npy`` file, or the columns of a table.

    If a table has at least two columns of type float, they become one matrix called ``X``. Other
    columns keep their names.
    """
    if path.suffix.lower() in (".npz", ".npy"):
        with naming(path):
            return arrays_of(_content(path))
    frame = read_table(path)
    numbers = [name for name in frame.columns if types.is_float_dtype(frame[name].dtype)]
    if len(numbers) < 2:
        return {name: frame[name].to_numpy() for name in frame.columns}
    rest = {name: frame[name].to_numpy() for name in frame.columns if name not in numbers}
    return {"X": frame[numbers].to_numpy(dtype=np.float64), **rest}


INDEX = (
    "the first column has no name and a different value in every row; it was left out as an index"
)
READERS: dict[str, Callable[[bytes], tuple[pd.DataFrame, Notes]]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), read_text),
    ".parquet": read_parquet,
    **dict.fromkeys((".npz", ".npy"), read_matrix),
}
