r"""How far a run of n rows may be from its limit: fluctuations of order n^{−1/2}."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from decoupled_descent.checks import whole_number
from decoupled_descent.datasets.mixtures import GaussianMixture
from decoupled_descent.progress import progress_bar
from decoupled_descent.theory.averages import Point
from decoupled_descent.theory.evolution import Evolution
from decoupled_descent.theory.laws import on_cpu
from decoupled_descent.theory.populations import Nodes, independent_seeds
from decoupled_descent.theory.reuse import coordinates
from decoupled_descent.theory.state_evolution import StateEvolution
from decoupled_descent.training.fit import fit

if TYPE_CHECKING:
    from decoupled_descent.training.run import Run

#: Default number of rows of the small runs that measure the fluctuations.
SIZE = 400


@dataclass(frozen=True)
class FiniteSize:
    """The limit of a run, and the standard deviation of a run of n rows around it.

    Attributes:
        n: Rows.
        evolution: The limit.
        stderr: Standard deviations of single runs by name: ``"train_error"`` and ``"test_error"``,
            shape (T,), ``"alignment"``, (T, J, L), ``"overlap"``, (T, L, L).
    """

    n: int
    evolution: Evolution
    stderr: dict[str, Tensor] = field(repr=False)

    def z(self, values: Any, name: str = "train_error") -> Tensor:
        """Return how many standard deviations a run is from its limit, step by step.

        Args:
            values: Values of the run from the start on, such as ``run.train_error``.
            name: What it is, one of the names in ``stderr``.

        Returns:
            (values − limit)/stderr, with the error of the limit itself in the denominator.
        """
        measured = torch.as_tensor(values, dtype=torch.float64, device="cpu")
        size = min(len(measured), len(self.stderr[name]))
        limit = getattr(self.evolution, name)[:size]
        own = self.evolution.stderr[name][:size]
        spread = (self.stderr[name][:size].square() + own.square()).sqrt()
        deviations: Tensor = (measured[:size] - limit) / spread
        return deviations


@on_cpu
def finite_size(
    theory: StateEvolution,
    n: int,
    steps: int,
    theta: Tensor | None = None,
    *,
    alignment: Tensor | None = None,
    overlap: Tensor | None = None,
    replications: int = 100,
    size: int | None = None,
    progress: bool | None = None,
) -> FiniteSize:
    r"""Standard deviations of a run of n rows around its limit, to first order.

    .. math:: \mathrm{sd}_n \approx \mathrm{sd}_{n'} \sqrt{n'/n}

    with the spread over small runs of n' rows in n'/α dimensions, from a start with the same
    overlaps. So one run can be compared with theory by a z-score, without repeating it. To first
    order fluctuations are proportional to n^{−1/2}, and the bias, of order 1/n, is ignored. This
    fails near a saddle (XOR from a random start): the time of escape fluctuates by more, and runs
    leave the saddle earlier than the limit does.

    Args:
        theory: The limit. Rows with C = I and an algorithm with ``reduction="sum"``.
        n: Rows of the run.
        steps: T.
        theta: θ_1, as in :meth:`StateEvolution.run`.
        alignment: Instead of ``theta``.
        overlap: Instead of ``theta``.
        replications: Small runs. The relative error of the standard deviations is (2 ·
            replications)^{−½}.
        size: n', by default n but at most 400.
        progress: Whether to draw a progress bar; by default, only on a terminal.

    Returns:
        The limit and the standard deviations.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.flipped_classes(500, snr=1.5, labels=(0.0, 1.0))
        >>> objective = dd.Objective(dd.heads.Linear(), "logistic")
        >>> theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.1))
        >>> theta = torch.randn(1, 500, generator=torch.Generator().manual_seed(0))
        >>> finite = dd.theory.finite_size(theory, 500, 5, theta, replications=20, size=100)
        >>> run = dd.fit(*mixture.sample(500, seed=1), objective, theory.algorithm, 5, theta)
        >>> bool(finite.z(run.train_error).abs().max() < 4)
        True
    """
    n, replications = whole_number("n", n), whole_number("replications", replications, 2)
    size = min(n, SIZE) if size is None else whole_number("size", size, 2)
    summed = theory.algorithm.reduction != "mean" and theory.step.batch_size is None
    if theory.covariance is not None or theory.step.entrywise or not summed:
        raise ValueError(
            "finite_size needs covariance=None, reduction='sum', no batch_size and no prox: "
            "otherwise small runs do not stand for large ones; repeat the run instead"
        )
    evolution = theory.run(steps, theta, alignment=alignment, overlap=overlap, progress=progress)
    mixture, start = _small(theory, theta, alignment, overlap, max(2, round(size / theory.ratio)))
    nodes, runs = theory.nodes(len(start)), []
    with progress_bar(replications, "small runs", progress) as advance:
        for seed in independent_seeds(theory.seed, replications):
            runs.append(
                _measure(theory, mixture, start, nodes, len(evolution.test_error), size, seed)
            )
            advance(len(runs), "")
    reached = min(len(run["train_error"]) for run in runs)
    scale = math.sqrt(size / n)
    stderr = {
        name: scale * torch.stack([run[name][:reached] for run in runs]).std(0) for name in runs[0]
    }
    return FiniteSize(n, evolution, stderr)


def _small(
    theory: StateEvolution,
    theta: Tensor | None,
    alignment: Tensor | None,
    overlap: Tensor | None,
    dimension: int,
) -> tuple[GaussianMixture, Tensor]:
    """A mixture and a start with the same overlaps in few dimensions."""
    first = coordinates(theory.geometry, theory.start(theta, alignment, overlap), None)
    spanned = first[0].shape[1]
    if dimension < spanned:
        raise ValueError(
            f"size gives runs in {dimension} dimensions, but means and units span {spanned}; use a "
            "larger size"
        )
    means, start = (
        torch.cat([part[:, :, 0], part.new_zeros(len(part), dimension - spanned)], 1)
        * math.sqrt(dimension)
        for part in first
    )
    laws = list(theory.mixture.responses)
    return GaussianMixture(means, theory.mixture.weights, laws), start


def _measure(
    theory: StateEvolution,
    mixture: GaussianMixture,
    theta: Tensor,
    nodes: Nodes,
    steps: int,
    size: int,
    seed: int,
) -> dict[str, Tensor]:
    """Train once on few rows; return errors and overlaps by name, step by step."""
    objective, d, model = theory.objective, mixture.dimension, theory.model(len(theta))
    X, y = mixture.sample(size, seed, torch.float64)
    iterates: list[Any] = []
    run: Run = fit(
        X, y, objective, theory.algorithm, steps, theta, callbacks=[iterates.append], progress=False
    )
    path = torch.stack([step.state.theta for step in iterates])
    alignment = (path @ mixture.means.T / d).transpose(1, 2)
    overlap = path @ path.transpose(1, 2) / d
    test = [
        model.test_error(nodes, Point(m, omega, step.state.head))
        for step, m, omega in zip(iterates, alignment, overlap, strict=True)
    ]
    return {
        "train_error": run.train_error.double(),
        "test_error": torch.stack(test),
        "alignment": alignment,
        "overlap": overlap,
    }
