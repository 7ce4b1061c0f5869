r"""The randomisations of an evolution: each is followed to its end, and all are averaged."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from decoupled_descent.checks import outside, standard_error
from decoupled_descent.descent.info import DivergenceWarning
from decoupled_descent.progress import progress_bar
from decoupled_descent.theory.recursion import Trajectory
from decoupled_descent.theory.reuse import ReuseTrajectory

AnyTrajectory: TypeAlias = Trajectory | ReuseTrajectory


def follow(
    trajectories: Iterable[AnyTrajectory],
    count: int,
    steps: int,
    progress: bool | None = None,
    every: int = 1,
) -> dict[str, Any]:
    """Make all steps of every trajectory and average over them; keep one in ``every`` iterates.

    After Ctrl-C the completed randomisations are kept, or the steps of the first one.
    """
    quantities: list[dict[str, Tensor]] = []
    latest: AnyTrajectory | None = None
    try:
        with progress_bar(steps * count, "state evolution", progress) as advance:
            for number, latest in enumerate(trajectories):
                reached = _finish(latest, number * steps, advance)
                quantities.append(latest.quantities(reached))
    except KeyboardInterrupt:
        if not quantities:
            if latest is None or not latest.losses:
                raise
            quantities = [latest.quantities(len(latest.losses))]
    return average(quantities, every)


def _finish(trajectory: AnyTrajectory, before: int, advance: Callable[[int, str], None]) -> int:
    """Make all steps of one trajectory; return how many iterates have a finite test error."""
    for step in range(trajectory.steps):
        error = trajectory.advance()
        if not math.isfinite(error):
            if not step:
                raise ValueError(
                    "the test error is not finite at the starting point; start from a smaller "
                    "theta, or use a loss with a finite mean"
                )
            warnings.warn(
                f"the test error is no longer finite at step {step}; the evolution ends before "
                "it: lower lr or damping",
                DivergenceWarning,
                stacklevel=outside(),
            )
            return step
        advance(before + step + 1, f"test error {error:.4f}")
    return trajectory.steps


def average(samples: Sequence[Mapping[str, Tensor]], every: int = 1) -> dict[str, Any]:
    """Average over the randomisations, up to the last iterate that is finite in all of them.

    Returns means by name, those of the head as ``head``, and all standard errors as ``stderr``.
    """
    reached = min(len(quantities["test_error"]) for quantities in samples)
    mean: dict[str, Any] = {}
    stderr: dict[str, Tensor] = {}
    for name in samples[0]:
        pair = name in ("omega", "sigma", "xi", "gradient_overlap")
        kept = slice(0, reached, every)
        cut = (kept, kept) if pair else kept
        values = torch.stack([quantities[name][cut] for quantities in samples])
        mean[name] = values.mean(0)
        stderr[name] = standard_error(values) if len(values) > 1 else torch.zeros_like(values[0])
    head = {k.removeprefix("head."): mean.pop(k) for k in [*mean] if k.startswith("head.")}
    return {**mean, "head": head, "stderr": stderr}
