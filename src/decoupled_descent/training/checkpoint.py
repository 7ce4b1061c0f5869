"""Checkpoints: an interrupted run continues with the same results as an uninterrupted one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from decoupled_descent.descent.info import Info
from decoupled_descent.rows.processes import Processes
from decoupled_descent.training.callbacks import Callback, Step, StopReason
from decoupled_descent.training.checkpoint_file import Checkpoint, CheckpointFile
from decoupled_descent.training.loop import History, Trainee
from decoupled_descent.training.state_file import MADE, damaged, flat, leaves, rebuilt

#: The numbers of a history, and of a step.
ERRORS = ("train_error", "train_error_stderr", "test_error", "fitted_error")
NUMBERS = ("index", *ERRORS[:3])


class Saver:
    """Saves runs that are trained together, and continues from what an earlier call saved.

    ``asked`` has the arguments of the call; a call that continues must have the same.
    """

    def __init__(
        self, checkpoint: Checkpoint, trainees: Sequence[Trainee], asked: Mapping[str, Any]
    ) -> None:
        self.trainees = trainees
        for trainee in trainees:
            flat({"state": trainee.state})  # raises at the start for states that cannot be saved
        self.processes: Processes | None = asked["rows"].processes
        here = self.processes
        part = "" if here is None else f"rank {here.rank} of {here.size}"
        asked = {**asked, "callbacks": lasting(trainees[0].callbacks)}
        self.file = CheckpointFile(checkpoint, asked, part)
        try:
            self._take_up()
        except (LookupError, TypeError, AttributeError, RuntimeError, ArithmeticError) as error:
            self.close()  # the file was not written by this class
            damaged(self.file.path, f"{type(error).__name__}: {error}")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let other calls have the folder."""
        self.file.close()

    def __call__(self, index: int) -> None:
        """Save after a step if it is time to."""
        due = self.file.due(index)
        if self.file.checkpoint.every is None and self.processes is not None:  # all save, or none
            flag = torch.tensor([float(due)], device="cpu")
            due = bool(self.processes.total([flag])[0] > 0)
        if due:
            self.write()

    def write(self) -> None:
        """Replace the file, whole or not at all."""
        parts = {str(k): _snapshot(each) for k, each in enumerate(self.trainees)}
        made = self.trainees[0].metadata
        self.file.write(parts, made, keep_before=self.processes is not None)

    def _take_up(self) -> None:
        """Continue from the last save, if there is one that all processes have."""
        saves = self.file.saves()
        if self.processes is not None:
            common = self.processes.smallest(_length(saves[0]) if saves else 0)
            saves = [save for save in saves if _length(save) == common]
            if common and not saves:
                raise ValueError(
                    f"{self.file.path.parent} has no save of step {common - 1}, the last that "
                    "another process has; use another folder to start anew"
                )
        for k, trainee in enumerate(self.trainees if saves else ()):
            _restore(trainee, saves[0], f"{k}.", self.file.path)


def _length(values: Mapping[str, Any]) -> int:
    """How many steps were made when this was saved."""
    return len(values["0.history.train_error"])


def lasting(callbacks: Sequence[Callback]) -> list[Any]:
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
        "callbacks": [each.state_dict() for each in lasting(trainee.callbacks)],
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
        if not isinstance(numbers["index"], int) or not isinstance(numbers["train_error"], float):
            raise TypeError(f"{prefix}index or {prefix}train_error is not a number")
        fields = {key: values[f"{prefix}info.{key}"] for key in Info._fields}
        info = Info(**fields | {"notes": dict(fields["notes"])})
        return Step(state=rebuilt(like, values, f"{prefix}state"), info=info, **numbers)

    trainee.state = rebuilt(like, values, f"{name}state")
    trainee.last, trainee.best = step("last"), step("best")
    errors = {key: values[f"{name}history.{key}"] for key in ERRORS}
    train, stderr, *others = (tuple(errors[key].shape) for key in ERRORS)
    if train != (trainee.last.index + 1,) or stderr != train or set(others) - {train, (0,)}:
        raise TypeError(f"the history has shapes {train}, {stderr} and {others}")
    trainee.history = History(**{key: value.tolist() for key, value in errors.items()})
    trainee.metadata = dict(values[MADE])
    reason = values[f"{name}reason"]
    trainee.reason = None if reason is None else {one.value: one for one in StopReason}[reason]
    trainee.message = values[f"{name}message"]
    remembered = values[f"{name}callbacks"]
    for callback, state in zip(lasting(trainee.callbacks), remembered, strict=True):
        callback.load_state_dict(state)
