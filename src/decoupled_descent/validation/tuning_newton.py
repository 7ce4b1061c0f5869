"""Tuning by Newton's method: the minimum for a few ridges, walked downhill."""

from __future__ import annotations

import math
import warnings
from typing import Any

from torch import Tensor

from decoupled_descent.checks import ignoring, outside
from decoupled_descent.descent.newton import DecoupledNewton
from decoupled_descent.objective import Objective
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.training.callbacks import StopReason
from decoupled_descent.training.checkpoint import Checkpoint
from decoupled_descent.training.run import DivergenceWarning, Run, fit
from decoupled_descent.validation.contest import was_interrupted
from decoupled_descent.validation.sweep import Sweep

#: Ridges are powers of √10. These exponents are tried first.
FIRST = (0, -3, 3)
#: The largest exponent, and the smallest one with a minus sign.
LIMIT = 12


def walk_ridges(
    rows: Rows,
    objective: Objective,
    given: dict[str, Any],
    steps: int,
    theta: Tensor | None,
    seed: int,
    progress: bool | None,
    checkpoint: Checkpoint | None,
) -> Sweep:
    """Fit a few ridges far apart, then walk downhill from the best one.

    Args:
        rows: The data.
        objective: Ψ.
        given: The settings; only ``ridge`` may be other than ``"auto"``.
        steps: The most steps per fit.
        theta: θ_1.
        seed: Draws θ_1.
        progress: Whether to draw a progress bar.
        checkpoint: Where to save the fits.

    Returns:
        The fits that reached their minimum, or all if none did.
    """
    for name in ("lr", "damping"):
        if given[name] != "auto":
            raise ValueError(f"{name}={given[name]!r} has no effect with method='newton'")
    runs: dict[float, Run] = {}

    def error(place: float) -> float:
        """The error at ridge 10^(place/2); infinite where the minimum was not reached."""
        if place not in runs:
            if was_interrupted(list(runs.values())):
                return math.inf
            algorithm = DecoupledNewton(10 ** (place / 2))
            with ignoring(DivergenceWarning):  # a ridge that does not reach its minimum is ignored
                where = checkpoint and checkpoint.within(f"ridge {algorithm.ridge:.9g}")
                start = (rows, None, objective, algorithm, steps, theta)
                runs[place] = fit(*start, seed=seed, progress=progress, checkpoint=where)
        return runs[place].best.train_error if _at_minimum(runs[place]) else math.inf

    if given["ridge"] == "auto":
        best = min(FIRST, key=error)
        while (lower := min((best, best - 1, best + 1), key=error)) != best:
            best = lower
            if abs(best) >= LIMIT:
                break
    else:
        error(2 * math.log10(DecoupledNewton(given["ridge"]).ridge))
    return _reached([run for _, run in sorted(runs.items())], steps)


def _reached(runs: list[Run], steps: int) -> Sweep:
    """The fits that reached their minimum; all of them, with a warning, if none did."""
    reached = [run for run in runs if _at_minimum(run)]
    if not reached:
        warnings.warn(
            f"no ridge reached its minimum within steps={steps}: the errors are fitted ones and "
            "say nothing about new rows; allow more steps or give a larger ridge",
            DivergenceWarning,
            stacklevel=outside(),
        )
    kept = tuple(reached or runs)
    return Sweep(tuple(f"ridge={run.algorithm.settings['ridge']:g}" for run in kept), kept)


def _at_minimum(run: Run) -> bool:
    return run.stop_reason is StopReason.MINIMUM
