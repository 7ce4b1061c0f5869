"""``fit``: the training loop, its history and its result."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from decoupled_descent.callbacks import Callback, Step, StopReason, progress_bar
from decoupled_descent.data.rows import Rows, as_floats
from decoupled_descent.descent.common import Info
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

    def append(self, step: Step) -> None:
        """Record one iterate."""
        self.train_error.append(step.train_error)
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
        stop_reason: Why training ended.
        message: The same in a sentence.
    """

    objective: Objective
    algorithm: Algorithm
    history: History
    state: Any
    best_state: Any
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
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise ValueError(f"steps={steps!r} must be a whole number of at least 1")
    rows = Rows(X, y)
    if state is None:
        state = algorithm.init(rows, objective, theta=theta, seed=seed)
    else:
        _check_state(state, rows, objective)
    held_out = None if test is None else _check_test(test, rows, objective, len(state.theta))
    history, best = History(), state
    reason, message = StopReason.STEPS, f"all {steps} steps were made"
    try:
        with progress_bar(steps, type(algorithm).__name__, progress) as advance:
            for index in range(steps):
                following, info = algorithm.step(state, rows, objective)
                step = _observe(index, state, info, held_out, objective)
                if not math.isfinite(step.train_error):
                    reason, message = StopReason.DIVERGED, _divergence(step, history)
                    break
                if not history.train_error or step.train_error < min(history.train_error):
                    best = state
                reached = state
                history.append(step)
                advance(index + 1, f"train error {step.train_error:.4f}")
                if (answer := _ask(callbacks, step)) is not None:
                    reason, message = answer, f"{answer} at step {index}"
                    break
                state = following
    except KeyboardInterrupt:
        if not history.train_error:
            raise
        reason = StopReason.INTERRUPTED
        message = f"interrupted after step {len(history.train_error) - 1}"
    if reason is StopReason.DIVERGED:
        warnings.warn(message, DivergenceWarning, stacklevel=2)
    return Run(objective, algorithm, history, reached, best, reason, message)


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


def _check_test(test: tuple[Any, Any], rows: Rows, objective: Objective, width: int) -> Rows:
    """Check the test set like the training set, and bring it to its dtype and device."""
    if not isinstance(test, (tuple, list)) or len(test) != 2:
        raise ValueError(f"test must be a pair (X_test, y_test), not {type(test).__name__}")
    try:
        held_out = Rows(as_floats("X", test[0]).to(rows.X), test[1])
        objective.check(held_out.y, width, held_out.X)
    except ValueError as error:
        raise ValueError(f"test: {error}") from error
    if held_out.d != rows.d:
        raise ValueError(f"test has {held_out.d} columns but X has {rows.d}; they must be the same")
    return held_out


def _observe(index: int, state: Any, info: Info, test: Rows | None, objective: Objective) -> Step:
    """Put numbers to one iterate: train error at corrected h, test error at plain xθ."""
    test_error = None
    if test is not None:
        with torch.no_grad():
            losses = objective.losses((state.theta @ test.X.T).T, test.y, state.head)
        test_error = float(losses.mean())
    return Step(index, info.train_error, info.train_error_stderr, test_error, state, info)


def _ask(callbacks: Sequence[Callback], step: Step) -> StopReason | None:
    """Call every callback; the first that wants to stop decides why."""
    answers = [callback(step) for callback in callbacks]
    for answer in answers:
        if answer:
            return answer if isinstance(answer, StopReason) else StopReason.CALLBACK
    return None


def _divergence(step: Step, history: History) -> str:
    if not history.train_error:
        raise ValueError(
            f"the train error of the starting point is {step.train_error}; check the scale of "
            "theta, X and y"
        )
    what = "theta" if not bool(torch.isfinite(step.state.theta).all()) else "the loss"
    return (
        f"the train error became {step.train_error} at step {step.index} ({what} is not finite any "
        f"more; the error before was {history.train_error[-1]:.4g}); the run ends at step "
        f"{step.index - 1}. Decoupled descent grows without bound where there is no signal to "
        "learn: use damping below 1, a smaller lr, or the best step of this run"
    )
