"""Packed files: .gz, .bz2, and .zip with one table in it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from decoupled_descent.app.files.limits import check_parts, check_size, most_bytes
from decoupled_descent.tables.columns.values import listed

#: Suffixes of packed files.
PACKINGS = (".gz", ".bz2", ".zip")
BLOCK = 2**20  # bytes that are read at a time; gzip takes memory for all that is asked for
#: The largest factor by which gzip can shrink a file. The others have no useful limit.
DENSEST = 1032
#: Ways to pack that Python's zipfile unpacks step by step.
STEPWISE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: Files that archivers add.
HIDDEN = re.compile(r"(^|/)(__MACOSX/|[._])")
#: What damaged files raise. The type depends on where the damage is; the last one is for archives
#: of a version that does not exist.
DAMAGED = (
    gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError,
)  # fmt: skip


class FileKind(NamedTuple):
    """What a file is, by its name."""

    suffix: str  # of the table, without that of the packing, in lower case
    packing: str  # one of PACKINGS, or empty


def kind_of_file(path: Path) -> FileKind:
    """Return the suffix of a table, and how it is packed. A ``.zip`` is opened for this.

    Example:
        >>> kind_of_file(Path("a.csv.gz")), kind_of_file(Path("a.b.tsv"))
        (FileKind(suffix='.csv', packing='.gz'), FileKind(suffix='.tsv', packing=''))
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    last = "".join(suffixes[-1:])
    if last == ".zip" and path.is_file():
        return FileKind(Path(_member(path).filename).suffix.lower(), last)
    if len(suffixes) > 1 and last in PACKINGS:
        return FileKind(suffixes[-2], last)
    return FileKind(last, "")


def _member(path: Path) -> zipfile.ZipInfo:
    """The only file in an archive, or ``ValueError``."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
    except DAMAGED as error:
        raise ValueError(f"the file is damaged or not a .zip file ({error}); save it again") from (
            error
        )
    members = [one for one in members if not HIDDEN.search(one.filename)]
    if len(members) != 1:
        names = listed(one.filename for one in members) or "nothing"
        raise ValueError(f"it must have one table, but has {names}; unpack it and name one file")
    if members[0].flag_bits & 1:
        raise ValueError("it needs a password; unpack it first")
    if members[0].compress_type not in STEPWISE:
        raise ValueError("it is packed in an unusual way; unpack it first")
    return members[0]


def parts_of(content: bytes, wanted: Callable[[str], bool], most: int) -> dict[str, bytes]:
    """Unpack the files of an archive whose names are wanted, which may have ``most`` bytes."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        check_parts(len(archive.infolist()))
        parts = [one for one in archive.infolist() if wanted(one.filename)]
        check_size(sum(one.file_size for one in parts), most)
        if len({one.filename.lower() for one in parts}) < len(parts):
            raise ValueError("two of its parts have the same name; save it again")
        if any(one.compress_type not in STEPWISE or one.flag_bits & 1 for one in parts):
            raise ValueError("it is packed in an unusual way, or needs a password; save it again")
        contents = {}
        for one in parts:
            with archive.open(one) as file:  # the size may be wrong: never read more than that
                contents[one.filename] = file.read(one.file_size)
    return contents


def opened(path: Path) -> BinaryIO:
    """Open a file; a packed one is unpacked."""
    packing = kind_of_file(path).packing
    if packing == ".zip":
        return cast(BinaryIO, zipfile.ZipFile(path).open(_member(path)))
    if packing == ".bz2":
        return cast(BinaryIO, bz2.open(path))
    return cast(BinaryIO, gzip.open(path) if packing else path.open("rb"))


def blocks_of(path: Path, in_memory: bool = True) -> Iterator[bytes]:
    """Yield the content of a file, unpacked, in blocks.

    Raises ``ValueError`` if the file is damaged, or unpacks to more bytes than are allowed. The
    limit for a file that is read as a whole (``in_memory``) is lower.
    """
    packing, size = kind_of_file(path).packing, 0
    try:
        with opened(path) as stream:
            while block := stream.read(BLOCK):
                size += len(block)
                if packing:
                    check_size(size, most_bytes(path.stat().st_size, in_memory))
                yield block
    except DAMAGED as error:
        raise _damaged(packing, error) from error
    except OSError as error:
        if not packing or error.errno is not None:
            raise
        raise _damaged(packing, error) from error  # as bz2 does


def _damaged(packing: str, error: Exception) -> ValueError:
    return ValueError(f"the file is damaged or not a {packing} file ({error}); save it again")


def content_of(path: Path) -> bytes:
    """Return the content of a file, unpacked."""
    return b"".join(blocks_of(path)) if kind_of_file(path).packing else path.read_bytes()


def is_large(path: Path, most: int) -> bool:
    """Whether a file has more than ``most`` bytes, unpacked."""
    packing, size = kind_of_file(path).packing, path.stat().st_size
    if not packing:
        return size > most
    if packing == ".gz" and size * DENSEST <= most:
        return False
    count = 0
    for block in blocks_of(path, in_memory=False):
        count += len(block)
        if count > most:
            return True
    return False
