"""The one way to write a file: whole, or not at all."""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None

#: Files and folders that are being written.
_UNFINISHED: set[Path] = set()
#: Names of such files begin with the computer and the process that write them.
_COMPUTER = f"{zlib.crc32(socket.gethostname().encode()):08x}"
_NAME = re.compile(rf"\.decoupled-{_COMPUTER}-(\d+)-[0-9a-f]{{16}}")


@contextmanager
def _unfinished(folder: str | Path, suffix: str = "") -> Iterator[Path]:
    """Give a name to write to, in a folder; what has this name at the end is removed.

    The name is noted before anything has it, so a signal at any moment leaves nothing. What a
    process that was killed has left in the folder is removed.
    """
    _remove_abandoned(Path(folder))
    path = Path(folder) / f".decoupled-{_COMPUTER}-{os.getpid()}-{os.urandom(8).hex()}{suffix}"
    _UNFINISHED.add(path)
    try:
        yield path
    finally:
        _remove(path)
        _UNFINISHED.discard(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _remove_abandoned(folder: Path) -> None:
    """Remove unfinished files of processes of this computer that have ended."""
    try:
        names = [
            (match, one.path) for one in os.scandir(folder) if (match := _NAME.match(one.name))
        ]
    except OSError:
        return
    for match, path in names:
        if not _is_running(int(match[1])):
            _remove(Path(path))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # of another user
    return True


def remove_unfinished() -> None:
    """Remove what is not complete: for a process that must leave at once."""
    for path in list(_UNFINISHED):
        _remove(path)


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
    with _unfinished(target.parent, f".partial{target.suffix}") as partial:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL, 0o600))
        yield partial
        partial.chmod(permissions(0o666))
        sync(partial)
        partial.replace(target)
        sync(target.parent)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, where the system can tell."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def temporary_folder(beside: str | Path) -> Iterator[Path]:
    """Make a folder in another folder; it is removed at the end, unless it was renamed."""
    with _unfinished(beside) as partial:
        partial.mkdir(0o700)
        yield partial


@contextmanager
def locked(folder: str | Path, wait: bool = False) -> Iterator[None]:
    """Keep other processes and calls out of a folder; the system ends this when the process ends.

    With ``wait``, wait until no other has it; otherwise that is a ``ValueError``.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise ValueError(
                f"{folder} is in use by another call that saves its checkpoints there; wait for "
                "its end, or use another folder"
            ) from None
        yield
    finally:
        os.close(handle)


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

    Linux tells the umask. Elsewhere it can only be read by setting it, for a moment and for all
    threads.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return most & ~int(status.partition("\nUmask:")[2].split()[0], 8)
    except (OSError, ValueError, IndexError):
        mask = os.umask(0o022)
        os.umask(mask)
        return most & ~mask
