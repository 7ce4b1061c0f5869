r"""What state evolution returns: the limit of a run, iterate by iterate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.objective import Parameters
from decoupled_descent.objective.kinks import Values
from decoupled_descent.plotting.theory import plot_preactivations
from decoupled_descent.theory.averages import Point
from decoupled_descent.theory.drift import DriftedError, drifted_error
from decoupled_descent.theory.laws import MixtureLaw, on_cpu
from decoupled_descent.theory.orders import value_orders
from decoupled_descent.theory.risk import Value, average_over, mean_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from decoupled_descent.theory.reuse import ReuseTrajectory
    from decoupled_descent.theory.state_evolution import StateEvolution


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
    def expect(self, phi: Values, step: int, *, new: bool = False) -> Value:
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
            values = []
            for trajectory in self._followed(step):
                about = (trajectory.population, trajectory.heads[-1])
                values.append(mean_value(phi, trajectory.preactivations, *about))
            return Value.of(values)
        model, at = self.theory.model(self.overlap.shape[-1]), self.point(step)
        orders = value_orders(model, phi, at.head)
        return average_over(model, phi, at, orders, seed=self.theory.seed)

    def under(self, mixture: MixtureLaw, variance: float = 1.0) -> DriftedError:
        """The test error if new rows come from another mixture: other means, shares or responses.

        Args:
            mixture: Where new rows come from, in the same dimension as the training mixture. Parts
                of its means that are orthogonal to those of training do not help: no row showed
                them.
            variance: The variance of its noise, in units of that of training.

        Returns:
            ``test_error`` and ``stderr``, shape (T,), and ``alignment`` with the new means.

        Example:
            >>> import decoupled_descent as dd
            >>> before, after = (
            ...     dd.mixtures.flipped_classes(100, snr, labels=(0.0, 1.0)) for snr in (2.0, 1.0)
            ... )
            >>> objective = dd.Objective(dd.heads.Linear(), "logistic")
            >>> evolution = dd.StateEvolution(before, objective, dd.DecoupledDescent(0.1)).run(20)
            >>> bool(evolution.under(after).test_error[-1] > evolution.test_error[-1])
            True
        """
        return drifted_error(self, mixture, variance)

    def plot_preactivations(self, preactivations: Tensor, modes: Any, step: int) -> Figure:
        r"""Draw the pre-activations of a run for each mode, and their limit N(m_j, Ω) for new rows.

        For methods with a correction the training rows have the same limit. For other methods the
        limit of the training rows is drawn as well.

        Args:
            preactivations: h of the rows at one step, shape (n, L), such as
                ``info.preactivations`` in a callback.
            modes: The mode of each row, shape (n,), from
                :meth:`GaussianMixture.sample_with_modes`.
            step: The step.

        Returns:
            A figure with a row per unit and a column per mode.

        Example:
            >>> import decoupled_descent as dd
            >>> mixture = dd.mixtures.flipped_classes(100, snr=2.0, labels=(0.0, 1.0))
            >>> X, y, modes = mixture.sample_with_modes(200, seed=0)
            >>> objective = dd.Objective(dd.heads.Linear(), "logistic")
            >>> seen, algorithm = [], dd.DecoupledDescent(0.1)
            >>> run = dd.fit(X, y, objective, algorithm, 3, callbacks=[seen.append], seed=0)
            >>> evolution = dd.StateEvolution(mixture, objective, algorithm).run(3)
            >>> h = seen[2].info.preactivations
            >>> figure = evolution.plot_preactivations(h, modes, step=2)
            >>> len(figure.axes)
            2
        """
        return plot_preactivations(preactivations, modes, self, step)

    def training_rows(self, step: int) -> LimitRows | None:
        """Sampled training rows in the limit if they differ from new rows; else None."""
        parts = [
            (at.preactivations, at.population.modes, at.population.weights / len(self.makers))
            for at in self._followed(range(len(self.test_error))[step])
        ]
        if not parts:
            return None
        return LimitRows(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def _followed(self, step: int) -> Iterator[ReuseTrajectory]:
        """Compute the paths of a method without a correction again, up to a step."""
        for make in self.makers:
            trajectory = make()
            for _ in range(step * len(trajectory.sizes) + 1):
                trajectory.advance()
            yield trajectory


class LimitRows(NamedTuple):
    """Training rows in the limit: pre-activations, modes and weights."""

    h: Tensor  # shape (N, L)
    modes: Tensor  # shape (N,)
    weights: Tensor  # sum to one, shape (N,)
