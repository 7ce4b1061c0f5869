"""The one way to write a file: whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Give a temporary file to write to; it takes its final name only if the body succeeds.

    The temporary file is in the same folder, which must exist, and has the same suffix.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with written_whole(Path(folder) / "a.txt") as partial:
        ...         _ = partial.write_text("done")
        ...     (Path(folder) / "a.txt").read_text()
        'done'
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(
        prefix=".decoupled-", suffix=f".partial{target.suffix}", dir=target.parent
    )
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        partial.chmod(permissions(0o666))  # mkstemp makes files that only their owner can read
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str | Iterable[str]) -> None:
    """Write text in UTF-8, whole or not at all; a long one in parts."""
    with written_whole(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        file.writelines([text] if isinstance(text, str) else text)


@contextmanager
def unnamed_file(size: int) -> Iterator[IO[Any]]:
    """A temporary file of so many bytes, which has no name and is gone with its last user.

    Raises ``OSError`` at once where the disk is too small.
    """
    with tempfile.TemporaryFile(prefix="decoupled-") as file:
        try:
            if hasattr(os, "posix_fallocate"):  # a full disk is an error now, not a crash later
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            raise OSError(
                f"{tempfile.gettempdir()}: {size / 1e9:.3g} GB for a temporary file do not fit "
                f"({error.strerror}); set TMPDIR to a folder with more room"
            ) from error
        yield file


def permissions(most: int) -> int:
    """Permissions of a new file (``most=0o666``) or folder (``0o777``) under the process's umask.

    The umask can only be read by setting it.
    """
    mask = os.umask(0o022)
    os.umask(mask)
    return most & ~mask
