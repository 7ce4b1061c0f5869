"""Callbacks: functions that are called after every step and may stop the training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from decoupled_descent.descent.info import Info


class StopReason(StrEnum):
    """Why training ended."""

    STEPS = "steps exhausted"
    CONVERGED = "converged"
    MINIMUM = "at the minimum"
    RISING = "rising"
    PRUNED = "pruned"
    CALLBACK = "stopped by a callback"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"

    @property
    def is_failure(self) -> bool:
        """Whether the run was given up, because others were better or because it diverged."""
        return self in (StopReason.PRUNED, StopReason.DIVERGED)


@dataclass(frozen=True, slots=True)
class Step:
    """What a callback is called with.

    Attributes:
        index: Which iterate, 0 being the starting point.
        train_error: Its train error.
        train_error_stderr: The standard error of that.
        test_error: Its test error, or None without a test set.
        state: The algorithm's state at this iterate (θ, head, …).
        info: Losses row by row, pre-activations, J̄.
    """

    index: int
    train_error: float
    train_error_stderr: float
    test_error: float | None
    state: Any
    info: Info


#: Return None to go on, or a reason (or True) to stop after this step.
Callback = Callable[[Step], "StopReason | bool | None"]


def as_callbacks(callbacks: Callback | Iterable[Callback]) -> list[Callback]:
    """Return the callbacks as a list, a single one too; raise ``ValueError`` for anything else."""
    if isinstance(callbacks, Iterable) and not callable(callbacks):
        several: list[Any] = list(callbacks)
    else:
        several = [callbacks]
    for callback in several:
        if isinstance(callback, type):
            raise ValueError(
                f"callbacks has the class {callback.__name__}; pass an object, "
                f"{callback.__name__}()"
            )
        if not callable(callback):
            raise ValueError(
                f"callbacks has {callback!r}; each must be a function of a Step, such as "
                "EarlyStopping()"
            )
    return several


def ask(callbacks: Iterable[Callback], step: Step) -> StopReason | None:
    """Call every callback; the first one that stops gives the reason."""
    answers = [callback(step) for callback in callbacks]
    for answer in answers:
        if answer:
            return answer if isinstance(answer, StopReason) else StopReason.CALLBACK
    return None
