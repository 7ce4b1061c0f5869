"""``fit``: the training loop, its history and its result."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from decoupled_descent.callbacks import Callback, Step, StopReason, progress_bar
from decoupled_descent.data.rows import Rows, as_floats
from decoupled_descent.descent.common import Info
from decoupled_descent.descent.passes import one_pass
from decoupled_descent.objective import Objective


class DivergenceWarning(RuntimeWarning):
    """The error stopped being finite; training ended at the last finite step."""


class Algorithm(Protocol):
    """What ``fit`` needs of an algorithm."""

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


@dataclass(frozen=True)
class Run:
    """The result of :func:`fit`.

    Attributes:
        objective: What was minimised.
        algorithm: How.
        history: The errors, step by step.
        state: The algorithm's state at the last recorded iterate.
        best_state: Its state at the iterate with the lowest train error.
        best_losses: Row by row, the losses whose mean that train error is, shape (n,).
        stop_reason: Why training ended.
        message: The same in a sentence.
    """

    objective: Objective
    algorithm: Algorithm
    history: History
    state: Any
    best_state: Any
    best_losses: Tensor
    stop_reason: StopReason
    message: str

    def __repr__(self) -> str:
        """Summarise in one line."""
        last, stderr = self.train_error[-1], self.train_error_stderr[-1]
        test = "" if self.test_error is None else f", test error {self.test_error[-1]:.4g}"
        return (
            f"Run({type(self.algorithm).__name__}, {len(self.train_error)} iterates, train error "
            f"{last:.4g} ± {stderr:.2g}{test}, best step {self.best_step}, {self.stop_reason})"
        )

    @property
    def train_error(self) -> Tensor:
        """(T,) mean loss; for decoupled descent the estimate of the test error."""
        return torch.tensor(self.history.train_error, dtype=torch.float64)

    @property
    def train_error_stderr(self) -> Tensor:
        """(T,) standard error of the train error."""
        return torch.tensor(self.history.train_error_stderr, dtype=torch.float64)

    @property
    def test_error(self) -> Tensor | None:
        """(T,) mean loss on the test set, or None when there was none."""
        values = self.history.test_error
        return torch.tensor(values, dtype=torch.float64) if values else None

    @property
    def gap(self) -> Tensor | None:
        """(T,) train error minus test error, or None without a test set."""
        return None if self.test_error is None else self.train_error - self.test_error

    @property
    def theta(self) -> Tensor:
        """θ at the last iterate, shape (L, d), laid out as ``nn.Linear.weight``."""
        return self.state.theta  # type: ignore[no-any-return]

    @property
    def head(self) -> nn.Module:
        """The trained head at the last iterate, a copy in θ's dtype."""
        return self.objective.module(self.state.head).to(self.state.theta)

    @property
    def best_step(self) -> int:
        """The iterate with the lowest train error."""
        return int(self.train_error.argmin())

    @property
    def best_theta(self) -> Tensor:
        """θ at the best step."""
        return self.best_state.theta  # type: ignore[no-any-return]

    @property
    def best_head(self) -> nn.Module:
        """The trained head at the best step, a copy in θ's dtype."""
        return self.objective.module(self.best_state.head).to(self.best_state.theta)

    def predict(self, X: Any, *, best: bool = False) -> Tensor:
        """Evaluate the trained model on new rows.

        Args:
            X: Features, shape (m, d), scaled like the training data.
            best: Use the iterate with the lowest train error instead of the last one.

        Returns:
            The head's outputs, shape (m,) or (m, K): logits for the losses that take logits.
        """
        state = self.best_state if best else self.state
        features = as_floats("X", X).to(state.theta)
        if features.shape[1] != state.theta.shape[1]:
            raise ValueError(
                f"X has {features.shape[1]} columns but the model was trained on "
                f"{state.theta.shape[1]}"
            )
        with torch.no_grad():
            return self.objective.outputs(features @ state.theta.T, state.head)


class Trainee:
    """One run in the making: its state, its history and whether it is still going."""

    def __init__(
        self, objective: Objective, algorithm: Algorithm, state: Any, callbacks: Sequence[Callback]
    ) -> None:
        self.objective, self.algorithm = objective, algorithm
        self.state, self.callbacks = state, callbacks
        self.history = History()
        self.reached = self.best = state
        self.best_losses = torch.empty(0)
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

    def result(self) -> Run:
        """Return the finished run."""
        assert self.reason is not None
        return Run(
            self.objective,
            self.algorithm,
            self.history,
            self.reached,
            self.best,
            self.best_losses,
            self.reason,
            self.message,
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
    """One step each: stacked into one pass for algorithms that can say what they need of it."""
    stackable = [hasattr(trainee.algorithm, "request") for trainee in going]
    if len(going) == 1 or not all(stackable):
        return [t.algorithm.step(t.state, rows, t.objective) for t in going]
    requests = [t.algorithm.request(t.state, rows, t.objective) for t in going]  # type: ignore[attr-defined]
    return [
        trainee.algorithm.advance(trainee.state, rows, found)  # type: ignore[attr-defined]
        for trainee, found in zip(going, one_pass(rows, requests), strict=True)
    ]


def _test_errors(going: Sequence[Trainee], test: Rows | None) -> list[float | None]:
    """Test errors at plain xθ, all runs in one product."""
    if test is None:
        return [None] * len(going)
    stacked = torch.cat([trainee.state.theta for trainee in going]) @ test.X.T
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
        held_out = Rows(as_floats("X", test[0]).to(rows.X), test[1])
        for trainee in trainees:
            trainee.objective.check(held_out.y, len(trainee.state.theta), held_out.X)
    except ValueError as error:
        raise ValueError(f"test: {error}") from error
    if held_out.d != rows.d:
        raise ValueError(f"test has {held_out.d} columns but X has {rows.d}; they must be the same")
    return held_out


def _check_state(state: Any, rows: Rows, objective: Objective) -> None:
    """Raise ``ValueError`` when a state to continue from does not belong to these rows."""
    theta, memory = state.theta, getattr(state, "memory", None)
    if theta.shape[1] != rows.d or (memory is not None and memory.shape[1] != rows.n):
        made_for = "" if memory is None else f"{memory.shape[1]} rows and "
        raise ValueError(
            f"state was made for {made_for}{theta.shape[1]} columns but X has shape "
            f"{tuple(rows.X.shape)}; continue on the rows that the state comes from"
        )
    if theta.dtype != rows.X.dtype:
        raise ValueError(f"state is in {theta.dtype} but X in {rows.X.dtype}; convert X first")
    objective.check(rows.y, len(theta), rows.X)


def fit(
    X: Any,
    y: Any,
    objective: Objective,
    algorithm: Algorithm,
    steps: int = 200,
    theta: Tensor | None = None,
    test: tuple[Any, Any] | None = None,
    callbacks: Sequence[Callback] = (),
    seed: int | None = 0,
    progress: bool | None = None,
    state: Any = None,
) -> Run:
    r"""Train, and record the error of every iterate θ_1, …, θ_T.

    Args:
        X: Features, shape (n, d), noise variance 1/d. Training follows its dtype and device.
        y: Labels, n rows.
        objective: Ψ, a head and a loss. The head is not changed: a copy is trained.
        algorithm: :class:`GradientDescent`, :class:`DecoupledDescent`, ….
        steps: T, the number of iterates; the first is the start, so T − 1 updates are made.
        theta: θ_1, shape (L, d); drawn from N(0, 1) by default.
        test: ``(X_test, y_test)``: its error is recorded at every iterate, and no more.
        callbacks: Called with a :class:`Step` at every iterate; a truthy answer stops.
        seed: Draws θ_1.
        progress: Whether to draw a progress bar; by default, only on a terminal.
        state: Continue from a state (such as ``run.state``) instead of starting; ``theta`` and
            ``seed`` are then unused, and the first iterate recorded is that state's.

    Returns:
        The run. Ctrl-C ends training early and returns what was reached; so does an error that is
        no longer finite, with a :class:`DivergenceWarning`.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.xor(dimension=200, snr=8.0)
        >>> X, y = mixture.sample(200, seed=0)
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> run = dd.fit(X, y, objective, dd.DecoupledDescent(lr=0.05), steps=50)
        >>> run.train_error.shape, run.theta.shape
        (torch.Size([50]), torch.Size([2, 200]))
    """
    rows = check_rows(X, y, steps)
    if state is None:
        state = algorithm.init(rows, objective, theta=theta, seed=seed)
    else:
        _check_state(state, rows, objective)
    trainee = Trainee(objective, algorithm, state, callbacks)
    held_out = check_test(test, rows, [trainee])
    with progress_bar(steps, type(algorithm).__name__, progress) as advance:
        train_together([trainee], rows, steps, held_out, advance)
    if trainee.reason is StopReason.DIVERGED:
        warnings.warn(trainee.message, DivergenceWarning, stacklevel=2)
    return trainee.result()
