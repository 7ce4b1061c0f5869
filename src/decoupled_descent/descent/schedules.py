"""Schedules of rates: functions of the step, and PyTorch's schedulers as tables of rates."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from decoupled_descent.quiet import ignoring

#: A function of the step that returns a factor, or of an optimiser that returns a scheduler.
Schedule = Callable[[Any], Any]


class Unrolled:
    """The rates (lr, momentum) of every step, computed when first needed.

    A scheduler of PyTorch has a state that changes with every step. A table of its rates depends on
    the step alone, so that runs can be repeated, stacked and continued.

    Example:
        >>> [round(Unrolled(lambda step: 0.5**step, 0.2, 0.9)[k][0], 3) for k in range(3)]
        [0.2, 0.1, 0.05]
    """

    def __init__(self, schedule: Schedule | None, lr: float, momentum: float = 0.0) -> None:
        self.schedule, self.lr, self.momentum = schedule, lr, momentum
        self.by_scheduler = schedule is not None and makes_scheduler(schedule, lr, momentum)
        self._rates: list[tuple[float, float]] = []
        self._end: str | None = None

    def __getitem__(self, step: int) -> tuple[float, float]:
        """Return lr and momentum; ``IndexError`` past the end of a schedule that has one."""
        if self.schedule is None:
            return self.lr, self.momentum
        if not self.by_scheduler:
            factor = self.schedule(step)
            try:
                return self.lr * float(factor), self.momentum
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"schedule returned {factor!r} for step {step}; it must be a function of the "
                    "step that returns a number, or make a torch.optim.lr_scheduler for an "
                    "optimiser"
                ) from error
        if step >= len(self._rates) and self._end is None:
            self._unroll(2 * step + 64)
        if step >= len(self._rates):
            raise IndexError(
                f"the schedule has no rate for step {step}: {self._end}. Make the schedule longer "
                "or train for fewer steps"
            )
        return self._rates[step]

    def _unroll(self, count: int) -> None:
        """Run a fresh scheduler for ``count`` steps, or to its end."""
        assert self.schedule is not None
        optimiser = _dummy(self.lr, self.momentum)
        group, rates = optimiser.param_groups[0], []
        scheduler = self.schedule(optimiser)
        for step in range(count):
            rates.append((float(group["lr"]), float(group["momentum"])))
            optimiser.step()
            try:
                with ignoring(UserWarning):  # of steps counted by hand
                    scheduler.step()
            except (ValueError, IndexError, StopIteration) as error:
                self._end = f"{type(scheduler).__name__} ends after step {step} ({error})"
                break
        self._rates = rates


def makes_scheduler(schedule: Schedule, lr: float, momentum: float = 0.0) -> bool:
    """Tell the two kinds of schedules apart; refuse schedulers that watch the error.

    A class of schedulers, or a partial call of one, is used as it is, and its own errors are not
    hidden. Any other function is tried on an optimiser.
    """
    if not callable(schedule):
        raise ValueError(
            f"schedule={schedule!r} must be a function of the step that returns what multiplies "
            "lr, or make a torch.optim.lr_scheduler, such as functools.partial("
            "torch.optim.lr_scheduler.StepLR, step_size=30)"
        )
    kind = schedule.func if isinstance(schedule, partial) else schedule
    is_scheduler = inspect.isclass(kind) and issubclass(kind, LRScheduler)
    try:
        made = schedule(_dummy(lr, momentum))
    except Exception as error:
        if is_scheduler:
            raise ValueError(f"schedule={schedule!r} cannot be made: {error}") from error
        return False
    if isinstance(made, ReduceLROnPlateau):
        raise ValueError(
            "schedule=ReduceLROnPlateau watches the error, but a rule is a function of the step "
            "alone; use EarlyStopping, lower the rate, and continue with fit(…, state=run.state)"
        )
    return isinstance(made, LRScheduler)


def _dummy(lr: float, momentum: float) -> torch.optim.SGD:
    """An optimiser of nothing, whose rates a scheduler can change."""
    return torch.optim.SGD([torch.zeros(1, device="cpu")], lr=lr, momentum=momentum)
