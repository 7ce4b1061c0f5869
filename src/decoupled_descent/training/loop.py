"""The training loop: one run or many on the same rows, advanced step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeGuard

import numpy as np
import torch
from torch import Tensor

from decoupled_descent.descent.common import Info, OnePassDescent
from decoupled_descent.descent.passes import one_pass
from decoupled_descent.objective.objective import Direction, Objective
from decoupled_descent.rows.blocks import Rows, _as_tensor, as_floats
from decoupled_descent.rows.products import forward
from decoupled_descent.training.callbacks import Callback, Step, StopReason


class Algorithm(Protocol):
    """What ``fit`` needs of an algorithm."""

    estimates_test_error: ClassVar[bool]

    @property
    def g(self) -> Direction | None:
        """What replaces ∇_hΨ, if anything does."""
        ...

    @property
    def trains_head(self) -> bool:
        """Whether the head moves along its gradient."""
        ...

    def assumptions(self) -> frozenset[str]:
        """Return what the train error relies on."""
        ...

    def leverages(self, rows: Rows) -> Tensor | None:
        """Return the share of each row in its own fitted value."""
        ...

    def row_shares(self, rows: Rows) -> Tensor | None:
        """Return how much each row counts in J̄."""
        ...

    def init(
        self, rows: Rows, objective: Objective, theta: Tensor | None = None, seed: int | None = None
    ) -> Any:
        """Return the starting state."""
        ...

    def step(self, state: Any, rows: Rows, objective: Objective) -> tuple[Any, Info]:
        """Return the next state and what was seen at this one."""
        ...


@dataclass
class History:
    """Errors of every iterate so far; entry 0 is the starting point.

    Attributes:
        train_error: Mean losses.
        train_error_stderr: Their standard errors.
        test_error: Mean losses on the test set; empty without one.
    """

    train_error: list[float] = field(default_factory=list)
    train_error_stderr: list[float] = field(default_factory=list)
    test_error: list[float] = field(default_factory=list)
    _lowest: float = field(default=math.inf, repr=False)

    @property
    def lowest(self) -> float:
        """The lowest train error so far."""
        return self._lowest

    def append(self, step: Step) -> None:
        """Record one iterate."""
        self.train_error.append(step.train_error)
        self._lowest = min(self._lowest, step.train_error)
        self.train_error_stderr.append(step.train_error_stderr)
        if step.test_error is not None:
            self.test_error.append(step.test_error)


class Trainee:
    """One run in the making: its state, its history and whether it is still going."""

    def __init__(
        self, objective: Objective, algorithm: Algorithm, state: Any, callbacks: Sequence[Callback]
    ) -> None:
        self.objective, self.algorithm = objective, algorithm
        self.state, self.callbacks = state, callbacks
        self.history = History()
        self.reached = self.best = state
        self.best_losses = self.best_preactivations = torch.empty(0)
        self.losses = torch.empty(0)  # of the iterate last recorded
        self.reason: StopReason | None = None
        self.message = ""

    def record(self, following: Any, info: Info, test_error: float | None) -> None:
        """Take note of the current iterate, ask the callbacks, and move on or stop."""
        error, stderr = info.train_error, info.train_error_stderr
        index = len(self.history.train_error)
        if not math.isfinite(error):
            self.stop(StopReason.DIVERGED, self._divergence(index, error))
            return
        if index == 0 or error < self.history.lowest:
            self.best, self.best_losses = self.state, info.losses
            self.best_preactivations = info.preactivations
        step = Step(index, error, stderr, test_error, self.state, info)
        self.history.append(step)
        self.reached, self.losses = self.state, info.losses
        answer = ask(self.callbacks, step)
        if answer is not None:
            self.stop(answer, f"{answer} at step {index}")
        self.state = following

    def stop(self, reason: StopReason, message: str) -> None:
        """End the run."""
        self.reason, self.message = reason, message

    def _divergence(self, index: int, error: float) -> str:
        if index == 0:
            raise ValueError(
                f"the train error of the starting point is {error}; check the scale of theta, X "
                "and y"
            )
        finite = bool(torch.isfinite(self.state.theta).all())
        what = "the loss" if finite else "theta"
        return (
            f"the train error became {error} at step {index} ({what} is not finite any more; the "
            f"error before was {self.history.train_error[-1]:.4g}); the run ends at step "
            f"{index - 1}. Decoupled descent grows without bound where there is no signal to "
            "learn: use damping below 1, a smaller lr, or the best step of this run"
        )


def train_together(
    trainees: Sequence[Trainee],
    rows: Rows,
    steps: int,
    test: Rows | None,
    advance: Callable[[int, str], None],
    after_step: Callable[[int, list[Trainee]], None] | None = None,
) -> None:
    """Advance runs that share their rows, step by step, until each has its reason to end.

    Args:
        trainees: The runs.
        rows: The data.
        steps: T, the most iterates that a run may have.
        test: Held-out rows whose error is recorded, or None.
        advance: Told how many steps are done.
        after_step: Called after each step with its index and the runs that go on.
    """
    going = list(trainees)
    try:
        for index in range(steps):
            errors = _test_errors(going, test)
            moves = _step_together(going, rows)
            for trainee, (following, info), error in zip(going, moves, errors, strict=True):
                trainee.record(following, info, error)
            going = [trainee for trainee in going if trainee.reason is None]
            if after_step is not None:
                after_step(index, going)
                going = [trainee for trainee in going if trainee.reason is None]
            if not going:
                return
            lowest = min(trainee.history.lowest for trainee in going)
            advance(index + 1, f"lowest train error {lowest:.4f}")
        for trainee in going:
            trainee.stop(StopReason.STEPS, f"all {steps} steps were made")
    except KeyboardInterrupt:
        if not all(trainee.history.train_error for trainee in trainees):
            raise
        for trainee in going:
            last = len(trainee.history.train_error) - 1
            trainee.stop(StopReason.INTERRUPTED, f"interrupted after step {last}")


def _step_together(going: Sequence[Trainee], rows: Rows) -> list[tuple[Any, Info]]:
    """One step each, with one common pass for the algorithms that need no more than a pass."""
    requests = [
        t.algorithm.request(t.state, rows, t.objective)
        for t in going
        if len(going) > 1 and _needs_one_pass(t.algorithm)
    ]
    if not requests:
        return [t.algorithm.step(t.state, rows, t.objective) for t in going]
    answers = iter(one_pass(rows, requests))
    return [
        t.algorithm.advance(t.state, rows, next(answers))
        if _needs_one_pass(t.algorithm)
        else t.algorithm.step(t.state, rows, t.objective)
        for t in going
    ]


def _needs_one_pass(algorithm: Any) -> TypeGuard[OnePassDescent[Any]]:
    """Whether a step is a pass and what follows from it, as long as nobody has overridden it."""
    return isinstance(algorithm, OnePassDescent) and type(algorithm).step is OnePassDescent.step


def _test_errors(going: Sequence[Trainee], test: Rows | None) -> list[float | None]:
    """Test errors at plain xθ, all runs in one product."""
    if test is None:
        return [None] * len(going)
    stacked = forward(torch.cat([trainee.state.theta for trainee in going]), test.X)
    parts = torch.split(stacked, [len(trainee.state.theta) for trainee in going])
    errors: list[float | None] = []
    with torch.no_grad():
        for trainee, h in zip(going, parts, strict=True):
            losses = trainee.objective.losses(h.T, test.y, trainee.state.head)
            errors.append(float(losses.mean()))
    return errors


def ask(callbacks: Sequence[Callback], step: Step) -> StopReason | None:
    """Call every callback; the first that wants to stop decides why."""
    answers = [callback(step) for callback in callbacks]
    for answer in answers:
        if answer:
            return answer if isinstance(answer, StopReason) else StopReason.CALLBACK
    return None


def check_rows(X: Any, y: Any, steps: int) -> Rows:
    """Check the data and the number of steps before any work is done."""
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise ValueError(f"steps={steps!r} must be a whole number of at least 1")
    if isinstance(X, Rows):
        if y is not None:
            raise ValueError("y must be None where X is Rows, which has labels of its own")
        return X
    return Rows(X, y)


def check_test(
    test: tuple[Any, Any] | None, rows: Rows, trainees: Sequence[Trainee]
) -> Rows | None:
    """Check the test set like the training set, and bring it to its dtype and device."""
    if test is None:
        return None
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise ValueError(f"test must be a pair (X_test, y_test), not {type(test).__name__}")
    try:
        features, labels = as_floats("X", test[0]).to(rows.X), _as_tensor("y", test[1])
        if len(features) == 1 and labels.shape[:1] == (1,):  # counted twice, its mean is the same
            features, labels = features.repeat(2, 1), torch.cat([labels, labels])
        held_out = Rows(features, labels)
        for trainee in trainees:
            trainee.objective.check(held_out.y, len(trainee.state.theta), held_out.X)
    except ValueError as error:
        raise ValueError(f"test: {error}") from error
    if held_out.d != rows.d:
        raise ValueError(f"test has {held_out.d} columns but X has {rows.d}; they must be the same")
    return held_out
