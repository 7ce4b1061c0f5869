"""Read a table from a file.

``frame.attrs["notes"]`` says in sentences what was done: an index column left out, a decimal comma.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from decoupled_descent.tables.values import listed, plain

Notes = list[str]

SEPARATORS = {";": "semicolon", "\t": "tab", ",": "comma"}  # the comma last: it may be decimal
#: Missing values in any column; MARKERS has more, some of which may be the name of a class.
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null"]
SEP_LINE = re.compile(rb"(?:\xef\xbb\xbf)?\"?sep=([;,\t])\"?(?=[\r\n])")  # Excel's first line
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
UNNAMED = re.compile(r"Unnamed: \d+|")
COMMA, POINT = re.compile(r"[+-]?\d*,\d+"), re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
LOOK = 1000  # rows used to recognise how a file is written


def read_table(path: str | Path) -> pd.DataFrame:
    r"""Read a table with named columns.

    - ``.csv``, ``.tsv``, ``.txt``, also followed by ``.gz``: a line of names, then a line per row,
      separated by commas, semicolons or tabs (whatever the suffix). With semicolons or tabs, 1,5
      may stand for 1.5. The text is UTF-8, or else Windows-1252. Empty lines are skipped; in a
      table of one column they are missing values.
    - ``.parquet`` (needs the extra ``tables``).
    - ``.npz`` with one matrix, or with ``X`` and ``y``; ``.npy`` with one matrix. The columns are
      called x0, x1, … and y. Pickled objects are refused.

    A first column without a name that differs in every row is an index and is left out.

    Args:
        path: The file.

    Returns:
        The table, with rows numbered from 1. ``attrs["notes"]`` says in sentences what was done.

    Raises:
        OSError: If the file cannot be read, or pyarrow is needed and not installed.
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
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = len(suffixes) > 1 and suffixes[-1] == ".gz"
    suffix = suffixes[-2] if packed else "".join(suffixes[-1:])
    content = _content(path)
    if suffix not in READERS or (packed and READERS[suffix] is not _read_text):
        raise ValueError(
            f"{path}: the extension {''.join(suffixes[-2:] if packed else suffixes[-1:])!r} is not "
            f"known; use one of {', '.join(READERS)}"
        )
    try:
        if not content:
            raise ValueError("the file is empty; write the table again")
        frame, notes = READERS[suffix](_unpacked(content) if packed else content)
        return _named(frame, notes)
    except (ValueError, OSError) as error:
        kind = ValueError if isinstance(error, ValueError) else OSError
        raise kind(f"{path}: {' '.join(str(error).split())}") from error


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
    try:
        return gzip.decompress(content)
    except Exception as error:  # of several kinds, depending on where the damage is
        raise ValueError(f"damaged, or not a .gz file ({error}); write it again") from error


def _named(frame: pd.DataFrame, notes: Notes) -> pd.DataFrame:
    """Check names and size, and leave out an index column and empty columns without a name."""
    names = [str(name).strip() for name in frame.columns]
    unnamed = [k for k, name in enumerate(names) if UNNAMED.fullmatch(name)]
    twice = [n for n, count in Counter(names).items() if count > 1 and not UNNAMED.fullmatch(n)]
    plain = pd.to_numeric(pd.Series(names, dtype=object), errors="coerce")
    if plain.notna().all() and ((plain % 1 != 0).any() or twice):
        raise ValueError("the first line holds numbers; put a line with the columns' names above")
    if twice:
        raise ValueError(f"more than one column is called {listed(twice)}; rename all but one")
    if not len(frame):
        raise ValueError("the table has columns but no rows; add rows below the names")
    frame.columns = range(len(names))
    for k in unnamed:
        column = frame[k]
        if column.isna().all():
            continue
        if k > 0 or types.is_float_dtype(column.dtype) or not column.is_unique:
            raise ValueError(f"column {k + 1} has no name; name it, or delete it")
        notes.append("the first column has no name and differs in every row: left out as an index")
    frame = frame.drop(columns=unnamed).set_axis(pd.RangeIndex(1, len(frame) + 1), axis=0)
    if not frame.shape[1]:
        raise ValueError("no column has a name; put a line with the columns' names above")
    frame.columns = [name for k, name in enumerate(names) if k not in unnamed]
    frame.attrs = {"notes": notes}
    return frame


def _records(content: bytes, encoding: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row's first line and its fields; skip blank lines."""
    stream = io.TextIOWrapper(io.BytesIO(content), encoding=encoding, newline="")
    reader = csv.reader(stream, delimiter=separator, skipinitialspace=True)
    line = 1
    try:
        for record in reader:
            if record:
                yield line, record
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {line}: {error}; is a quotation mark left open?") from error


def _widths(content: bytes, encoding: str, separator: str) -> Iterator[tuple[int, int]]:
    """Yield each row's first line and its number of fields; fast if nothing is quoted."""
    if b'"' in content:
        return ((line, len(record)) for line, record in _records(content, encoding, separator))
    lines = enumerate(content.splitlines(), start=1)
    return ((k, line.count(separator.encode()) + 1) for k, line in lines if line)


def _encoding(content: bytes) -> tuple[str, Notes]:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("the text is UTF-16; save it as UTF-8")
    control = CONTROL.search(content, 0, 1 << 20)
    place = control.start() if control else content.find(b"\0")
    if place >= 0:
        raise ValueError(
            f"byte {place} is 0x{content[place]:02x}, which no text contains; is the file of "
            "another kind than its extension says?"
        )
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            continue
        known = encoding == "utf-8-sig"
        return encoding, [] if known else ["the text is not UTF-8: read as Windows-1252 (Latin-1)"]
    raise ValueError("the text is neither UTF-8 nor Windows-1252 (Latin-1); save it as UTF-8")


def _separator(content: bytes, encoding: str) -> str:
    """Choose the separator by which most of the first rows have as many fields as the names."""
    scores = {}
    for separator in SEPARATORS:
        try:
            found = list(itertools.islice(_records(content, encoding, separator), LOOK))
        except ValueError:  # the wrong separator can make fields too long
            continue
        widths = [len(record) for _, record in found]
        if widths and widths[0] > 1:
            scores[separator] = (widths.count(widths[0]) / len(widths), widths[0])
    return max(scores, key=lambda separator: scores[separator], default=",")


def _decimal(rows: list[list[str]], separator: str) -> tuple[str, Notes]:
    """Return the decimal mark: a comma if some number has one, and none has a point."""
    values = [value.strip() for row in rows for value in row]
    commas = [value for value in values if COMMA.fullmatch(value)]
    if separator == "," or not commas or any(POINT.fullmatch(value) for value in values):
        return ".", []
    value = commas[0]
    read = float(value.replace(",", "."))
    return ",", [f"the comma is the decimal mark: {value!r} was read as {read!r}"]


def _read_text(content: bytes) -> tuple[pd.DataFrame, Notes]:
    encoding, notes = _encoding(content)
    told = SEP_LINE.match(content)
    content = content[told.end() :] if told else content
    separator = told[1].decode() if told else _separator(content, encoding)
    records = _records(content, encoding, separator)
    names = next(records, (0, [""]))[1]
    if not any(name.strip() for name in names):
        raise ValueError("the file is empty, or begins with an empty row; write the table again")
    for line, width in _widths(content, encoding, separator):
        if width != len(names):
            raise ValueError(
                f"line {line} has {width} fields, but there are {len(names)} names in the first "
                f"row (separated by a {SEPARATORS[separator]}); correct the line, or put quotation "
                "marks around fields that contain the separator"
            )
    first = [record for _, record in itertools.islice(records, LOOK)]
    single = len(names) == 1
    if single:
        _check_single([names, *first])
        content = content.removeprefix(codecs.BOM_UTF8).strip()  # empty lines in between are rows
    decimal, more = _decimal(first, separator)
    try:
        frame = pd.read_csv(
            io.BytesIO(content),
            sep=separator,
            encoding=encoding,
            header=0,
            names=range(len(names)),
            index_col=False,
            skipinitialspace=True,
            skip_blank_lines=not single,
            keep_default_na=False,
            na_values=MISSING,
            low_memory=False,
            decimal=decimal,
        )
    except pd.errors.ParserError as error:
        raise ValueError(f"{error}; is a quotation mark left open?") from error
    frame.columns = names
    return frame, notes + more


def _check_single(rows: list[list[str]]) -> None:
    """Refuse what looks like one column but is separated by spaces or vertical bars.

    Several words in every row may be one value, unless there are numbers among them.
    """
    for pattern, name in ((r"\s+", "spaces"), (r"\|", "vertical bars")):
        parts = [re.split(pattern, row[0].strip()) for row in rows]
        widths = {len(part) for part in parts}
        words = name == "spaces" and not any(re.search(r"\d", part[0]) for part in rows[1:])
        if len(widths) == 1 and widths != {1} and not words:
            raise ValueError(
                f"the columns seem to be separated by {name}; separate them by commas, semicolons "
                "or tabs"
            )


def _read_parquet(content: bytes) -> tuple[pd.DataFrame, Notes]:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise OSError("parquet needs pyarrow: pip install 'decoupled-descent[tables]'") from error
    try:
        frame = pd.read_parquet(io.BytesIO(content), engine="pyarrow")
    except Exception as error:  # of many kinds, depending on where the damage is
        raise ValueError(f"damaged, or not a parquet file ({error}); write it again") from error
    index = frame.index.names
    new = [k for k, name in enumerate(index) if name is not None and name not in frame.columns]
    frame = frame.reset_index(level=new) if new else frame
    for k in range(frame.shape[1]):
        frame.isetitem(k, plain(frame.iloc[:, k]))
    return frame, []


def _read_numpy(content: bytes) -> tuple[pd.DataFrame, Notes]:
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        arrays = {"": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except Exception as error:  # of many kinds, depending on where the damage is
        reason = f"damaged, not a NumPy file, or one with Python objects ({error})"
        raise ValueError(f"{reason}; save arrays of numbers or text") from error
    if set(arrays) == {"X", "y"}:
        X, y = _matrix(arrays["X"], "X"), arrays["y"]
        if y.shape not in ((len(X),), (len(X), 1)) or y.dtype.kind not in "biufU":
            raise ValueError(
                f"y has shape {y.shape} and dtype {y.dtype}; it must hold one number or text for "
                f"each of the {len(X)} rows of X"
            )
        frame = pd.DataFrame(X).assign(y=_native(y.reshape(-1)))
        return frame.set_axis([*(f"x{k}" for k in range(X.shape[1])), "y"], axis=1), []
    if len(arrays) != 1:
        raise ValueError(f"it holds {listed(arrays) or 'nothing'}; keep one matrix, or X and y")
    ((name, only),) = arrays.items()
    frame = pd.DataFrame(_matrix(only, name or "the array"))
    return frame.set_axis([f"x{k}" for k in range(frame.shape[1])], axis=1), []


def _matrix(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.ndim != 2 or not array.shape[1] or array.dtype.kind not in "biufU":
        raise ValueError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; it must be a matrix of "
            "numbers or text with one row per sample"
        )
    return _native(array)


def _native(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in this machine's byte order, as pandas needs it, and text as objects."""
    return array.astype(object if array.dtype.kind == "U" else array.dtype.newbyteorder("="))


READERS: dict[str, Callable[[bytes], tuple[pd.DataFrame, Notes]]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".parquet": _read_parquet,
    ".npz": _read_numpy,
    ".npy": _read_numpy,
}
