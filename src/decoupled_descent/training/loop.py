"""The training loop: one run or many on the same rows, advanced step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from decoupled_descent.descent.common import Algorithm
from decoupled_descent.descent.info import Info
from decoupled_descent.descent.requests import run_stacked, with_global_error
from decoupled_descent.objective import BoundObjective
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.sources import as_source
from decoupled_descent.rows.tensors import as_floats, as_tensor
from decoupled_descent.training.callbacks import Callback, Step, StopReason, ask
from decoupled_descent.training.checkpoint import rebuilt, resumable
from decoupled_descent.training.metadata import made_with

#: A finite train error that has grown by this factor over the start leads to a warning.
EXPLOSION = 1e3
#: So has one that grows by this factor in so many steps.
LEAP, EARLY = 10.0, 10
#: What to do about it.
REMEDY = (
    "Use a smaller lr, damping below 1 (decoupled descent grows without bound where there is no "
    "signal to learn), or the best step of this run"
)


@dataclass
class History:
    """Errors of every iterate so far; entry 0 is the starting point.

    Attributes:
        train_error: Mean losses.
        train_error_stderr: Their standard errors.
        test_error: Mean losses on the test set; empty without one.
        fitted_error: Mean losses without a correction, where ``train_error`` has an estimate
            beside them; else empty.
    """

    train_error: list[float] = field(default_factory=list)
    train_error_stderr: list[float] = field(default_factory=list)
    test_error: list[float] = field(default_factory=list)
    fitted_error: list[float] = field(default_factory=list)

    @property
    def lowest(self) -> float:
        """The lowest train error so far."""
        return min(self.train_error)

    def append(self, step: Step) -> None:
        """Record one iterate."""
        self.train_error.append(step.train_error)
        self.train_error_stderr.append(step.train_error_stderr)
        if step.test_error is not None:
            self.test_error.append(step.test_error)
        if step.info.fitted is not None:
            self.fitted_error.append(step.info.fitted)

    def cut(self, length: int) -> None:
        """Keep the first iterates only."""
        errors = (self.train_error, self.train_error_stderr, self.test_error, self.fitted_error)
        for values in errors:
            del values[length:]


class Trainee:
    """A run during training: its state, its history and whether it has ended."""

    remedy = REMEDY  # what to do about an error that grows without bound
    best: Step  # the iterate with the lowest train error
    last: Step  # the iterate recorded last

    def __init__(
        self,
        bound: BoundObjective,
        algorithm: Algorithm,
        state: Any,
        callbacks: Sequence[Callback],
    ) -> None:
        self.bound, self.algorithm = bound, algorithm
        self.state, self.callbacks = state, callbacks
        self.history = History()
        self.reason: StopReason | None = None
        self.message = ""
        self.metadata: dict[str, Any] = {}  # what it was made with

    def record(self, following: Any, info: Info, test_error: float | None) -> None:
        """Record the current iterate, ask the callbacks, and continue or stop."""
        error, index = info.train_error, len(self.history.train_error)
        if not math.isfinite(error):
            self.stop(StopReason.DIVERGED, self._divergence(index, error))
            return
        step = Step(index, error, info.train_error_stderr, test_error, self.state, info)
        better = index == 0 or (not info.estimates, error) < (
            not self.best.info.estimates,
            self.best.train_error,
        )
        self.history.append(step)
        # One assignment, so that Ctrl-C comes before or after it; ``settle`` undoes the line above.
        vars(self).update(best=step if better else self.best, last=step, state=following)
        answer = ask(self.callbacks, step)
        if info.finished:
            self.stop(StopReason.MINIMUM, f"the minimum was reached at step {index}")
        elif answer is not None:
            self.stop(answer, f"{answer} at step {index}")

    def settle(self) -> bool:
        """Remove an iterate that was only partly recorded; return whether any was recorded."""
        if "last" not in vars(self):
            return False
        self.history.cut(self.last.index + 1)
        return True

    def stop(self, reason: StopReason, message: str) -> None:
        """End the run."""
        self.reason, self.message = reason, message

    def go_on_with(self, made: Mapping[str, Any]) -> None:
        """Note what it is made with; or what differs, if it began in another process."""
        other = {name: value for name, value in made.items() if self.metadata.get(name) != value}
        if other:
            self.metadata |= {"continued with": other} if self.metadata else other

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to continue between two steps."""
        steps = [(name, vars(self)[name]) for name in ("last", "best") if name in vars(self)]
        return {
            "state": self.state,
            **{name: {f.name: getattr(step, f.name) for f in fields(step)} for name, step in steps},
            "history": {
                name: torch.tensor(errors, dtype=torch.float64, device="cpu")
                for name, errors in vars(self.history).items()
            },
            "reason": self.reason,
            "message": self.message,
            "metadata": self.metadata,
            "callbacks": [each.state_dict() for each in resumable(self.callbacks)],
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        start = self.state
        self.state = rebuilt(start, saved["state"])
        for name in ("last", "best"):
            step = saved[name] | {"info": Info(**saved[name]["info"])}
            setattr(self, name, Step(**step | {"state": rebuilt(start, step["state"])}))
        errors = {name: values.tolist() for name, values in saved["history"].items()}
        self.history = History(**errors)
        if len(self.history.train_error) != self.last.index + 1:
            raise ValueError(f"the history does not end at step {self.last.index}")
        self.reason = None if saved["reason"] is None else StopReason(saved["reason"])
        self.message, self.metadata = saved["message"], saved["metadata"]
        for callback, state in zip(resumable(self.callbacks), saved["callbacks"], strict=True):
            callback.load_state_dict(state)

    @staticmethod
    def test_errors(going: Sequence[Any], test: Any) -> Sequence[float | None]:
        """Test errors at plain xθ, all runs in one product."""
        stacked = test.forward(torch.cat([trainee.state.theta for trainee in going]))
        parts = torch.split(stacked, [len(trainee.state.theta) for trainee in going])
        with torch.no_grad():
            return [
                float(trainee.bound.losses(h.T, test.y, trainee.state.head).mean())
                for trainee, h in zip(going, parts, strict=True)
            ]

    @property
    def alarm(self) -> str | None:
        """The warning at the end of a run whose error is not finite or has exploded, else None."""
        if self.reason is StopReason.DIVERGED:
            return self.message
        if self.reason is StopReason.MINIMUM:
            return None
        if self.algorithm.estimates_test_error and not self.best.info.estimates:
            return (
                f"the minimum was not reached in {self.last.index} steps ({self.reason}), and the "
                "train error estimates the test error at the minimum only: allow more steps"
            )
        first, last = self.history.train_error[0], self.history.train_error[-1]
        usual = max(abs(first), abs(self.history.lowest)) or 1.0
        leap = max(self.history.train_error[: EARLY + 1])
        if not last > EXPLOSION * usual and leap > LEAP * usual:
            return (
                f"the train error rose from {first:.4g} to {leap:.4g} within {EARLY} steps: the "
                "learning rate is too large; use a smaller lr"
            )
        if not last > EXPLOSION * usual:
            return None
        return (
            f"the train error grew from {first:.4g} to {last:.4g} in {self.last.index} steps. "
            f"{self.remedy}, step {self.best.index}"
        )

    def _divergence(self, index: int, error: float) -> str:
        if index == 0:
            raise ValueError(
                f"the train error of the starting point is {error}; check the scale of theta, X "
                "and y"
            )
        finite = bool(torch.isfinite(self.state.theta).all())
        what = "the loss" if finite else "theta"
        return (
            f"the train error became {error} at step {index} ({what} is no longer finite; the "
            f"error before was {self.last.train_error:.4g}); the run ends at step {index - 1}. "
            f"{self.remedy}"
        )


def train_together(
    trainees: Sequence[Trainee],
    rows: Rows,
    steps: int,
    test: Rows | None,
    advance: Callable[[int, str], None],
    after_step: Callable[[int, list[Trainee]], None] | None = None,
    save: Callable[[int | None], None] = lambda _: None,
) -> None:
    """Advance runs that share their rows, step by step, until each ends.

    ``advance`` is called with the number of steps made, ``after_step`` after each step with its
    index and the runs that go on. ``save`` then may save them all, and does so at the end.
    """
    going = _unfinished(trainees)
    try:
        if not going:  # all were done in an earlier call
            return
        for trainee in going:
            trainee.go_on_with(made_with(rows))
        for index in range(len(going[0].history.train_error), steps):
            going = _step_together(going, rows, test)
            if after_step is not None:
                after_step(index, going)
                going = _unfinished(going)
            if not going:
                break
            save(index)
            lowest = min(trainee.best.train_error for trainee in going)
            advance(index + 1, f"lowest train error {lowest:.4f}")
        for trainee in going:
            trainee.stop(StopReason.STEPS, f"all {steps} steps were made")
        save(None)
    except KeyboardInterrupt:  # the saved state stays: the next call continues it
        recorded = [trainee.settle() for trainee in trainees]
        if not all(recorded):
            raise
        for trainee in _unfinished(going):
            last = len(trainee.history.train_error) - 1
            trainee.stop(StopReason.INTERRUPTED, f"interrupted after step {last}")


def _unfinished(trainees: Sequence[Trainee]) -> list[Trainee]:
    """The runs that have not ended."""
    return [trainee for trainee in trainees if trainee.reason is None]


def _step_together(going: Sequence[Trainee], rows: Rows, test: Rows | None) -> list[Trainee]:
    """Record the iterates of all runs and make their next steps; return the runs that go on."""
    errors = [None] * len(going) if test is None else going[0].test_errors(going, test)
    for trainee, (following, info), error in zip(
        going, make_steps(going, rows), errors, strict=True
    ):
        trainee.record(following, info, error)
    return _unfinished(going)


def make_steps(going: Sequence[Trainee], rows: Rows) -> list[tuple[Any, Info]]:
    """The next state and the info of each run: stacked steps together, the others one by one."""
    steps = [t.algorithm.stacked_step(t.state, rows, t.bound) for t in going]
    stacked = iter(run_stacked([step for step in steps if step is not None], rows))

    def alone(trainee: Trainee) -> tuple[Any, Info]:
        following, info = trainee.algorithm.step(trainee.state, rows, trainee.bound)
        return following, with_global_error(info, rows)

    return [
        alone(trainee) if step is None else next(stacked)
        for trainee, step in zip(going, steps, strict=True)
    ]


def check_test(
    test: tuple[Any, Any] | None, rows: Rows, trainees: Sequence[Trainee]
) -> Rows | None:
    """Check the test set like the training set, and bring it to its dtype and device."""
    if test is None:
        return None
    X, y = as_pair(test)
    try:
        held_out = _held_out(X, y, rows)
        for trainee in trainees:
            trainee.bound.objective.check(held_out.y, trainee.bound.width, held_out.like)
    except ValueError as error:
        raise ValueError(f"test: {error}") from error
    if held_out.d != rows.d:
        raise ValueError(f"test has {held_out.d} columns but X has {rows.d}; they must be the same")
    return held_out


def as_pair(test: Any) -> tuple[Any, Any]:
    """New rows and their labels."""
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise ValueError(f"test must be a pair (X_test, y_test), not {type(test).__name__}")
    return test[0], test[1]


def _held_out(X: Any, y: Any, rows: Rows) -> Rows:
    if (source := as_source(X)) is not None:
        return Rows(source.to(rows.like.dtype), y)
    features, labels = as_floats("X", X).to(rows.like), as_tensor("y", y)
    if len(features) == 1 and labels.shape[:1] == (1,):  # counted twice, its mean is the same
        features, labels = features.repeat(2, 1), torch.cat([labels, labels])
    return Rows(features, labels)
