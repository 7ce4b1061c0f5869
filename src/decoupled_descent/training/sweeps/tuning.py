r"""Training with rate, damping and ridge chosen by the train error.

The choice makes the train error optimistic: the lowest of many errors is too low, and the train
error is least reliable for a weak ridge with a large rate. So few settings are compared.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from itertools import count
from numbers import Real
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from decoupled_descent.checks import outside, whole_number
from decoupled_descent.descent.common import Algorithm
from decoupled_descent.descent.info import DivergenceWarning
from decoupled_descent.descent.noise import ScalingWarning
from decoupled_descent.descent.starts import starting_theta
from decoupled_descent.evaluation.checks.of_evaluations import FALLING
from decoupled_descent.leave_one_out.newton import DecoupledNewton
from decoupled_descent.objective import Objective
from decoupled_descent.quiet import ignoring
from decoupled_descent.rows.blocks import Rows, as_rows
from decoupled_descent.training.callbacks import Callback, StopReason, as_callbacks
from decoupled_descent.training.checkpoint import Checkpoint, as_checkpoint
from decoupled_descent.training.fit import fit
from decoupled_descent.training.run import Run
from decoupled_descent.training.stopping import EarlyStopping
from decoupled_descent.training.sweeps.configurations import combine
from decoupled_descent.training.sweeps.methods import check_method
from decoupled_descent.training.sweeps.ridge_walk import STEP, downhill
from decoupled_descent.training.sweeps.sweep import Halving, Sweep, train_stack
from decoupled_descent.training.sweeps.tuner import DEFAULTS, Tuner, lowest, was_interrupted

#: How the warning begins that more steps are needed.
STILL_FALLING = "the train error was still falling"
#: A number, or ``"auto"`` to have it chosen.
Setting = float | Literal["auto"]

#: These powers of √10 are tried first as ridges.
FIRST = (0, -3, 3)
#: The largest exponent, and the smallest one with a minus sign.
LIMIT = 12


def tune(
    X: Any,
    y: Any,
    objective: Objective,
    *,
    method: str = "orthogonal",
    lr: Setting = "auto",
    damping: Setting = "auto",
    ridge: Setting = "auto",
    steps: int = 3000,
    theta: Tensor | None = None,
    seed: int = 0,
    callbacks: Callback | Sequence[Callback] | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | Checkpoint | None = None,
) -> Sweep:
    r"""Train with settings chosen by the train error: no validation set, no test rows.

    First all ridges run at the usual rate and damping; those that are clearly worse end after 200
    steps. Then the best ridge runs with a stronger damping and, if the descent took fewer than 50
    steps, with half the rate. Rates follow the curvature of the loss (1/4 for logistic, 1 for
    squared) and the degrees of freedom that the ridge leaves. If the best run diverged, or never
    improved on its start, rates are divided by four and everything is repeated. A head without a
    trained factor, such as the linear one, cannot make its outputs larger; if it has come to rest
    at outputs that are too small, everything is repeated at a larger rate.

    Args:
        X: Features, shape (n, d), centred, of any scale; or :class:`Rows`.
        y: Labels, n rows; None with :class:`Rows`.
        objective: Ψ.
        method: ``"orthogonal"``, ``"decoupled"``, ``"gradient"``, or ``"newton"``: the minimum for
            a few ridges, walked downhill in factors of √10. With your own loss this is the
            search of the estimators, on features of your own
            (:class:`~decoupled_descent.DecoupledNewton`).
        lr: η₁ with reduction ``"mean"``, or ``"auto"``.
        damping: η₀, or ``"auto"``; gradient descent has none.
        ridge: λ, or ``"auto"``; the orthogonal method and Newton's have one.
        steps: T, the most iterates per run; early stopping ends them long before that.
        theta: θ_1; by default drawn with ``seed``, so that pre-activations are of order one.
        seed: Draws θ_1.
        callbacks: One or several, for every run; by default, early stopping after 30 steps without
            an improvement by a hundredth of the standard error, but not among the first 100.
        progress: Whether to draw a progress bar; by default, only on a terminal.
        checkpoint: A folder to save the runs in while they go on; the same call continues there.

    Returns:
        All runs; ``.best`` is the winner and ``.corrected_error`` its estimated test error: error,
        standard error, and the optimism of the choice that was taken out.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.flipped_classes(40, 3.0, labels=(0.0, 1.0)).sample(100, seed=0)
        >>> objective = dd.Objective(dd.heads.TwoLayer(3, seed=0), "logistic")
        >>> dd.tune(X, y, objective, damping=0.95, ridge=1.0, steps=40).names
        ('lr=1', 'lr=0.5')
    """
    whole_number("steps", steps)
    rows = as_rows(X, y)
    rows.require_one_process("tune compares losses row by row")
    given = {"lr": lr, "damping": damping, "ridge": ridge}
    check_settings(method, given)
    folder = as_checkpoint(checkpoint)
    if check_method(method).minimises:
        check_used(method, given)

        def minimum(algorithm: DecoupledNewton) -> Run:
            where = folder and folder.within(f"ridge {algorithm.ridge:.9g}")
            options: dict[str, Any] = {"seed": seed, "progress": progress, "checkpoint": where}
            with ignoring(DivergenceWarning):  # a ridge that does not reach its minimum is ignored
                return fit(rows, None, objective, algorithm, steps, theta, **options)

        return _walk_ridges(minimum, ridge, steps)
    tuner = Tuner(method, given, rows)
    bound = tuner.bind(objective, theta)
    _check_centred(rows)
    if theta is None and bound.theta is None and tuner.unit != 1:
        theta = starting_theta(rows, bound, None, seed) * math.sqrt(tuner.unit)
    if callbacks is None:
        callbacks = [stopping()] if tuner.estimates_test_error else []
    every, stacks = as_callbacks(callbacks), count(1)

    def train(algorithms: Sequence[Algorithm]) -> list[Run]:
        combined = combine(objective, algorithms, theta, seed)
        configurations = [each._replace(objective=bound) for each in combined]
        halving = Halving(rungs=(DEFAULTS.pruned_at,))
        where = folder and folder.within(f"stack {next(stacks)}")
        return train_stack(configurations, rows, steps, None, every, halving, progress, where)

    runs = tuner.train_all(train)
    best = lowest(runs)
    if best.alarm is not None:
        warnings.warn(best.alarm, DivergenceWarning, outside())
    elif tuner.estimates_test_error and best.still_falling > FALLING:
        warnings.warn(
            f"{STILL_FALLING} when steps={steps} were made: the model is not trained yet; allow "
            "more steps",
            DivergenceWarning,
            stacklevel=outside(),
        )
    algorithms = [run.algorithm for run in runs]
    names = [configuration.name for configuration in combine(objective, algorithms, theta, seed)]
    return Sweep(tuple(names), tuple(runs))


def _check_centred(rows: Rows) -> None:
    """Warn where the mean of the rows is larger than what varies among them."""
    mean = rows.backward(rows.like.new_full((1, rows.n), 1 / rows.n))
    total = float(rows.mean(rows.squares))
    if float(mean.double().square().sum()) > 0.5 * total:
        warnings.warn(
            "the columns of X are not centred: their means are larger than what varies; subtract "
            "the mean of each column, or the train error will not track the test error",
            ScalingWarning,
            stacklevel=outside(),
        )


def stopping() -> EarlyStopping:
    """Return the default stopping rule."""
    return EarlyStopping(
        patience=DEFAULTS.patience, start=DEFAULTS.start, standard_errors=DEFAULTS.progress
    )


def _walk_ridges(minimum: Callable[[DecoupledNewton], Run], ridge: Setting, steps: int) -> Sweep:
    """Fit a few ridges far apart, then walk downhill from the best one; or fit the one given.

    Returns the fits that reached their minimum; all of them, with a warning, if none did.
    """
    runs: dict[float, Run] = {}

    def error(power: float) -> float:
        """The error at ridge 10^(STEP · power); infinite where the minimum was not reached."""
        if power not in runs:
            if was_interrupted(list(runs.values())):
                return math.inf
            runs[power] = minimum(DecoupledNewton(10 ** (STEP * power)))
        return runs[power].best.train_error if _at_minimum(runs[power]) else math.inf

    if ridge == "auto":
        for _ in downhill(error, min(FIRST, key=error), -LIMIT, LIMIT):
            pass
    else:
        error(math.log10(DecoupledNewton(ridge).ridge) / STEP)
    tried = [run for _, run in sorted(runs.items())]
    reached = [run for run in tried if _at_minimum(run)]
    if not reached:
        warnings.warn(
            f"no ridge reached its minimum within steps={steps}: the errors are fitted ones and "
            "say nothing about new rows; allow more steps or give a larger ridge",
            DivergenceWarning,
            stacklevel=outside(),
        )
    kept = tuple(reached or tried)
    return Sweep(tuple(f"ridge={run.algorithm.settings['ridge']:g}" for run in kept), kept)


def _at_minimum(run: Run) -> bool:
    return run.stop_reason is StopReason.MINIMUM


def check_settings(method: str, settings: dict[str, Any]) -> None:
    """Raise ``ValueError`` unless the method exists and settings are numbers or ``"auto"``."""
    check_method(method)
    for name, value in settings.items():
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number and not (isinstance(value, str) and value == "auto"):
            raise ValueError(f"{name}={value!r} must be a number or 'auto'")


def check_used(method: str, settings: dict[str, Any]) -> None:
    """Raise ``ValueError`` for settings that the method does not have."""
    for name, value in settings.items():
        if name not in check_method(method).settings and value != "auto":
            raise ValueError(
                f"{name}={value!r} has no effect with method={method!r}; leave it at 'auto'"
            )
