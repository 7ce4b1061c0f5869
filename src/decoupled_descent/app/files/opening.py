"""Open a table, which is a file or a folder of files: small ones are loaded, large ones are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from decoupled_descent.app.files import limits
from decoupled_descent.app.files.packing import is_large, kind_of_file
from decoupled_descent.app.files.parquet import ParquetFile
from decoupled_descent.app.files.reading import (
    TEXTS,
    as_written,
    check_no_address,
    naming,
    read_table,
)
from decoupled_descent.app.files.table_reader import (
    BatchReader,
    FirstPass,
    TableFile,
    TableReader,
)
from decoupled_descent.app.files.text_file import TextFile


class LoadedTable(TableReader):
    """A table in memory: the sample has all rows, and they are the only batch.

    Args:
        frame: The table.
        size: The number of bytes of its files.
        as_written: Returns a column of the table as it is written in a text file, else None.
    """

    in_memory = True

    def __init__(
        self, frame: pd.DataFrame, size: int, as_written: Callable[[str], list[str] | None]
    ) -> None:
        self.size, self._frame, self._as_written = size, frame, as_written

    def with_frame(self, frame: pd.DataFrame) -> LoadedTable:
        """The same table with other content."""
        return LoadedTable(frame, self.size, self._as_written)

    def first_pass(self, names: Sequence[str] = ()) -> FirstPass:
        """Return the table itself."""
        frame, n = self._frame, len(self._frame)
        columns = {name: frame[name] for name in names if name in frame.columns}
        return FirstPass(n, frame, columns, self._as_written, frame.attrs["notes"])

    def frames(self, first: FirstPass) -> Iterator[pd.DataFrame]:
        """Yield the table."""
        yield first.sample


def open_table(
    path: Path,
    usual: str = "",
    sheet: str | None = None,
    ragged: list[int] | None = None,
) -> TableReader:
    """Open a table.

    Tables of at most ``LARGE`` bytes, text files with one column, and files that are neither text
    nor parquet are read as a whole. The files of a folder must all be text or all be parquet, and
    have the same columns.

    Args:
        path: The file or folder.
        usual: The decimal mark of a text file that does not show it.
        sheet: The sheet of a spreadsheet; the first one with values by default.
        ragged: A list that gets the numbers of lines with too few or too many fields, which are
            then left out; by default such a line is an error.

    Raises ``ValueError`` or ``OSError`` that names the file.
    """
    check_no_address(path)
    files = _files(path, usual, limits.LARGE) if sheet is None else []
    if not files:
        table = partial(as_written, path, sheet=sheet, ragged=ragged is not None)
        frame = read_table(path, usual, sheet, ragged)
        return LoadedTable(frame, path.stat().st_size, table)
    if sum(file.size for file in files) > limits.LARGE:
        return BatchReader(files)
    with naming(path):
        return load(files)


def load(files: Sequence[TableFile]) -> LoadedTable:
    """Load the rows of several files."""
    reader = BatchReader(files, most_sampled=2**62)
    frame = reader.first_pass().sample
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    return LoadedTable(frame, reader.size, lambda name: reader.first_pass([name]).as_written(name))


def _files(path: Path, usual: str, most: int) -> list[TableFile]:
    """Return the files of a table that needs them, or an empty list if it is read as a whole."""
    if path.is_dir():
        return files_of(path, usual)
    with naming(path):
        suffix, packing = kind_of_file(path)
        text = suffix in TEXTS
        if not path.is_file() or not (text or suffix == ".parquet") or (packing and not text):
            return []
        if not text:
            file = _parquet(path)
            return [file] if file.size > most else []
        table = TextFile(path, usual) if is_large(path, most) else None
        return [] if table is None or len(table.names) == 1 else [table]


def files_of(folder: Path, usual: str = "") -> list[TableFile]:
    """Open the tables in a folder, by their names. Names that start with . or _ are left out."""
    kinds = {path: kind_of_file(path) for path in sorted(folder.iterdir()) if path.is_file()}
    paths = {
        path: suffix == ".parquet"
        for path, (suffix, packing) in kinds.items()
        if path.name[0] not in "._" and (suffix in TEXTS or (suffix == ".parquet" and not packing))
    }
    if not paths:
        raise IsADirectoryError(
            f"{folder} is a folder without csv or parquet files; name a file, or a folder of such "
            "files"
        )
    if len(set(paths.values())) > 1:
        raise ValueError(f"{folder} has text files and parquet files; keep one kind of them")
    files: list[TableFile] = []
    for path, is_parquet in paths.items():
        with naming(path):
            files.append(_parquet(path) if is_parquet else TextFile(path, usual))
            if files[-1].empty.schema.types != files[0].empty.schema.types or (
                files[-1].names != files[0].names
            ):
                raise ValueError(
                    f"its columns are not those of {files[0].path.name}; all files of a folder "
                    "must have the same columns in the same order"
                )
            if len(files[0].names) == 1 and not is_parquet:
                raise ValueError("it has one column; files of a folder need several")
    return files


def _parquet(path: Path) -> ParquetFile:
    """Open a parquet file, after a check of the size that it unpacks to."""
    packed = path.stat().st_size
    file = ParquetFile(path, packed)
    limits.check_size(file.size, limits.most_bytes(packed, in_memory=False))
    return file
