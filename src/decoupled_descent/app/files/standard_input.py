"""Tables that can be read once only, such as standard input: stored in a temporary file.

The file is removed at the end.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from decoupled_descent.app.files import limits
from decoupled_descent.app.files.packing import DAMAGED

#: The name of standard input among arguments.
DASH = Path("-")
NAME = "standard-input"
BLOCK = 2**20
#: The first bytes of files, and their suffixes. Anything else is text.
BEGINNINGS = {
    b"PAR1": ".parquet",
    b"\x1f\x8b": ".csv.gz",
    b"BZh": ".csv.bz2",
    b"\x93NUMPY": ".npy",
    b"\xd0\xcf\x11\xe0": ".xls",
    b"{": ".jsonl",
}


@contextmanager
def table_path(path: Path) -> Iterator[Path]:
    """Yield the path of a table that can be read several times.

    ``-``, which stands for standard input, and pipes with a name are stored in a file, which is
    removed at the end. Errors name them instead of it.
    """
    if path != DASH and (path.is_file() or path.is_dir() or not path.exists()):
        yield path
        return
    name = "standard input" if path == DASH else str(path)
    if path == DASH and sys.stdin.isatty():
        raise ValueError("standard input is a terminal; pipe a table into the command")
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / NAME
        with plain.open("wb") as file, sys.stdin.buffer if path == DASH else path.open("rb") as it:
            store(it, file, name)
        named = plain.rename(plain.with_suffix(suffix_of(plain)))
        try:
            yield named
        except (ValueError, OSError) as error:
            text = str(error).replace(str(named), name)
            raise type(error)(text) from error


def store(stream: BinaryIO, file: BinaryIO, name: str = "standard input") -> None:
    """Copy a stream to a file; ``ValueError`` if it is empty, or does not end in time."""
    size = 0
    while block := stream.read(BLOCK):
        size += len(block)
        if size > limits.MOST_BYTES:
            raise ValueError(
                f"{name} has more than {limits.MOST_BYTES / 1e6:,.0f} MB; save it to a "
                "file, and name the file"
            )
        file.write(block)
    if not size:
        raise ValueError(f"{name} is empty; pipe a table into the command")


def suffix_of(path: Path) -> str:
    """The suffix of a table by its first bytes."""
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(b"PK"):
        return _archive_suffix(path)
    return next(
        (suffix for bytes_, suffix in BEGINNINGS.items() if start.startswith(bytes_)), ".csv"
    )


def _archive_suffix(path: Path) -> str:
    """Tell the kinds of files apart that are .zip archives."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except DAMAGED:
        return ".zip"
    if any(name.startswith("xl/") for name in names):
        return ".xlsx"
    if "content.xml" in names:
        return ".ods"
    return ".npz" if names and all(name.endswith(".npy") for name in names) else ".zip"
