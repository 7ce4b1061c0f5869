"""Read a table from a file.

``frame.attrs["notes"]`` has sentences for the user, for example about a decimal comma or an index
column that was left out.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from decoupled_descent.tables.text import Notes, check_width, read_text
from decoupled_descent.tables.values import listed, plain

UNNAMED = re.compile(r"Unnamed: \d+|")
KINDS = "biufU"  # NumPy's codes of types that are read: booleans, numbers, text
MOST_BYTES = 2_000_000_000  # the most bytes of a file, unpacked
# Packed files may be malicious: the content may have SMALL bytes, or DENSE times those of the file.
DENSE, SMALL = 100, 100_000_000


def kind_of_file(path: Path) -> tuple[str, bool]:
    """Return the suffix of a file without ``.gz``, and whether it had ``.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = len(suffixes) > 1 and suffixes[-1] == ".gz"
    return suffixes[-2] if packed else "".join(suffixes[-1:]), packed


def read_table(path: str | Path) -> pd.DataFrame:
    r"""Read a table with named columns.

    - ``.csv``, ``.tsv``, ``.txt``, also with ``.gz``: a line of names, then one line per row.
      Fields are separated by commas, semicolons or tabs, with any of these suffixes. With
      semicolons or tabs, the decimal mark may be a comma. The encoding is UTF-8 or Windows-1252.
      Empty lines are skipped. In a table of one column they are missing values.
    - ``.parquet`` (needs the extra ``tables``).
    - ``.npz`` with one matrix, or with ``X`` and ``y``; ``.npy`` with one matrix. The columns are
      called x0, x1, … and y. Pickled objects are refused.

    A first column that has no name and a different value in every row is an index. It is left out.

    Args:
        path: The file.

    Returns:
        The table, with rows numbered from 1. ``attrs["notes"]`` has sentences for the user.

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
    content = _content(path)
    if suffix not in READERS or (packed and READERS[suffix] is not read_text):
        raise ValueError(
            f"{path}: the extension {suffix + '.gz' * packed!r} is not known; use one of "
            f"{', '.join(READERS)}"
        )
    try:
        if not content:
            raise ValueError("the file is empty; save the table again")
        frame, notes = READERS[suffix](_unpacked(content) if packed else content)
        return named(frame, notes)
    except (ValueError, OSError) as error:
        kind = ValueError if isinstance(error, ValueError) else OSError
        raise kind(f"{path}: {' '.join(str(error).split())}") from error


def as_written(path: Path, name: str) -> list[str] | None:
    """Return one column of a text file as it is written; None for other kinds of files."""
    suffix, packed = kind_of_file(path)
    if READERS.get(suffix) is not read_text:
        return None
    content = _content(path)
    frame, _ = read_text(_unpacked(content) if packed else content, only=name)
    return [str(one).strip() for one in frame.iloc[:, 0]]


def _content(path: Path) -> bytes:
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"{path} does not exist; check the name and the folder") from error
    except OSError as error:
        raise OSError(f"{path} cannot be read ({error.strerror}); check its permissions") from error


def _unpacked(content: bytes) -> bytes:
    """Unpack the content of a ``.gz`` file; raise ``ValueError`` if it is too large."""
    most = _most(content)
    try:
        unpacked = gzip.GzipFile(fileobj=io.BytesIO(content)).read(most + 1)
    except Exception as error:  # the type depends on where the damage is
        raise ValueError(
            f"the file is damaged or not a .gz file ({error}); save it again"
        ) from error
    check_size(len(unpacked), most)
    return unpacked


def _most(packed: bytes) -> int:
    """Return how many bytes a packed file may unpack to."""
    return min(MOST_BYTES, max(SMALL, DENSE * len(packed)))


def check_size(size: int, most: int = MOST_BYTES) -> None:
    """Raise ``ValueError`` if a file unpacks to too many bytes."""
    if size > most:
        raise ValueError(
            f"it unpacks to more than {most / 1e6:,.0f} MB, the limit for a file of this size; "
            "train on a part of the rows, or save it unpacked"
        )


def named(frame: pd.DataFrame, notes: Notes) -> pd.DataFrame:
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
    frame.attrs = {"notes": notes}
    return frame


def parquet_file(source: Any) -> Any:
    """Open a parquet file. Raise ``OSError`` without pyarrow, ``ValueError`` if it is damaged."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise OSError("parquet needs pyarrow: pip install 'decoupled-descent[tables]'") from error
    try:
        return pyarrow.parquet.ParquetFile(source)
    except Exception as error:  # the type depends on where the damage is
        raise ValueError(NO_PARQUET.format(error)) from error


def parquet_size(metadata: Any) -> int:
    """Return the unpacked bytes: what the file states, but at least eight for each value."""
    groups = (metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))
    return int(max(sum(groups), 8 * metadata.num_rows * metadata.num_columns))


def plain_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn named levels of the index into columns, and Arrow types into pandas types."""
    index = frame.index.names
    new = [k for k, name in enumerate(index) if name is not None and name not in frame.columns]
    frame = frame.reset_index(level=new) if new else frame
    for k in range(frame.shape[1]):
        frame.isetitem(k, plain(frame.iloc[:, k]))
    return frame


def _read_parquet(content: bytes) -> tuple[pd.DataFrame, Notes]:
    check_size(parquet_size(parquet_file(io.BytesIO(content)).metadata))
    try:
        frame = pd.read_parquet(io.BytesIO(content), engine="pyarrow")
    except Exception as error:  # the type depends on where the damage is
        raise ValueError(NO_PARQUET.format(error)) from error
    return plain_frame(frame), []


def _read_numpy(content: bytes) -> tuple[pd.DataFrame, Notes]:
    arrays = _arrays(content)
    y = arrays.pop("y") if set(arrays) == {"X", "y"} else None
    if len(arrays) != 1:
        raise ValueError(f"it contains {listed(arrays) or 'nothing'}; keep one matrix, or X and y")
    ((name, X),) = arrays.items()
    if X.ndim != 2 or not X.shape[1] or X.dtype.kind not in KINDS:
        raise ValueError(
            f"{name} has shape {X.shape} and dtype {X.dtype}; it must be a matrix of numbers or "
            "text with one row per sample"
        )
    frame = pd.DataFrame(_native(X)).rename(columns=lambda k: f"x{k}")
    if y is None:
        return frame, []
    if y.shape not in ((len(X),), (len(X), 1)) or y.dtype.kind not in KINDS:
        raise ValueError(
            f"y has shape {y.shape} and dtype {y.dtype}; it must hold one number or text for each "
            f"of the {len(X)} rows of X"
        )
    return frame.assign(y=_native(y.reshape(-1))), []


def _arrays(content: bytes) -> dict[str, NDArray[Any]]:
    arrays = {}
    for name, member in _members(content).items():
        _check_header(member)
        try:
            arrays[name] = np.load(io.BytesIO(member), allow_pickle=False)
        except Exception as error:  # the type depends on where the damage is
            raise ValueError(UNREADABLE.format(error)) from error
    return arrays


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of an ``.npz`` or ``.npy`` file, or the columns of a table.

    If a table has at least two columns of type float, they become one matrix called ``X``. Other
    columns keep their names.
    """
    if path.suffix.lower() in (".npz", ".npy"):
        content = _content(path)
        try:
            return _arrays(content)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    frame = read_table(path)
    numbers = [name for name in frame.columns if types.is_float_dtype(frame[name].dtype)]
    if len(numbers) < 2:
        return {name: frame[name].to_numpy() for name in frame.columns}
    rest = {name: frame[name].to_numpy() for name in frame.columns if name not in numbers}
    return {"X": frame[numbers].to_numpy(dtype=np.float64), **rest}


def _members(content: bytes) -> dict[str, bytes]:
    """Return the arrays of an .npz or .npy file by name, each as the bytes of an .npy file."""
    if not content.startswith(b"PK"):
        return {"the array": content}
    most, found = _most(content), {}
    size = 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                with archive.open(name) as file:
                    found[name.removesuffix(".npy")] = file.read(most + 1 - size)
                size += len(found[name.removesuffix(".npy")])
                if size > most:
                    break
    except Exception as error:  # the type depends on where the damage is
        raise ValueError(UNREADABLE.format(error)) from error
    check_size(size, most)
    return found


def _check_header(member: bytes) -> None:
    """Raise ``ValueError`` if an array has fewer bytes than its shape needs."""
    stream = io.BytesIO(member)
    try:
        version = np.lib.format.read_magic(stream)
        read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
        shape, _, dtype = read(stream)
    except Exception as error:
        raise ValueError(UNREADABLE.format(error)) from error
    check_width(shape[1] if len(shape) > 1 else 1)
    size = max(1, dtype.itemsize)  # strings of length 0 take no bytes
    if not dtype.hasobject and math.prod(shape) * size > len(member):
        raise ValueError(UNREADABLE.format(f"shape {shape} needs more bytes than the file has"))


def _native(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in the byte order of this machine, which pandas needs; text as objects."""
    if array.dtype.kind == "U" and array.size:
        codes = np.frombuffer(array.astype(array.dtype.newbyteorder("=")).tobytes(), np.uint32)
        if codes.max(initial=0) > sys.maxunicode:
            raise ValueError(UNREADABLE.format("invalid characters"))
    return array.astype(object if array.dtype.kind == "U" else array.dtype.newbyteorder("="))


INDEX = (
    "the first column has no name and a different value in every row; it was left out as an index"
)
NO_PARQUET = "the file is damaged or not a parquet file ({}); save it again"
UNREADABLE = (
    "the file is damaged, is not a NumPy file, or contains Python objects ({}); save arrays of "
    "numbers or text"
)
READERS: dict[str, Callable[[bytes], tuple[pd.DataFrame, Notes]]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), read_text),
    ".parquet": _read_parquet,
    **dict.fromkeys((".npz", ".npy"), _read_numpy),
}
