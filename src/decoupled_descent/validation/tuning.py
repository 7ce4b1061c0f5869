r"""Training with rate, damping and ridge chosen by the train error.

The train error of decoupled descent estimates the test error, so choosing by it needs no further
data. The choice makes the estimate optimistic: the lowest of many errors is too low, and the train
error is least reliable for a weak ridge with a large rate. So few settings compete. First all
ridges run at the usual rate and damping; then the best ridge runs with a stronger damping and,
after a fast descent, with a smaller rate.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from decoupled_descent.checks import ignoring, outside
from decoupled_descent.descent.common import Algorithm
from decoupled_descent.descent.methods import SETTINGS, check_method
from decoupled_descent.descent.newton import DecoupledNewton
from decoupled_descent.objective import BoundObjective, Objective
from decoupled_descent.objective.second_order import usual_curvature
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.training.callbacks import Callback, StopReason, as_callbacks
from decoupled_descent.training.checkpoint import Checkpoint, as_checkpoint
from decoupled_descent.training.loop import check_rows
from decoupled_descent.training.run import DivergenceWarning, Run, fit
from decoupled_descent.training.stopping import EarlyStopping
from decoupled_descent.validation.configurations import combine
from decoupled_descent.validation.sweep import Halving, Sweep, train_stack

#: A number, or ``"auto"`` to have it chosen.
Setting = float | Literal["auto"]


@dataclass(frozen=True)
class Defaults:
    """The settings that compete, and when runs end.

    Attributes:
        rates: In units of 1/κ, κ being the curvature of the loss; the usual rate first.
        newton_share: An orthogonal step is divided by the mean leverage, so it is far shorter than
            a Newton step when the degrees of freedom Σp are many. The rate is multiplied by this
            share of (1 − η₀) Σp where that is above 1.
        weight_decay: 1 − η₀ for many rows; with n rows it is larger by ``extra_decay``/n, because
            steps on few rows are noisier. The more careful damping has twice as much.
        extra_decay: See above.
        ridges: λ for many rows; with n rows they are multiplied by 1 + ``extra_ridge``/n.
        extra_ridge: See above.
        patience: Steps without improvement after which a run ends.
        start: The smallest number of steps of a run: from a random start the error may stay the
            same, or rise, until the signal is found.
        progress: An improvement must be at least this many standard errors.
        pruned_at: The step at which candidates end that are clearly worse than the best.
        fast: A descent to the best iterate in fewer steps than this is repeated at half the rate.
        retreats: How often rates are divided by ``back_off`` if a run diverges or never improves on
            the start.
        back_off: See above.
        newton_ridges: The first ridges of Newton's method, as exponents of √10.
        newton_limit: The largest and smallest ridge of Newton's method, as exponents ± of √10.
    """

    rates: tuple[float, ...] = (0.25, 0.125)
    newton_share: float = 0.6
    weight_decay: float = 0.02
    extra_decay: float = 7.5
    ridges: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)
    extra_ridge: float = 250.0
    patience: int = 30
    start: int = 100
    progress: float = 0.01
    pruned_at: int = 200
    fast: int = 50
    retreats: int = 3
    back_off: float = 4.0
    newton_ridges: tuple[int, ...] = (0, -3, 3)
    newton_limit: int = 12

    def dampings(self, n: int) -> tuple[float, ...]:
        """The usual damping for n rows, and the more careful one."""
        decay = min(0.25, self.weight_decay + self.extra_decay / n)
        return (1 - decay, 1 - 2 * decay)

    def ridges_for(self, n: int) -> tuple[float, ...]:
        """The ridges for n rows."""
        return tuple(ridge * (1 + self.extra_ridge / n) for ridge in self.ridges)


DEFAULTS = Defaults()


def tune(
    X: Any,
    y: Any,
    objective: Objective,
    *,
    method: str = "orthogonal",
    lr: Setting = "auto",
    damping: Setting = "auto",
    ridge: Setting = "auto",
    steps: int = 300,
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
    improved on its start, rates are divided by four and everything is repeated.

    Args:
        X: Features, shape (n, d), centred, of variance about 1/d; or :class:`Rows`.
        y: Labels, n rows; None with :class:`Rows`.
        objective: Ψ.
        method: ``"orthogonal"``, ``"decoupled"``, ``"gradient"``, or ``"newton"``: the minimum for
            a few ridges, walked downhill in factors of √10. With your own head and loss this is the
            search of the estimators, on features of your own
            (:class:`~decoupled_descent.DecoupledNewton`).
        lr: η₁ with reduction ``"mean"``, or ``"auto"``.
        damping: η₀, or ``"auto"``; gradient descent has none.
        ridge: λ, or ``"auto"``; the orthogonal method and Newton's have one.
        steps: T, the most iterates per run.
        theta: θ_1; drawn from N(0, 1) with ``seed`` by default.
        seed: Draws θ_1.
        callbacks: One or several, for every run; by default, early stopping after 30 steps without
            an improvement by a hundredth of the standard error, but not among the first 100.
        progress: Whether to draw a progress bar; by default, only on a terminal.
        checkpoint: A folder to save the runs in while they go on; the same call continues there.

    Returns:
        All runs; ``.best`` is the winner and ``.corrected_error`` its estimated test error.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.flipped_classes(40, 3.0, labels=(0.0, 1.0)).sample(100, seed=0)
        >>> objective = dd.Objective(dd.heads.TwoLayer(3, seed=0), "logistic")
        >>> dd.tune(X, y, objective, damping=0.95, ridge=1.0, steps=40).names
        ('lr=1', 'lr=0.5')
    """
    rows = check_rows(X, y, steps)
    rows.require_one_process("tune compares losses row by row")
    given = {"lr": lr, "damping": damping, "ridge": ridge}
    check_settings(method, given)
    if method == "newton":
        where = as_checkpoint(checkpoint)
        return _newton(rows, objective, given, steps, theta, seed, progress, where)
    contest = _Contest(method, given, rows)
    bound = contest.bind(objective, theta)
    if callbacks is None:
        callbacks = [stopping()] if contest.honest else []
    told, place, stacks = as_callbacks(callbacks), as_checkpoint(checkpoint), count(1)

    def train(algorithms: Sequence[Algorithm]) -> list[Run]:
        configurations = [
            each._replace(name=_settings(each.algorithm), objective=bound)
            for each in combine(objective, algorithms, theta, seed)
        ]
        halving = Halving(rungs=(DEFAULTS.pruned_at,))
        where = place and place.within(f"stack {next(stacks)}")
        return train_stack(configurations, rows, steps, None, told, halving, progress, where)

    for _ in range(DEFAULTS.retreats + 1):
        runs = train(contest.ridges())
        if any(run.stop_reason is StopReason.INTERRUPTED for run in runs):
            break
        challengers = contest.challengers(_lowest(runs))
        runs += train(challengers) if challengers else []
        if lr != "auto" or not _too_fast(_lowest(runs)):
            break
        contest.rates = [rate / DEFAULTS.back_off for rate in contest.rates]
    if (alarm := _lowest(runs).alarm) is not None:
        warnings.warn(alarm, DivergenceWarning, outside())
    algorithms = [run.algorithm for run in runs]
    names = [configuration.name for configuration in combine(objective, algorithms, theta, seed)]
    return Sweep(tuple(names), tuple(runs))


def _newton(
    rows: Rows,
    objective: Objective,
    given: dict[str, Any],
    steps: int,
    theta: Tensor | None,
    seed: int,
    progress: bool | None,
    checkpoint: Checkpoint | None,
) -> Sweep:
    """Minima for a few ridges: coarse steps first, then downhill in finer ones."""
    for name in ("lr", "damping"):
        if given[name] != "auto":
            raise ValueError(f"{name}={given[name]!r} has no effect with method='newton'")
    runs: dict[float, Run] = {}

    def error(place: float) -> float:
        """The error at ridge 10^(place/2); infinite where the minimum was not reached."""
        if place not in runs:
            if any(run.stop_reason is StopReason.INTERRUPTED for run in runs.values()):
                return math.inf
            algorithm = DecoupledNewton(10 ** (place / 2))
            with ignoring(DivergenceWarning):  # a ridge that does not reach its minimum is ignored
                where = checkpoint and checkpoint.within(f"ridge {algorithm.ridge:.9g}")
                start = (rows, None, objective, algorithm, steps, theta)
                runs[place] = fit(*start, seed=seed, progress=progress, checkpoint=where)
        return runs[place].best.train_error if _at_minimum(runs[place]) else math.inf

    if given["ridge"] == "auto":
        best = min(DEFAULTS.newton_ridges, key=error)
        while (lower := min((best, best - 1, best + 1), key=error)) != best:
            best = lower
            if abs(best) >= DEFAULTS.newton_limit:
                break
    else:
        error(2 * math.log10(DecoupledNewton(given["ridge"]).ridge))
    reached = [run for _, run in sorted(runs.items()) if _at_minimum(run)]
    if not reached:
        warnings.warn(
            f"no ridge reached its minimum within steps={steps}: the errors are fitted ones and "
            "say nothing about new rows; allow more steps or give a larger ridge",
            DivergenceWarning,
            stacklevel=outside(),
        )
    kept = tuple(reached or runs.values())
    return Sweep(tuple(_settings(run.algorithm) for run in kept), kept)


def _at_minimum(run: Run) -> bool:
    return run.stop_reason is StopReason.MINIMUM


def stopping() -> EarlyStopping:
    """Return the default stopping rule."""
    return EarlyStopping(
        patience=DEFAULTS.patience, start=DEFAULTS.start, standard_errors=DEFAULTS.progress
    )


class _Contest:
    """The candidates of one call: which algorithms are tried."""

    def __init__(self, method: str, given: dict[str, Any], rows: Rows) -> None:
        self.method, self.rows = check_method(method), rows
        self.fixed_rate = given["lr"] != "auto"
        self.rates = [float(given["lr"])] if self.fixed_rate else []
        self.dampings = _choices(given["damping"], DEFAULTS.dampings(rows.n))
        self.all_ridges = _choices(given["ridge"], DEFAULTS.ridges_for(rows.n))
        self.example = self.method.build(**dict.fromkeys(self.method.settings, 1.0))
        self.honest = self.example.estimates_test_error

    def bind(self, objective: Objective, theta: Tensor | None) -> BoundObjective:
        """Bind once for all runs; the curvature of the loss then gives the rates."""
        bound = self.example.bind(self.rows, objective, theta)
        if not self.fixed_rate:
            kappa = _curvature(bound, self.rows)
            self.rates = [rate / kappa for rate in DEFAULTS.rates]
        return bound

    def algorithm(self, **settings: float) -> Algorithm:
        if "ridge" in self.method.settings and not self.fixed_rate:
            ridge, decay = settings["ridge"], 1 - self.dampings[0]  # for both dampings
            freedom = self.rows.gram.freedom(ridge) if ridge < float("inf") else 0.0
            settings["lr"] *= max(1.0, DEFAULTS.newton_share * decay * freedom)
        return self.method.build(**{name: settings[name] for name in self.method.settings})

    def ridges(self) -> list[Algorithm]:
        """All ridges at the usual rate and damping."""
        ridges = self.all_ridges if "ridge" in self.method.settings else self.all_ridges[:1]
        usual = {"lr": self.rates[0], "damping": self.dampings[0]}
        return [self.algorithm(ridge=ridge, **usual) for ridge in ridges]

    def challengers(self, best: Run) -> list[Algorithm]:
        """With the best ridge: the smaller rate after a fast descent, and the stronger damping."""
        if not self.honest:
            return []
        ridge = best.algorithm.settings.get("ridge", float("inf"))
        rates = self.rates[1:] if best.best_step < DEFAULTS.fast else []
        tried = [{"lr": rate, "damping": self.dampings[0]} for rate in rates]
        tried += [{"lr": self.rates[0], "damping": damping} for damping in self.dampings[1:]]
        return [self.algorithm(ridge=ridge, **settings) for settings in tried]


def _choices(given: Any, usual: tuple[float, ...]) -> tuple[float, ...]:
    return usual if given == "auto" else (float(given),)


def _settings(algorithm: Algorithm) -> str:
    """A name that no other run of the call has, before or after rates were reduced."""
    given = algorithm.settings
    return " ".join(f"{name}={given[name]:g}" for name in SETTINGS if name in given)


def _lowest(runs: Sequence[Run]) -> Run:
    return min(runs, key=lambda run: float(run.best_losses.double().mean()))


def _too_fast(run: Run) -> bool:
    """Whether a run diverged, or none of its updates was better than the start."""
    rose = run.best_step == 0 and len(run.train_error) > 1
    return rose or run.stop_reason is StopReason.DIVERGED


def _curvature(bound: BoundObjective, rows: Rows) -> float:
    """κ of the loss, given outputs in the shape that training gives it."""
    objective, h = bound.objective, rows.like.new_zeros(rows.n, bound.width)
    with torch.no_grad():
        outputs = objective.pure_head(h, objective.parameters(h))
    return usual_curvature(objective.loss, outputs, rows.y)


def check_settings(method: str, settings: dict[str, Any]) -> None:
    """Raise ``ValueError`` unless the method is known and settings are numbers or ``"auto"``."""
    check_method(method)
    for name, value in settings.items():
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number and not (isinstance(value, str) and value == "auto"):
            raise ValueError(f"{name}={value!r} must be a number or 'auto'")
