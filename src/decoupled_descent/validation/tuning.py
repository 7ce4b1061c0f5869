r"""Training with rate, damping and ridge chosen by the train error.

The train error of decoupled descent estimates the test error, so choosing by it costs no data. It
does cost honesty when the choice is wide: the lowest of many errors is too low, and bold settings
(a weak ridge with a large rate) are the ones whose train error is least to be trusted. So the
contest is kept small: ridges compete at the usual rate and damping, and the winner's ridge then
meets a more careful rate and a more careful damping, never bolder ones.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal

import torch
from torch import Tensor

from decoupled_descent.descent.common import Descent, starting_theta
from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.descent.gradient import GradientDescent
from decoupled_descent.descent.orthogonal import OrthogonalDecoupledDescent
from decoupled_descent.objective.losses import usual_curvature
from decoupled_descent.objective.objective import Objective
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.training.callbacks import Callback, StopReason, as_callbacks
from decoupled_descent.training.loop import check_rows
from decoupled_descent.training.run import DivergenceWarning, Run
from decoupled_descent.training.stopping import EarlyStopping
from decoupled_descent.validation.configurations import combine
from decoupled_descent.validation.sweep import Halving, Sweep, train_stack

#: A number, or ``"auto"`` to have it chosen.
Setting = float | Literal["auto"]

METHODS = ("orthogonal", "decoupled", "gradient")
SETTINGS = ("lr", "damping", "ridge")
#: From ``SMALL`` rows on, and for fewer.
RIDGES, SMALL_RIDGES = (0.3, 1.0, 3.0, 10.0), (1.0, 3.0, 10.0)
#: In units of 1/κ, κ being the curvature of the loss; the usual rate first. An orthogonal step is
#: divided by the mean leverage, which leaves it far behind a Newton step when the degrees of
#: freedom Σp are many: the rate is multiplied by this share of (1 − η₀) Σp where that is above 1.
RATES, NEWTON_SHARE = (0.25, 0.125), 0.6
#: The usual damping first, from ``SMALL`` rows on and for fewer, whose steps are noisier.
DAMPINGS, SMALL_DAMPINGS = (0.98, 0.95), (0.95, 0.9)
SMALL = 500
#: The head's own optimism is P/n, which is no less beside the standard error when n is large: where
#: there is nothing to be learnt, losses hardly vary, and that falls like 1/n as well. Heads of few
#: folds have fewer rows, which matters to small tables.
FOLDS, SMALL_FOLDS = 3, 5
#: With more head parameters per row than this, folds may find too much: of what they find on
#: handwritten digits, training anew without single rows shows nothing; on Gaussian classes, all.
WIDE = 0.1
#: After a blow-up, or where nothing was better than the start: how much smaller the next rate is,
#: and how often that is tried.
BACK_OFF, RETREATS = 4.0, 3
#: Steps without improvement after which a run ends, and how many it makes in any case: from a
#: random start the error may stay, or rise, until the start is forgotten and the signal found.
PATIENCE, LINGERING = 30, 100
#: In so many standard errors an improvement must be had by then, or steps are wasted on it.
PROGRESS = 0.01
#: The step at which candidates leave that are clearly behind the best.
PRUNED_AT = 200
#: A descent to the best iterate in fewer steps than this is worth repeating at half the rate.
FAST = 50


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
) -> Sweep:
    r"""Train with settings chosen by the train error: no validation set, no test rows.

    All ridges run at the usual rate and damping, those clearly behind for 200 steps only; the
    winner's ridge then meets a stronger damping and, where the descent took fewer than 50 steps,
    half the rate. Rates follow the curvature of the loss (1/4 for logistic, 1 for squared) and the
    degrees of freedom that the ridge leaves. If the winner blew up, or never came below where it
    started, rates are taken back to a quarter and the contest is held again.

    Args:
        X: Features, shape (n, d), centred, of variance about 1/d; or :class:`Rows`.
        y: Labels, n rows; None with :class:`Rows`.
        objective: Ψ.
        method: ``"orthogonal"``, ``"decoupled"`` or ``"gradient"``.
        lr: η₁ with reduction ``"mean"``, or ``"auto"``.
        damping: η₀, or ``"auto"``; gradient descent has none.
        ridge: λ, or ``"auto"``; only the orthogonal method has one.
        steps: T, the most iterates per run.
        theta: θ_1; drawn from N(0, 1) with ``seed`` by default.
        seed: Draws θ_1.
        callbacks: One or several, for every run; by default, early stopping after 30 steps without
            an improvement by a hundredth of the standard error, but not among the first 100.
        progress: Whether to draw a progress bar; by default, only on a terminal.

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
    check_settings(method, {"lr": lr, "damping": damping, "ridge": ridge})
    if callbacks is None:
        callbacks = [] if method == "gradient" else [stopping()]
    told = as_callbacks(callbacks)
    if lr == "auto":
        kappa = _curvature(objective, rows, theta)
        rates = [rate / kappa for rate in RATES]
    else:
        rates = [float(lr)]
    dampings = _dampings(rows.n) if damping == "auto" else (float(damping),)
    ridges = _ridges(rows.n) if ridge == "auto" else (float(ridge),)

    def train(algorithms: Sequence[Descent]) -> list[Run]:
        configurations = [
            each._replace(name=_settings(each.algorithm))
            for each in combine(objective, algorithms, theta, seed)
        ]
        halving = Halving(rungs=(PRUNED_AT,))
        return train_stack(configurations, rows, steps, None, told, halving, progress)

    for _ in range(RETREATS + 1):
        contest = _Contest(method, rates, dampings, ridges, rows, objective, fixed=lr != "auto")
        runs = train(contest.ridges())
        if any(run.stop_reason is StopReason.INTERRUPTED for run in runs):
            break
        challengers = contest.challengers(_lowest(runs))
        runs += train(challengers) if challengers else []
        if lr != "auto" or not _too_fast(_lowest(runs)):
            break
        rates = [rate / BACK_OFF for rate in rates]
    if _lowest(runs).stop_reason is StopReason.DIVERGED:
        warnings.warn(_lowest(runs).message, DivergenceWarning, stacklevel=2)
    algorithms = [run.algorithm for run in runs]
    names = [configuration.name for configuration in combine(objective, algorithms, theta, seed)]
    return Sweep(tuple(names), tuple(runs))


def stopping() -> EarlyStopping:
    """Return the rule by which runs end unless another is given."""
    return EarlyStopping(patience=PATIENCE, start=LINGERING, standard_errors=PROGRESS)


class _Contest:
    """Which algorithms are tried."""

    def __init__(
        self,
        method: str,
        rates: Sequence[float],
        dampings: Sequence[float],
        ridges: Sequence[float],
        rows: Rows,
        objective: Objective,
        fixed: bool,
    ) -> None:
        self.method = method
        self.folds = FOLDS if rows.n >= SMALL else min(SMALL_FOLDS, rows.n)
        parameters = sum(value.numel() for value in objective.parameters().values())
        self.fold_weight = 0.5 if rows.n >= SMALL and parameters > WIDE * rows.n else 1.0
        self.rates, self.dampings, self._ridges = rates, dampings, ridges
        self.rows, self.fixed = rows, fixed

    def algorithm(self, lr: float, damping: float, ridge: float) -> Descent:
        if self.method == "gradient":
            return GradientDescent(lr, reduction="mean")
        if self.method == "decoupled":
            return DecoupledDescent(lr, damping, reduction="mean")
        if not self.fixed and math.isfinite(ridge):
            share = NEWTON_SHARE * (1 - self.dampings[0])  # stronger damping gets no larger rate
            lr *= max(1.0, share * self.rows.gram.freedom(ridge))
        return OrthogonalDecoupledDescent(
            lr, damping, ridge,
            reduction="mean", folds=self.folds, fold_weight=self.fold_weight,
        )  # fmt: skip

    def ridges(self) -> list[Descent]:
        """All ridges at the usual rate and damping."""
        ridges = self._ridges if self.method == "orthogonal" else self._ridges[:1]
        return [self.algorithm(self.rates[0], self.dampings[0], ridge) for ridge in ridges]

    def challengers(self, best: Run) -> list[Descent]:
        """The careful damping, and the careful rate after a fast descent, with the best ridge."""
        ridge = getattr(best.algorithm, "ridge", math.inf)
        dampings = self.dampings if self.method != "gradient" else self.dampings[:1]
        fast = self.method != "gradient" and best.best_step < FAST
        rates = self.rates if fast else self.rates[:1]
        pairs = [(rate, dampings[0]) for rate in rates[1:]]
        pairs += [(rates[0], damping) for damping in dampings[1:]]
        return [self.algorithm(rate, damping, ridge) for rate, damping in pairs]


def _settings(algorithm: Any) -> str:
    """A name that no other run has, in this contest or in one that was held again."""
    given = {name: getattr(algorithm, name, None) for name in SETTINGS}
    return " ".join(f"{name}={value:g}" for name, value in given.items() if value is not None)


def _dampings(n: int) -> tuple[float, ...]:
    return DAMPINGS if n >= SMALL else SMALL_DAMPINGS


def _ridges(n: int) -> tuple[float, ...]:
    return RIDGES if n >= SMALL else SMALL_RIDGES


def _lowest(runs: Sequence[Run]) -> Run:
    return min(runs, key=lambda run: float(run.best_losses.double().mean()))


def _too_fast(run: Run) -> bool:
    """Whether a run blew up, or made updates and ended up with the start for its best."""
    rose = run.best_step == 0 and len(run.train_error) > 1
    return rose or run.stop_reason is StopReason.DIVERGED


def _curvature(objective: Objective, rows: Rows, theta: Tensor | None) -> float:
    """κ of the loss, given outputs in the shape that training gives it."""
    width = len(starting_theta(rows, objective, theta, 0))
    h = rows.X.new_zeros(rows.n, width)
    with torch.no_grad():
        outputs = objective.pure_head(h, objective.parameters(h))
    return usual_curvature(objective.loss, outputs, rows.y)


def check_settings(method: str, settings: dict[str, Any]) -> None:
    """Raise ``ValueError`` unless the method is known and settings are numbers or ``"auto"``."""
    if method not in METHODS:
        raise ValueError(f"method={method!r} must be one of {', '.join(METHODS)}")
    for name, value in settings.items():
        if isinstance(value, str) and value != "auto":
            raise ValueError(f"{name}={value!r} must be a number or 'auto'")
        if not isinstance(value, str) and (isinstance(value, bool) or not isinstance(value, Real)):
            raise ValueError(f"{name}={value!r} must be a number or 'auto'")
