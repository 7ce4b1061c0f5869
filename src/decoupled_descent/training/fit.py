"""``fit``: train once by an algorithm."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from decoupled_descent.checks import outside, whole_number
from decoupled_descent.descent.common import Algorithm, check_algorithm
from decoupled_descent.descent.info import DivergenceWarning
from decoupled_descent.evaluation.output_scale import OutputScale
from decoupled_descent.evaluation.outputs import Labels
from decoupled_descent.objective import BoundObjective, Objective
from decoupled_descent.progress import progress_bar
from decoupled_descent.rows.blocks import Rows, as_rows
from decoupled_descent.rows.threads import threads_for
from decoupled_descent.training.callbacks import Callback, as_callbacks
from decoupled_descent.training.checkpoint import Checkpoint, continued, rebuilt, resumable
from decoupled_descent.training.loop import Trainee, check_test, train_together
from decoupled_descent.training.run import Run


@dataclass(frozen=True)
class FitOptions:
    """What :func:`decoupled_descent.fit` takes besides the problem, and describes."""

    loss: Any = None
    test: tuple[Any, Any] | None = None
    callbacks: Callback | Sequence[Callback] = ()
    seed: int | None = 0
    progress: bool | None = None
    state: Any = None
    checkpoint: str | Path | Checkpoint | None = None
    weights: Any = None
    groups: Any = None
    independent_start: bool = False

    @property
    def start(self) -> dict[str, Any]:
        """Where training starts: it distinguishes one call from another."""
        return {"seed": self.seed} if self.state is None else {"state": self.state}


def fit(
    X: Any,
    y: Any,
    objective: Objective | nn.Module,
    algorithm: Algorithm,
    steps: int = 200,
    theta: Tensor | None = None,
    **given: Any,
) -> Run:
    """Train by an algorithm, and record the error of every iterate θ_1, …, θ_T.

    :func:`decoupled_descent.fit` is the same, and describes the arguments (``given`` are
    :class:`FitOptions`); without an algorithm it chooses one.
    """
    whole_number("steps", steps)
    check_algorithm(algorithm)
    options = FitOptions(**given)
    if algorithm.trains_modules:
        if theta is not None:
            raise ValueError("theta has no effect on a whole module, which starts as it is")
        result: Run = algorithm.fit(X, y, objective, steps=steps, **given)
        return result
    if options.independent_start:
        raise ValueError("independent_start=True is for DecoupledGaussNewton and folds")
    loss, state = options.loss, options.state
    if isinstance(objective, nn.Module):
        if loss is None:
            raise ValueError("loss is None; a module needs one, such as loss='logistic'")
        objective, algorithm = Objective.of_model(objective, loss), algorithm.for_module()
        objective.require_head()
    elif loss is not None:
        raise ValueError(f"loss={loss!r} is given twice; the objective has its own")
    if options.weights is not None or options.groups is not None:
        X, y = Rows(X, y, weights=options.weights, groups=options.groups), None
    rows, callbacks = as_rows(X, y), as_callbacks(options.callbacks)
    if state is not None:
        _check_columns(state, rows)
    bound = algorithm.bind(rows, objective, theta if state is None else state.theta)
    with threads_for(rows.here * rows.d, bound.width):
        if state is None:
            state = algorithm.init(rows, bound, theta=theta, seed=options.seed)
        else:
            _check_state(state, algorithm.init(rows, bound, theta=state.theta, seed=0), algorithm)
        trainee = Trainee(bound, algorithm, state, callbacks)
        held_out = check_test(options.test, rows, [trainee])
        asked = {"objective": objective} | ({"theta": theta} if options.state is None else {})
        train(trainee, rows, steps, held_out, asked, options, describe(algorithm, bound))
    return Run.of(trainee, labels_of(rows, bound))


def train(
    trainee: Trainee,
    rows: Any,
    steps: int,
    test: Any,
    asked: dict[str, Any],
    options: FitOptions,
    description: str,
) -> None:
    """Advance one run to its end, and warn where it went wrong.

    ``asked`` has what distinguishes this call from others, beside what every call has.
    """
    asked = asked | options.start | {"algorithm": trainee.algorithm, "steps": steps, "rows": rows}
    asked |= {"test": test, "callbacks": resumable(trainee.callbacks)}
    with (
        continued(options.checkpoint, asked, [trainee], rows.processes) as save,
        progress_bar(steps, description, options.progress) as advance,
    ):
        train_together([trainee], rows, steps, test, advance, save=save)
    if (alarm := trainee.alarm) is not None:
        warnings.warn(alarm, DivergenceWarning, outside())


def labels_of(rows: Rows, bound: BoundObjective) -> Labels | None:
    """The labels for metrics, where all rows are in this process."""
    if not rows.all_here:
        return None
    return Labels(rows.y, OutputScale.of(bound.objective.loss, rows.y), rows.weights, rows.groups)


def describe(algorithm: Algorithm, bound: BoundObjective) -> str:
    """Name an algorithm in a progress bar, and say when steps are slow."""
    name, slow = type(algorithm).__name__, bound.curvature == "autodiff" and bound.g is None
    return f"{name} (no closed form for this head: autodiff, slower)" if slow else name


def _check_columns(state: Any, rows: Rows) -> None:
    """Raise ``ValueError`` when this is no state to continue from, or has other columns."""
    if isinstance(state, Run) or not hasattr(state, "theta"):
        raise ValueError(f"state is a {type(state).__name__}; pass the state of a run, run.state")
    if state.theta.shape[1] != rows.d:
        raise ValueError(
            f"state was made for {state.theta.shape[1]} columns but X has shape "
            f"{(rows.n, rows.d)}; continue on the rows that the state comes from"
        )
    if state.theta.dtype != rows.like.dtype:
        raise ValueError(
            f"state is in {state.theta.dtype} but X in {rows.like.dtype}; convert X first"
        )


def _check_state(state: Any, fresh: Any, algorithm: Algorithm) -> None:
    """Raise ``ValueError`` when a state belongs to other rows, heads, rules or algorithms."""
    try:
        rebuilt(fresh, state)
    except TypeError as error:
        raise ValueError(
            f"state has {error}: {type(algorithm).__name__} with this head on these rows needs "
            "another one. It comes from other rows or another algorithm, head or update rule. "
            "Continue with those, or start anew from theta=run.theta and "
            "Objective(run.head, …); if theta was trained on these rows, the train error is "
            "then too low"
        ) from error
