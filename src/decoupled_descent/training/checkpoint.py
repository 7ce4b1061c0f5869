"""Checkpoints: an interrupted run continues with the same results as an uninterrupted one."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

import decoupled_descent
from decoupled_descent.checks import real_number, whole_number
from decoupled_descent.descent.info import Info
from decoupled_descent.files import written_whole
from decoupled_descent.rows.processes import Processes
from decoupled_descent.training.callbacks import Callback, Step, StopReason
from decoupled_descent.training.fingerprint import checksum, described
from decoupled_descent.training.folders import Lock, folder_around
from decoupled_descent.training.loop import History, Trainee
from decoupled_descent.training.state_file import (
    MADE,
    damaged,
    flat,
    leaves,
    read,
    rebuilt,
    write,
)

#: The name of the file in the folder.
FILE = "checkpoint.safetensors"
#: The save before it, which is kept where processes must agree on one.
BEFORE = "before.safetensors"
#: The numbers of a history, and of a step.
ERRORS = ("train_error", "train_error_stderr", "test_error")
NUMBERS = ("index", *ERRORS)


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


class Saver:
    """Saves runs that are trained together, and continues from what an earlier call saved.

    ``asked`` has the arguments of the call; a call that continues must have the same.
    """

    def __init__(
        self, checkpoint: Checkpoint, trainees: Sequence[Trainee], asked: Mapping[str, Any]
    ) -> None:
        self.checkpoint, self.trainees = checkpoint, trainees
        callbacks = _lasting(trainees[0].callbacks)
        library = {"version": decoupled_descent.__version__}
        self.settings = described({**library, **asked, "callbacks": callbacks})
        for trainee in trainees:
            flat({"state": trainee.state})  # raises at the start for states that cannot be saved
        self.processes: Processes | None = asked["rows"].processes
        self.path = self._folder() / FILE
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(self.path.parent)
        try:
            self._take_up()
        except (LookupError, TypeError, AttributeError, RuntimeError) as error:  # not written here
            self.close()
            damaged(self.path, f"{type(error).__name__}: {error}")
        except BaseException:
            self.close()
            raise
        self.saved = time.monotonic()

    def _folder(self) -> Path:
        """The folder of this call; each process has its own within it."""
        folder = Path(self.checkpoint.folder)
        if self.checkpoint.apart:
            folder /= checksum(json.dumps(self.settings).encode())
        if self.processes is not None:
            folder /= f"rank {self.processes.rank} of {self.processes.size}"
        return folder

    def close(self) -> None:
        """Let other calls have the folder."""
        self._lock.release()

    def __call__(self, index: int) -> None:
        """Save after a step if it is time to."""
        every, passed = self.checkpoint.every, time.monotonic() - self.saved
        due = (index + 1) % every == 0 if every is not None else passed >= self.checkpoint.seconds
        if every is None and self.processes is not None:  # all save, or none
            flag = torch.tensor([float(due)], device="cpu")
            due = bool(self.processes.total([flag])[0] > 0)
        if due:
            self.write()

    def write(self) -> None:
        """Replace the file, whole or not at all."""
        parts = {str(k): _snapshot(each) for k, each in enumerate(self.trainees)}
        try:
            with written_whole(self.path) as partial:
                made = self.trainees[0].metadata
                write(partial, parts, self.settings, made)  # on the disk before it replaces
                if self.processes is not None and self.path.exists():
                    self.path.replace(self.path.with_name(BEFORE))
        except (OSError, SafetensorError) as error:
            kept = f"The one before it is intact in {self.path}: make" if self.path.exists() else ""
            raise OSError(
                f"the checkpoint cannot be written to {self.path.parent} ({error}). "
                f"{kept or 'Make'} room and call again"
                f"{' to continue from it' if kept else ''}"
            ) from error
        self.saved = time.monotonic()

    def _take_up(self) -> None:
        """Continue from the last save, if there is one that all processes have."""
        for partial in self.path.parent.glob(f".decoupled-*.partial{self.path.suffix}"):
            partial.unlink(missing_ok=True)  # of a call that was killed while it wrote
        paths = (self.path, self.path.with_name(BEFORE))
        saves = [self._saved(path) for path in paths if path.exists()]
        if self.processes is not None:
            common = self.processes.smallest(_length(saves[0]) if saves else 0)
            saves = [save for save in saves if _length(save) == common]
            if common and not saves:
                raise ValueError(
                    f"{self.path.parent} has no save of step {common - 1}, the last that another "
                    "process has; use another folder to start anew"
                )
        for k, trainee in enumerate(self.trainees if saves else ()):
            _restore(trainee, saves[0], f"{k}.", self.path)

    def _saved(self, path: Path) -> dict[str, Any]:
        """What is in a file, if it is of this call."""
        values, settings = read(path)
        for name in self.settings | settings:
            was, now = settings.get(name, "nothing"), self.settings.get(name, "nothing")
            if was != now:
                raise ValueError(
                    f"{path} is of another call: {name} was {was} and is now {now}. Use what "
                    "it was to continue, or another folder to start anew"
                )
        return values


def _length(values: Mapping[str, Any]) -> int:
    """How many steps were made when this was saved."""
    return len(values["0.history.train_error"])


def _lasting(callbacks: Sequence[Callback]) -> list[Any]:
    """The callbacks that are saved: those with ``state_dict``, as PyTorch's modules have it."""
    return [each for each in callbacks if hasattr(each, "load_state_dict")]


def _snapshot(trainee: Trainee) -> dict[str, Any]:
    """The complete state of a run between two steps."""
    history = trainee.history
    return {
        "state": trainee.state,
        "last": _as_mapping(trainee.last),
        "best": _as_mapping(trainee.best),
        "history": {
            name: torch.tensor(getattr(history, name), dtype=torch.float64, device="cpu")
            for name in ERRORS
        },
        "reason": None if trainee.reason is None else trainee.reason.value,
        "message": trainee.message,
        "callbacks": [each.state_dict() for each in _lasting(trainee.callbacks)],
    }


def _as_mapping(step: Step) -> dict[str, Any]:
    info = step.info._asdict() | {"notes": list(step.info.notes.items())}
    return {name: getattr(step, name) for name in (*NUMBERS, "state")} | {"info": info}


def _restore(trainee: Trainee, values: Mapping[str, Any], name: str, path: Path) -> None:
    """Set a run to its saved state."""
    like = trainee.state
    wanted = {f"{name}state.{key}" for key, _ in leaves(like)}
    if missing := wanted - values.keys():
        damaged(path, f"it has no {min(missing)}")

    def step(which: str) -> Step:
        prefix = f"{name}{which}."
        numbers = {key: values[prefix + key] for key in NUMBERS}
        fields = {key: values[f"{prefix}info.{key}"] for key in Info._fields}
        info = Info(**fields | {"notes": dict(fields["notes"])})
        return Step(state=rebuilt(like, values, f"{prefix}state"), info=info, **numbers)

    trainee.state = rebuilt(like, values, f"{name}state")
    trainee.last, trainee.best = step("last"), step("best")
    errors = {key: values[f"{name}history.{key}"].tolist() for key in ERRORS}
    trainee.history = History(**errors)
    trainee.metadata = dict(values[MADE])
    reason = values[f"{name}reason"]
    trainee.reason = None if reason is None else StopReason(reason)
    trainee.message = values[f"{name}message"]
    remembered = values[f"{name}callbacks"]
    for callback, state in zip(_lasting(trainee.callbacks), remembered, strict=True):
        callback.load_state_dict(state)
