"""Read a table from a file.

``frame.attrs["notes"]`` has sentences for the user, for example about a decimal comma or an index
column that was left out.
"""

from __future__ import annotations

import re
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
from pandas.api import types

from decoupled_descent.app.files.arrays import read_matrix
from decoupled_descent.app.files.json_lines import read_json_lines
from decoupled_descent.app.files.limits import LARGE, check_width
from decoupled_descent.app.files.names import UNNAMED, check_names
from decoupled_descent.app.files.packing import FileKind, content_of, kind_of_file
from decoupled_descent.app.files.parquet import read_parquet
from decoupled_descent.app.files.spreadsheets import BOOKS, as_csv
from decoupled_descent.app.files.text import Notes, read_text
from decoupled_descent.tables.columns.values import BadCellError


def read_table(
    path: str | Path, usual: str = "", sheet: str | None = None, ragged: list[int] | None = None
) -> pd.DataFrame:
    r"""Read a table with named columns.

    - ``.csv``, ``.tsv``, ``.txt``, also with ``.gz``, ``.bz2`` or ``.zip``: a line of
      names, then one line per row. Fields are separated by commas, semicolons or tabs, with any
      of these suffixes. With semicolons or tabs, the decimal mark may be a comma. The encoding is
      UTF-8, UTF-16 or Windows-1252. Titles above the line of names are left out. Empty lines are
      skipped. In a table of one column they are missing values.
    - ``.parquet`` (needs the extra ``tables``).
    - ``.xlsx``, ``.xls``, ``.ods``: one sheet, as if it were saved as csv (Excel needs the extra
      ``tables``). Formulas have the values that were saved with them.
    - ``.jsonl``: one JSON object per line.
    - A folder of text files, or of parquet files, with the same columns. Its rows are those of the
      files in the order of their names (needs the extra ``tables``).
    - ``.npz`` with one matrix, or with ``X`` and ``y``; ``.npy`` with one matrix. The columns are
      called x0, x1, … and y. Pickled objects are refused.

    A first column that has no name and a different value in every row is an index. It is left out.

    Args:
        path: The file, or the folder.
        usual: The decimal mark of text files, "." or ",", if the file does not show it.
        sheet: The sheet of a spreadsheet; the first one with values by default.
        ragged: A list that gets the numbers of lines with too few or too many fields, which are
            then left out; by default such a line is an error.

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
    check_no_address(path)
    path = Path(path)
    with naming(path):
        is_folder = stat.S_ISDIR(path.stat().st_mode)
        kind = kind_of_file(path)
    if is_folder:
        from decoupled_descent.app.files.opening import files_of, load

        files = files_of(path, usual)
        with naming(path):
            return load(files).first_pass().sample
    with naming(path):
        _check_kind(kind, sheet)
        content, notes = _as_text(path, kind, sheet)
        if not content:
            raise ValueError("the file is empty; save the table again")
        if kind.suffix in READERS:
            return checked_names(*READERS[kind.suffix](content))
        frame, more = read_text(content, usual=usual, ragged=ragged)
        return checked_names(frame, [*notes, *more])


def _check_kind(kind: FileKind, sheet: str | None) -> None:
    """Raise ``ValueError`` for files that cannot be read, and for a sheet of other files."""
    suffix, packing = kind
    together = packing in (".gz", ".bz2") and suffix not in PACKED
    if suffix not in SUFFIXES or together:
        raise ValueError(
            f"the extension {suffix + packing!r} is not known; use one of {', '.join(SUFFIXES)}"
        )
    if sheet is not None and suffix not in BOOKS:
        raise ValueError(f"a sheet is for {', '.join(BOOKS)}, and not for {suffix}; leave it out")


def _as_text(path: Path, kind: FileKind, sheet: str | None) -> tuple[bytes, Notes]:
    """Return the content of a file, that of a spreadsheet as CSV text, with its notes."""
    as_a_whole = kind.suffix in BOOKS or kind.suffix in JSON_LINES
    if as_a_whole and not kind.packing and path.stat().st_size > LARGE:
        raise ValueError(f"it has more than {LARGE / 1e6:,.0f} MB; save it as .csv or .parquet")
    content = content_of(path)
    return as_csv(content, kind.suffix, sheet) if kind.suffix in BOOKS else (content, [])


def check_no_address(path: str | Path) -> None:
    """Raise ``ValueError`` for the address of a file on the web."""
    address = ADDRESS.match(str(path))
    if address:
        url = f"{address[1]}://{address[2]}"
        raise ValueError(f"{url} is a web address; download it first: curl -LO {shlex.quote(url)}")


def as_written(
    path: Path, name: str, sheet: str | None = None, ragged: bool = False
) -> list[str] | None:
    """Return one column of text or of a sheet as it is written; None for other kinds of files."""
    kind = kind_of_file(path)
    if kind.suffix not in (*TEXTS, *BOOKS):
        return None
    content, _ = _as_text(path, kind, sheet)
    frame, _ = read_text(content, only=name, ragged=[] if ragged else None)
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
        kind = BadCellError if isinstance(error, BadCellError) else ValueError
        raise kind(f"{path}: {' '.join(str(error).split())}") from error


def checked_names(frame: pd.DataFrame, notes: Notes) -> pd.DataFrame:
    """Check the names and the size; drop an index column and empty columns without a name."""
    check_width(frame.shape[1])
    names = [str(name).strip() for name in frame.columns]
    check_names(names)
    unnamed = {k: None for k, name in enumerate(names) if UNNAMED.fullmatch(name)}
    if not len(frame):
        raise ValueError("the table has names but no rows; add rows below the names")
    frame.columns = range(len(names))
    for k in unnamed:
        column = frame[k]
        if column.isna().all():
            continue
        if k > 0 or types.is_float_dtype(column.dtype) or not _all_different(column):
            raise ValueError(f"column {k + 1} has no name; name it, or delete it")
        notes.append(INDEX)
    frame = frame.drop(columns=list(unnamed)) if unnamed else frame
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    if not frame.shape[1]:
        raise ValueError("no column has a name; add a line with the names of the columns")
    frame.columns = [name for k, name in enumerate(names) if k not in unnamed]
    frame.attrs = {"notes": notes, "decimal": frame.attrs.get("decimal", "")}
    return frame


def _all_different(column: pd.Series) -> bool:
    """Whether no value occurs twice; lists and objects of JSON cannot be compared quickly."""
    try:
        return bool(column.is_unique)
    except TypeError:
        return False


INDEX = (
    "the first column has no name and a different value in every row; it was left out as an index"
)
TEXTS = (".csv", ".tsv", ".txt")
JSON_LINES = (".jsonl", ".ndjson")
#: Addresses of files on the web. A path has one slash where an address has two.
ADDRESS = re.compile(r"(https?|ftps?|s3|gs|hdfs):/{1,2}(.*)", re.IGNORECASE)
#: How files are read that are not text.
READERS: dict[str, Callable[[bytes], tuple[pd.DataFrame, Notes]]] = {
    **dict.fromkeys(JSON_LINES, read_json_lines),
    ".parquet": read_parquet,
    **dict.fromkeys((".npz", ".npy"), read_matrix),
}
#: The suffixes of all tables, and of those that may be packed.
SUFFIXES = (*TEXTS, *JSON_LINES, *BOOKS, ".parquet", ".npz", ".npy")
PACKED = (*TEXTS, *JSON_LINES)
