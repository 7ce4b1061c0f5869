"""The file of one call in a folder: locked, written whole, and compared with the call."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

import decoupled_descent
from decoupled_descent.checks import real_number, whole_number
from decoupled_descent.files import written_whole
from decoupled_descent.training.fingerprint import checksum, described
from decoupled_descent.training.folders import Lock, folder_around
from decoupled_descent.training.state_file import read, write

#: The name of the file in the folder.
FILE = "checkpoint.safetensors"
#: The save before it, which is kept where processes must agree on one.
BEFORE = "before.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is saved while it goes on, and how often.

    Args:
        folder: Where; made if missing. A folder belongs to one call.
        every: Save after this many steps; by default, ``seconds`` decides.
        seconds: Save when this many seconds have passed since the last save.
        apart: Whether each call with other arguments gets its own subfolder.

    Example:
        >>> import tempfile, decoupled_descent as dd
        >>> X, y = dd.mixtures.xor(dimension=50, snr=6.0).sample(80, seed=0)
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> algorithm = dd.DecoupledDescent(0.05)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     often = dd.Checkpoint(folder, every=10)
        ...     run = dd.fit(X, y, objective, algorithm, 40, checkpoint=often)
        ...     again = dd.fit(X, y, objective, algorithm, 40, checkpoint=often)  # reads a file
        >>> run.history == again.history
        True
    """

    folder: str | Path
    every: int | None = None
    seconds: float = 30.0
    apart: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        """Check the options."""
        if self.every is not None:
            whole_number("every", self.every)
        if real_number("seconds", self.seconds) < 0:
            raise ValueError(f"seconds={self.seconds!r} must be at least 0")

    def within(self, name: str) -> Checkpoint:
        """Return the same in a folder of that folder."""
        return replace(self, folder=Path(self.folder) / name)


def as_checkpoint(checkpoint: Any) -> Checkpoint | None:
    """Take a folder for a checkpoint in it; raise ``ValueError`` for anything else.

    Without one, a folder of :func:`kept_in` around the call is taken.
    """
    if checkpoint is None and (folder := folder_around()) is not None:
        return Checkpoint(folder, apart=True)
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return checkpoint
    if not isinstance(checkpoint, str | Path):
        raise ValueError(f"checkpoint={checkpoint!r} must be a folder or a dd.Checkpoint")
    return Checkpoint(checkpoint)


class CheckpointFile:
    """The file that a call saves its state in, and that the same call continues from.

    Args:
        checkpoint: Where, and how often.
        asked: The arguments of the call; a call that continues must have the same.
        part: The name of a folder within the folder, for one of several processes.
    """

    def __init__(self, checkpoint: Checkpoint, asked: Mapping[str, Any], part: str = "") -> None:
        self.checkpoint = checkpoint
        self.settings = described({"version": decoupled_descent.__version__, **asked})
        folder = Path(checkpoint.folder)
        if checkpoint.apart:
            folder /= checksum(json.dumps(self.settings).encode())
        self.path = folder / part / FILE
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(self.path.parent)
        for partial in self.path.parent.glob(f".decoupled-*.partial{self.path.suffix}"):
            partial.unlink(missing_ok=True)  # of a call that was killed while it wrote
        self._saved = time.monotonic()

    def close(self) -> None:
        """Let other calls have the folder."""
        self._lock.release()

    def due(self, index: int) -> bool:
        """Whether to save after this step."""
        every = self.checkpoint.every
        if every is not None:
            return (index + 1) % every == 0
        return time.monotonic() - self._saved >= self.checkpoint.seconds

    def saves(self) -> list[dict[str, Any]]:
        """What the files have, the last save first; raise ``ValueError`` for another call's."""
        paths = (self.path, self.path.with_name(BEFORE))
        return [self._read(path) for path in paths if path.exists()]

    def write(
        self, parts: Mapping[str, Any], made: Mapping[str, Any], keep_before: bool = False
    ) -> None:
        """Replace the file, whole or not at all; the one before it may be kept beside it."""
        try:
            with written_whole(self.path) as partial:
                write(partial, parts, self.settings, made)
                if keep_before and self.path.exists():
                    self.path.replace(self.path.with_name(BEFORE))
        except (OSError, SafetensorError) as error:
            kept = f"The one before it is intact in {self.path}: make" if self.path.exists() else ""
            raise OSError(
                f"the checkpoint cannot be written to {self.path.parent} ({error}). "
                f"{kept or 'Make'} room and call again"
                f"{' to continue from it' if kept else ''}"
            ) from error
        self._saved = time.monotonic()

    def _read(self, path: Path) -> dict[str, Any]:
        """What is in a file, if it is of this call."""
        values, settings = read(path)
        for name in self.settings | settings:
            was, now = settings.get(name, "nothing"), self.settings.get(name, "nothing")
            if was != now:
                raise ValueError(
                    f"{path} is of another call: {name} was {was!s:.200} and is now {now:.200}. "
                    "Use what it was to continue, or another folder to start anew"
                )
        return values
