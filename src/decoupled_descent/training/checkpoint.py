"""Checkpoints: an interrupted call continues with the same results as an uninterrupted one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

import torch
from safetensors import SafetensorError
from torch import Tensor

import decoupled_descent
from decoupled_descent.checks import real_number, whole_number
from decoupled_descent.files import locked, written_whole
from decoupled_descent.rows.processes import Alone
from decoupled_descent.tensor_file import packed, read_tensors, unpacked, write_tensors
from decoupled_descent.training.fingerprint import checksum, described

#: The file in the folder, and the one before it, which is kept where processes must agree on one.
FILE, BEFORE = "checkpoint.safetensors", "before.safetensors"
#: Where calls without ``checkpoint=`` are saved.
_around: ContextVar[Path | None] = ContextVar("around", default=None)


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
    """Take a folder for a checkpoint in it; without one, that of :func:`kept_in`, if any."""
    if checkpoint is None and (folder := _around.get()) is not None:
        return Checkpoint(folder, apart=True)
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return checkpoint
    if not isinstance(checkpoint, str | Path):
        raise ValueError(f"checkpoint={checkpoint!r} must be a folder or a dd.Checkpoint")
    return Checkpoint(checkpoint)


@contextmanager
def kept_in(folder: str | Path) -> Iterator[None]:
    """Save every run that is made in this block in a subfolder, named after its arguments."""
    token = _around.set(Path(folder))
    try:
        yield
    finally:
        _around.reset(token)


class Resumable(Protocol):
    """What can be saved, as PyTorch's modules and optimisers can."""

    def state_dict(self) -> Mapping[str, Any]:
        """All that is needed to continue."""

    def load_state_dict(self, state: Any) -> Any:
        """Continue from that."""


def resumable(callbacks: Sequence[Any]) -> list[Any]:
    """The callbacks that have a state, and so are saved."""
    return [each for each in callbacks if hasattr(each, "load_state_dict")]


@contextmanager
def continued(
    checkpoint: Any,
    asked: Mapping[str, Any],
    runs: Sequence[Resumable],
    processes: Alone = Alone(),  # noqa: B008
) -> Iterator[Callable[[int | None], None]]:
    """Continue runs from what an equal call saved; give a function that saves them.

    Args:
        checkpoint: A folder, a :class:`Checkpoint`, or None.
        asked: The arguments of the call; a call that continues must have the same.
        runs: What is saved.
        processes: Those that save and continue together, each its own part.

    Yields:
        A function of the index of the step that was made, to be called after every step, and with
        None at the end.
    """
    if (where := as_checkpoint(checkpoint)) is None:
        yield lambda _: None
        return
    saver = Saver(where, asked, runs, processes)
    with locked(saver.path.parent):
        saver.load()
        yield saver.save


class Saver:
    """The file of a call: written whole, and compared with the call that reads it."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        asked: Mapping[str, Any],
        runs: Sequence[Resumable],
        processes: Alone,
    ) -> None:
        self.checkpoint, self.runs, self.processes = checkpoint, runs, processes
        self._packed({})  # raises at the start for states that cannot be saved
        self.settings = described({"version": decoupled_descent.__version__, **asked})
        folder = Path(checkpoint.folder)
        if checkpoint.apart:
            folder /= checksum(json.dumps(self.settings).encode())
        self.path = folder / processes.part / FILE
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.number, self._saved = 0, time.monotonic()

    def save(self, index: int | None) -> None:
        """Save after a step if it is time to, or at the end; the file is replaced, or stays."""
        every, now = self.checkpoint.every, time.monotonic()
        if every is not None:
            due = index is None or (index + 1) % every == 0
        else:
            due = self.processes.any(index is None or now - self._saved >= self.checkpoint.seconds)
        if not due:
            return
        tensors: dict[str, Tensor] = {}
        content = {"settings": self.settings, "number": self.number + 1}
        content["runs"] = self._packed(tensors)
        try:
            with written_whole(self.path) as partial:
                write_tensors(partial, tensors, content)
                if self.processes.part and self.path.exists():
                    self.path.replace(self.path.with_name(BEFORE))
        except (OSError, SafetensorError) as error:
            kept = f"The one before it is intact in {self.path}: make" if self.path.exists() else ""
            raise OSError(
                f"the checkpoint cannot be written to {self.path.parent} ({error}). "
                f"{kept or 'Make'} room and call again"
                f"{' to continue from it' if kept else ''}"
            ) from error
        self.number, self._saved = self.number + 1, now

    def load(self) -> None:
        """Continue from the last save that all processes have, if there is one."""
        paths = (self.path, self.path.with_name(BEFORE))
        saves = {each["number"]: each for each in map(self._read, filter(Path.exists, paths))}
        self.number = self.processes.smallest(max(saves, default=0))
        if self.number and self.number not in saves:
            raise ValueError(
                f"{self.path.parent} has not the last save that all processes have; use another "
                "folder to start anew"
            )
        if not self.number:
            return
        try:
            for run, state in zip(self.runs, saves[self.number]["runs"], strict=True):
                run.load_state_dict(state)
        except (LookupError, TypeError, AttributeError, RuntimeError, ValueError) as error:
            _damaged(self.path, f"{type(error).__name__}: {error}")

    def _packed(self, tensors: dict[str, Tensor]) -> Any:
        return packed([run.state_dict() for run in self.runs], tensors)

    def _read(self, path: Path) -> dict[str, Any]:
        """What is in a file, if it is of this call."""
        try:
            tensors, content = read_tensors(path)
            number, settings, tree = (content[name] for name in ("number", "settings", "runs"))
            result = {"number": number + 0, "runs": unpacked(tree, tensors)}
        except (OSError, LookupError, TypeError, RuntimeError, ValueError) as error:
            _damaged(path, str(error))
        for name in self.settings | settings:
            was, now = settings.get(name, "nothing"), self.settings.get(name, "nothing")
            if was != now:
                raise ValueError(
                    f"{path} is of another call: {name} was {was!s:.200} and is now {now:.200}. "
                    "Use what it was to continue, or another folder to start anew"
                )
        return result


def _damaged(path: Path, why: str) -> NoReturn:
    """Raise ``ValueError`` for a file that is not as it was written."""
    why = why.removeprefix(f"{path}: ").removeprefix(f"{path} ").partition("\n")[0].split(";")[0]
    raise ValueError(
        f"{path} is damaged or no checkpoint ({why:.200}): restore it from a copy to continue, or "
        "delete it to start anew"
    )


def rebuilt(like: Any, state: Any, name: str = "state") -> Any:
    """Give the parts of a state the types of another one; raise ``TypeError`` where they differ."""
    if isinstance(like, Mapping | tuple):
        wanted, parts = _parts(like), _parts(state)
        for key in (*wanted, *parts):
            if key not in parts or key not in wanted:
                raise TypeError(f"{'no' if key in wanted else 'a'} {name}.{key}")
        result = {key: rebuilt(wanted[key], parts[key], f"{name}.{key}") for key in wanted}
        if isinstance(like, Mapping):
            return result
        return type(like)(*result.values()) if hasattr(like, "_fields") else tuple(result.values())
    if isinstance(like, Tensor):
        fits = isinstance(state, Tensor) and state.dtype == like.dtype
        if not fits or not _same_shape(like.shape, state.shape):
            shape = tuple(getattr(state, "shape", ()))
            raise TypeError(f"{name} of shape {shape}, not {like.dtype} of {tuple(like.shape)}")
        return state.to(like.device)
    if like is not None and type(state) is not type(like):
        raise TypeError(f"{name} that is not a {type(like).__name__}")
    return state


def _parts(state: Any) -> Mapping[Any, Any]:
    state = state._asdict() if hasattr(state, "_asdict") else state
    return state if isinstance(state, Mapping) else dict(enumerate(state))


def _same_shape(start: torch.Size, now: torch.Size) -> bool:
    """Whether shapes agree; axes that are empty at the start of a run may have grown."""
    return len(start) == len(now) and all(a in (0, b) for a, b in zip(start, now, strict=True))
