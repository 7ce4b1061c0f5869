"""Folders of checkpoints: one call at a time, and one folder for all calls within a block."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None

#: Where calls without ``checkpoint=`` are saved.
_around: ContextVar[Path | None] = ContextVar("around", default=None)


class Lock:
    """A lock on a folder for one call; the system releases it when the process ends.

    Args:
        folder: The folder.
        wait: Whether to wait until no other call has it; otherwise that is an error.
    """

    def __init__(self, folder: Path, wait: bool = False) -> None:
        self._handle = -1
        if fcntl is None:
            return
        self._handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            self.release()
            if wait:
                raise
            raise ValueError(
                f"{folder} is in use by another call that saves its checkpoints there; wait for "
                "its end, or use another folder"
            ) from None

    def __enter__(self) -> Lock:
        """The folder is locked already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the folder."""
        self.release()

    def release(self) -> None:
        """Release the folder for other calls."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


@contextmanager
def kept_in(folder: str | Path) -> Iterator[None]:
    """Save every run that is made in this block, each in its own subfolder.

    The folder is named after the arguments of the call, so that the same call finds what it saved.

    Example:
        >>> import tempfile, decoupled_descent as dd
        >>> X, y = dd.mixtures.xor(dimension=20, snr=6.0).sample(30, seed=0)
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> with tempfile.TemporaryDirectory() as folder, kept_in(folder):
        ...     run = dd.fit(X, y, objective, dd.DecoupledDescent(0.05), 5)
        ...     len(list(Path(folder).iterdir()))
        1
    """
    token = _around.set(Path(folder))
    try:
        yield
    finally:
        _around.reset(token)


def folder_around() -> Path | None:
    """Where calls without ``checkpoint=`` are saved; None outside such a block."""
    return _around.get()
