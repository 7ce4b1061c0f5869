r"""What an evolution returns, and how it is averaged over randomisations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.checks import outside
from decoupled_descent.objective import Parameters
from decoupled_descent.objective.kinks import Values
from decoupled_descent.progress import progress_bar
from decoupled_descent.theory.averages import Point
from decoupled_descent.theory.laws import on_cpu
from decoupled_descent.theory.orders import value_orders
from decoupled_descent.theory.risk import Estimate, average_over, mean_value
from decoupled_descent.training.run import DivergenceWarning

if TYPE_CHECKING:
    from decoupled_descent.theory.recursion import Trajectory
    from decoupled_descent.theory.reuse import ReuseTrajectory
    from decoupled_descent.theory.state_evolution import StateEvolution

    AnyTrajectory = Trajectory | ReuseTrajectory


@dataclass(frozen=True)
class Evolution:
    r"""The limit of a run, by iterate; entry 0 of everything is the starting point.

    Rows have covariance C/d, and θ̃_t is the step of the algorithm before the learning rate.

    Attributes:
        test_error: Σ_j p_j E Ψ(m_{j,t} + N(0, Ω[t,t]), Y_j, ā_t), shape (T,).
        train_error: The limit of the train error, shape (T,). It differs from the test error only
            for methods without a correction.
        alignment: m_{j,t} = lim μ_jᵀθ_t/d, shape (T, J, L).
        overlap: Ω[t,t], shape (T, L, L).
        head: ā_t by parameter name, shapes (T, …).
        signal: l_{j,t} = p_j E[g | j] along the direction g of the step, shape (T, J, L).
        omega: Ω[r,s] = lim θ_rᵀCθ_s/d, shape (T, T, L, L).
        sigma: Σ[r,s] = lim g_rᵀg_s/n, shape (T, T, L, L).
        xi: Ξ[r,s] = lim θ_rᵀCθ̃_s/d, shape (T, T, L, L).
        gradient_overlap: lim θ̃_rᵀCθ̃_s/d, shape (T, T, L, L): for decoupled descent and C = I
            αΣ[r,s] + α² Σ_jk χ_jk l_{j,r} l_{k,s}ᵀ (Lemma "ddState" states its first term only).
        stderr: Standard errors of all of these over the randomisations, by name (``"head.<name>"``
            for the head); under quadrature, half the difference between two neighbouring orders.
        theory: What was run.
        makers: For methods without a correction: functions that compute the trajectories again.
    """

    test_error: Tensor
    train_error: Tensor
    alignment: Tensor = field(repr=False)
    overlap: Tensor = field(repr=False)
    head: Parameters = field(repr=False)
    signal: Tensor = field(repr=False)
    omega: Tensor = field(repr=False)
    sigma: Tensor = field(repr=False)
    xi: Tensor = field(repr=False)
    gradient_overlap: Tensor = field(repr=False)
    stderr: dict[str, Tensor] = field(repr=False)
    theory: StateEvolution = field(repr=False)
    makers: Sequence[Callable[[], ReuseTrajectory]] = field(repr=False, default=())

    @property
    def test_error_stderr(self) -> Tensor:
        """Standard error of the test error, shape (T,)."""
        return self.stderr["test_error"]

    def parameters(self, step: int) -> Parameters:
        """Return ā at one iterate, by name."""
        return {name: path[step] for name, path in self.head.items()}

    def point(self, step: int) -> Point:
        """Return m, Ω[t,t] and ā at one iterate."""
        return Point(self.alignment[step], self.overlap[step], self.parameters(step))

    @on_cpu
    def expect(self, phi: Values, step: int, *, new: bool = False) -> Estimate:
        r"""The limit of the mean of any function over the training rows (Lemma "ddState").

        .. math:: \lim \tfrac1n\textstyle\sum_i \phi(h_{t,i}, y_i, a_t)
                  = \sum_j p_j E[\phi(m_{j,t} + G^t, Y_j, \bar a_t)]

        Args:
            phi: ``phi(h, y, a)`` for h of shape (n, L), y of shape (n,) and a by name; returns one
                number per row. It may jump.
            step: t; negative values count from the end.
            new: Average over new rows. This differs from training rows only for methods without a
                correction; their trajectories are then computed again.

        Returns:
            The value and its standard error.

        Example:
            >>> import decoupled_descent as dd
            >>> objective = dd.Objective(dd.heads.Linear(), "squared")
            >>> theory = dd.StateEvolution(
            ...     dd.mixtures.signalless(10), objective, dd.DecoupledDescent(lr=0.1)
            ... )
            >>> mean = theory.run(steps=3).expect(lambda h, y, a: h[:, 0] ** 4, step=0)
            >>> round(float(mean), 10)
            3.0
        """
        step = range(len(self.test_error))[step]
        if self.makers and not new:
            found = []
            for trajectory in self._followed(step):
                about = (trajectory.population, trajectory.heads[-1])
                found.append(mean_value(phi, trajectory.preactivations, *about))
            return Estimate.of(found)
        model, at = self.theory.model(self.overlap.shape[-1]), self.point(step)
        orders = value_orders(model, phi, at.head)
        return average_over(model, phi, at, orders, seed=self.theory.seed)

    def training_rows(self, step: int) -> TrainingRows | None:
        """Sampled training rows in the limit if they differ from new rows; else None."""
        parts = [
            (at.preactivations, at.population.modes, at.population.weights / len(self.makers))
            for at in self._followed(range(len(self.test_error))[step])
        ]
        if not parts:
            return None
        return TrainingRows(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def _followed(self, step: int) -> Iterator[ReuseTrajectory]:
        """Compute the paths of a method without a correction again, up to a step."""
        for make in self.makers:
            trajectory = make()
            for _ in range(step * len(trajectory.sizes) + 1):
                trajectory.advance()
            yield trajectory


class TrainingRows(NamedTuple):
    """Training rows in the limit: pre-activations, modes and weights."""

    h: Tensor  # shape (N, L)
    modes: Tensor  # shape (N,)
    weights: Tensor  # sum to one, shape (N,)


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
    found: list[dict[str, Tensor]] = []
    latest: AnyTrajectory | None = None
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
    return average(found, every)


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


def average(found: Sequence[Mapping[str, Tensor]], every: int = 1) -> dict[str, Any]:
    """Average over the randomisations, up to the last iterate that is finite in all of them.

    Returns means by name, those of the head as ``head``, and all standard errors as ``stderr``.
    """
    reached = min(len(quantities["test_error"]) for quantities in found)
    mean: dict[str, Any] = {}
    stderr: dict[str, Tensor] = {}
    for name in found[0]:
        pair = name in ("omega", "sigma", "xi", "gradient_overlap")
        kept = slice(0, reached, every)
        cut = (kept, kept) if pair else kept
        values = torch.stack([quantities[name][cut] for quantities in found])
        mean[name] = values.mean(0)
        spread = values.std(0) if len(values) > 1 else torch.zeros_like(mean[name])
        stderr[name] = spread / math.sqrt(len(values))
    head = {k.removeprefix("head."): mean.pop(k) for k in [*mean] if k.startswith("head.")}
    return {**mean, "head": head, "stderr": stderr}
