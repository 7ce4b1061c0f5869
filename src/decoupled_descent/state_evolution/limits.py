r"""What every evolution returns, and how it is averaged over randomisations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.progress import progress_bar
from decoupled_descent.state_evolution.trajectory import Trajectory
from decoupled_descent.training.run import DivergenceWarning


@dataclass(frozen=True)
class Limits:
    r"""What all evolutions have: limits by iterate; entry 0 of everything is the starting point.

    Attributes:
        test_error: Σ_j p_j E Ψ(m_{j,t} + N(0, Ω[t,t]), Y_j, ā_t), shape (T,); the limit of the
            train error as well.
        alignment: m_{j,t} = lim μ_jᵀθ_t/d, shape (T, J, L).
        overlap: Ω[t,t], shape (T, L, L).
        head: ā_t by parameter name, shapes (T, …).
        signal: l_{j,t} = p_j E[g | j] along the direction g of the step, shape (T, J, L).
        omega: Ω[r,s] = lim θ_rᵀCθ_s/d for rows of covariance C/d, shape (T, T, L, L).
        sigma: Σ[r,s] = lim g_rᵀg_s/n, shape (T, T, L, L).
        stderr: Standard errors of all of these over the randomisations, by name (``"head.<name>"``
            for the head); under quadrature, half the difference between two neighbouring orders.
    """

    test_error: Tensor
    alignment: Tensor = field(repr=False)
    overlap: Tensor = field(repr=False)
    head: Parameters = field(repr=False)
    signal: Tensor = field(repr=False)
    omega: Tensor = field(repr=False)
    sigma: Tensor = field(repr=False)
    stderr: dict[str, Tensor] = field(repr=False)

    @property
    def test_error_stderr(self) -> Tensor:
        """Standard error of the test error, shape (T,)."""
        return self.stderr["test_error"]

    def parameters(self, step: int) -> Parameters:
        """ā at one iterate, by name."""
        return {name: path[step] for name, path in self.head.items()}


def follow(
    trajectories: Iterable[Trajectory], count: int, steps: int, progress: bool | None = None
) -> dict[str, Any]:
    """Make all steps of every trajectory, and average over them.

    Args:
        trajectories: One per randomisation, made as they are asked for.
        count: How many there are.
        steps: T.
        progress: Whether to draw a progress bar; by default, only on a terminal.

    Returns:
        What :func:`average` returns. Ctrl-C ends with the randomisations completed, or with the
        steps of the first one.
    """
    found: list[dict[str, Tensor]] = []
    latest: Trajectory | None = None
    try:
        with progress_bar(steps * count, "state evolution", progress) as advance:
            for number, latest in enumerate(trajectories):
                reached = _finish(latest, number * steps, advance)
                found.append(latest.quantities(reached))
    except KeyboardInterrupt:
        if not found:
            if latest is None or not latest.losses:
                raise
            found = [latest.quantities(len(latest.losses))]
    return average(found)


def _finish(trajectory: Trajectory, before: int, advance: Callable[[int, str], None]) -> int:
    """Make all steps of one trajectory; return how many iterates have a finite test error."""
    for step in range(trajectory.steps):
        error = trajectory.advance()
        if not math.isfinite(error):
            if not step:
                raise ValueError("the test error is not finite at the starting point")
            warnings.warn(
                f"the test error is no longer finite at step {step}; the evolution ends before "
                "it: lower lr or damping",
                DivergenceWarning,
                stacklevel=4,
            )
            return step
        advance(before + step + 1, f"test error {error:.4f}")
    return trajectory.steps


def average(found: Sequence[Mapping[str, Tensor]]) -> dict[str, Any]:
    """Average over the randomisations, up to the last iterate that is finite in all.

    Args:
        found: The quantities of one trajectory each, by name.

    Returns:
        Means by name, those of the head as ``head``, and all standard errors as ``stderr``.

    Example:
        >>> found = average(
        ...     [{"test_error": torch.tensor([1.0, 2.0])}, {"test_error": torch.tensor([3.0])}]
        ... )
        >>> found["test_error"], found["stderr"]
        (tensor([2.]), {'test_error': tensor([1.])})
    """
    reached = min(len(quantities["test_error"]) for quantities in found)
    mean: dict[str, Any] = {}
    stderr: dict[str, Tensor] = {}
    for name in found[0]:
        pair = name in ("omega", "sigma", "xi")
        cut = (slice(reached), slice(reached)) if pair else slice(reached)
        values = torch.stack([quantities[name][cut] for quantities in found])
        mean[name] = values.mean(0)
        spread = values.std(0) if len(values) > 1 else torch.zeros_like(mean[name])
        stderr[name] = spread / math.sqrt(len(values))
    head = {k.removeprefix("head."): mean.pop(k) for k in [*mean] if k.startswith("head.")}
    return {**mean, "head": head, "stderr": stderr}
