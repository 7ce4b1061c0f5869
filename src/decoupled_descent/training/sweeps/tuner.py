"""The candidates that :func:`~decoupled_descent.tune` trains, and the rates it tries next."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.descent.common import Algorithm
from decoupled_descent.objective import BoundObjective, Objective
from decoupled_descent.objective.second_order import usual_curvature
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.training.callbacks import StopReason
from decoupled_descent.training.run import Run
from decoupled_descent.training.sweeps.methods import check_method


@dataclass(frozen=True)
class Defaults:
    """The settings that are compared, and when runs end."""

    #: In units of 1/κ, κ being the curvature of the loss; the usual rate first.
    rates: tuple[float, ...] = (0.25, 0.125)
    #: An orthogonal step is divided by the mean leverage, so it is far shorter than a Newton step
    #: when the degrees of freedom Σp are many. The rate is multiplied by this share of (1 − η₀) Σp
    #: where that is above 1.
    newton_share: float = 0.6
    #: 1 − η₀ for many rows. With n rows it is larger by ``extra_decay``/n, because steps on few
    #: rows are noisier. The more careful damping has twice as much.
    weight_decay: float = 0.02
    extra_decay: float = 7.5
    #: λ for many rows; with n rows they are multiplied by 1 + ``extra_ridge``/n.
    ridges: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)
    extra_ridge: float = 250.0
    #: Steps without improvement after which a run ends, and the smallest number of steps: from a
    #: random start the error may stay the same, or rise, until the signal dominates.
    patience: int = 30
    start: int = 100
    #: An improvement must be at least this many standard errors.
    progress: float = 0.01
    #: The step at which candidates end that are clearly worse than the best.
    pruned_at: int = 200
    #: A descent to the best iterate in fewer steps than this is repeated at half the rate.
    fast: int = 50
    #: How often everything is repeated at other rates. They are divided by ``back_off`` if the best
    #: run diverged or never improved on its start.
    retreats: int = 3
    back_off: float = 4.0
    #: If the best run has come to rest, and longer pre-activations have the lowest train error,
    #: longer by this factor or more, each rate is multiplied by its best factor. Heads with a
    #: trained factor come to rest at 1.2 or less, others at 3 or more (docs, page on the orthogonal
    #: method).
    stretch: float = 1.5

    def dampings(self, n: int) -> tuple[float, ...]:
        """The usual damping for n rows, and the more careful one."""
        decay = min(0.25, self.weight_decay + self.extra_decay / n)
        return (1 - decay, 1 - 2 * decay)

    def ridges_for(self, n: int) -> tuple[float, ...]:
        """The ridges for n rows."""
        return tuple(ridge * (1 + self.extra_ridge / n) for ridge in self.ridges)


DEFAULTS = Defaults()
#: The factors by which longer pre-activations are tried.
LENGTHS = tuple(2 ** (k / 4) for k in range(25))


class Tuner:
    """The candidates of one call of ``tune``: which algorithms are tried.

    ``given`` has lr, damping and ridge, each a number or ``"auto"``.
    """

    def __init__(self, method: str, given: dict[str, Any], rows: Rows) -> None:
        self.method, self.rows = check_method(method), rows
        self.fixed_rate = given["lr"] != "auto"
        self.rates = [float(given["lr"])] if self.fixed_rate else []
        self.dampings = _choices(given["damping"], DEFAULTS.dampings(rows.n))
        has_ridge = "ridge" in self.method.settings
        ridges = _choices(given["ridge"], DEFAULTS.ridges_for(rows.n))
        self.ridges = ridges if has_ridge else (math.inf,)
        self.longer = dict.fromkeys(self.ridges, 1.0)  # multiplies the rate of θ, not the head's
        self.unit = 1.0 if self.fixed_rate else usual_unit(rows)  # multiplies the rate of θ, too
        self.example = self.method.build(**dict.fromkeys(self.method.settings, 1.0))
        self.estimates_test_error = self.example.estimates_test_error

    def bind(self, objective: Objective, theta: Tensor | None) -> BoundObjective:
        """Bind once for all runs; the curvature of the loss then gives the rates."""
        bound = self.example.bind(self.rows, objective, theta)
        if not self.fixed_rate:
            kappa = _curvature(bound, self.rows)
            self.rates = [rate / kappa for rate in DEFAULTS.rates]
        return bound

    def train_all(self, train: Callable[[Sequence[Algorithm]], list[Run]]) -> list[Run]:
        """Train all candidates, and again at other rates while those of the best run are wrong.

        A rate is too large if the best run diverged or never improved on its start. It is too small
        if the run has come to rest where longer pre-activations have a lower train error.
        """
        runs = self._round(train)
        for _ in range(0 if self.fixed_rate else DEFAULTS.retreats):
            best = lowest(runs)
            if was_interrupted(runs):
                break
            if _too_fast(best):
                self.rates = [rate / DEFAULTS.back_off for rate in self.rates]
                runs = self._round(train)
                continue
            factor = stretch(best, self.rows.y) if self.estimates_test_error else 1.0
            if factor < DEFAULTS.stretch:
                break
            for run in runs[: len(self.ridges)]:
                self.longer[_ridge(run)] *= stretch(run, self.rows.y)
            following = self._round(train)
            if mean_loss(lowest(following)) >= mean_loss(best) and not was_interrupted(following):
                break
            runs = following
        return runs

    def _round(self, train: Callable[[Sequence[Algorithm]], list[Run]]) -> list[Run]:
        """All ridges at the usual rate and damping, then others with the best ridge."""
        usual = {"lr": self.rates[0], "damping": self.dampings[0]}
        runs = train([self._algorithm(ridge=ridge, **usual) for ridge in self.ridges])
        if was_interrupted(runs):
            return runs
        challengers = self._challengers(lowest(runs))
        return runs + (train(challengers) if challengers else [])

    def _algorithm(self, **settings: float) -> Algorithm:
        if "ridge" in self.method.settings and not self.fixed_rate:
            ridge, decay = settings["ridge"], 1 - self.dampings[0]  # for both dampings
            freedom = self.rows.gram.freedom(ridge) if ridge < float("inf") else 0.0
            settings["lr"] *= max(1.0, DEFAULTS.newton_share * decay * freedom)
        chosen = {name: settings[name] for name in self.method.settings}
        longer = self.longer[settings["ridge"]]
        if longer != 1 and settings["damping"] != self.dampings[0]:
            longer *= (1 - settings["damping"]) / (1 - self.dampings[0])  # θ is ∝ lr/(1 − η₀)
        if longer * self.unit != 1:
            chosen |= {"lr": longer * self.unit * settings["lr"], "head_lr": settings["lr"]}
        return self.method.build(**chosen)

    def _challengers(self, best: Run) -> list[Algorithm]:
        """With the best ridge: the smaller rate after a fast descent, and the stronger damping."""
        if not self.estimates_test_error:
            return []
        ridge = _ridge(best)
        rates = self.rates[1:] if best.best_step < DEFAULTS.fast else []
        tried = [{"lr": rate, "damping": self.dampings[0]} for rate in rates]
        tried += [{"lr": self.rates[0], "damping": damping} for damping in self.dampings[1:]]
        return [self._algorithm(ridge=ridge, **settings) for settings in tried]


def usual_unit(rows: Rows) -> float:
    """What makes up for the scale of X: 1 over the mean ‖x‖², rounded to a power of four.

    θ is as much longer as X is smaller, so its rate is multiplied by this number.
    """
    mean = float(rows.mean(rows.squares))
    usable = math.isfinite(mean) and mean > 0
    return float(4.0 ** -round(math.log(mean, 4))) if usable else 1.0


def _choices(given: Any, usual: tuple[float, ...]) -> tuple[float, ...]:
    return usual if given == "auto" else (float(given),)


def _ridge(run: Run) -> float:
    return run.algorithm.settings.get("ridge", math.inf)


def mean_loss(run: Run) -> float:
    """The train error of the best iterate, in float64."""
    return float(run.best_losses.double().mean())


def lowest(runs: Sequence[Run]) -> Run:
    """The run with the lowest train error."""
    return min(runs, key=mean_loss)


def was_interrupted(runs: Sequence[Run]) -> bool:
    """Whether Ctrl-C ended a run."""
    return any(run.stop_reason is StopReason.INTERRUPTED for run in runs)


def _too_fast(run: Run) -> bool:
    """Whether a run diverged, or none of its updates was better than the start."""
    rose = run.best_step == 0 and len(run.train_error) > 1
    return rose or run.stop_reason is StopReason.DIVERGED


def stretch(run: Run, y: Tensor) -> float:
    r"""The factor by which longer pre-activations would have the lowest train error.

    A head with a trained factor makes its outputs as large as they should be: the result is then
    about 1. Other heads, such as the linear one, depend on the length of θ for that, and damping
    holds it at a multiple of lr/(1 − damping). A factor of 3, say, then means that the rate should
    be about three times as large. Runs that had not come to rest get 1, since they may still grow.
    """
    if run.stop_reason not in (StopReason.CONVERGED, StopReason.PRUNED):
        return 1.0
    h, head = run.best_preactivations, run.best_state.head

    def error(factor: float) -> float:
        return float(run.bound.losses(factor * h, y, head).double().mean())

    with torch.no_grad():
        return min(LENGTHS, key=error)


def _curvature(bound: BoundObjective, rows: Rows) -> float:
    """κ of the loss, given outputs in the shape that training gives it."""
    objective, h = bound.objective, rows.like.new_zeros(rows.n, bound.width)
    with torch.no_grad():
        outputs = objective.pure_head(h, objective.parameters(h))
    return usual_curvature(objective.loss, outputs, rows.y)
