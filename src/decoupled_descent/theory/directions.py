r"""Algorithm design by simulation: state evolution over candidate directions (section "Design")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from decoupled_descent.descent import DecoupledDescent
from decoupled_descent.descent.info import DivergenceWarning
from decoupled_descent.objective import Direction, HeadDirection, Objective
from decoupled_descent.progress import progress_bar
from decoupled_descent.quiet import ignoring
from decoupled_descent.theory.evolution import Evolution
from decoupled_descent.theory.laws import MixtureLaw
from decoupled_descent.theory.state_evolution import StateEvolution

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor


@dataclass(frozen=True)
class PredictedAlgorithm:
    """An algorithm and its predicted curve.

    Attributes:
        direction: The name of g.
        head_direction: The name of f.
        rates: The settings tried.
        algorithm: Ready to train with.
        evolution: Its limit; shorter than asked for if it diverges.
    """

    direction: str
    head_direction: str
    rates: Mapping[str, Any]
    algorithm: DecoupledDescent = field(repr=False)
    evolution: Evolution = field(repr=False)

    @property
    def best_step(self) -> int:
        """The step with the lowest test error."""
        return int(self.evolution.test_error.argmin())

    @property
    def test_error(self) -> float:
        """min_t test_t."""
        return float(self.evolution.test_error.min())


@dataclass(frozen=True)
class RankedDirections:
    """All candidates, the best first."""

    candidates: list[PredictedAlgorithm]

    @property
    def best(self) -> PredictedAlgorithm:
        """The candidate with the lowest predicted test error at its best step."""
        return self.candidates[0]

    def best_with(self, direction: str) -> PredictedAlgorithm:
        """The best candidate among those with one g, such as ``"gradient"``."""
        return next(c for c in self.candidates if c.direction == direction)

    @property
    def table(self) -> pd.DataFrame:
        """One row per candidate, the best first."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "direction": c.direction,
                    "head direction": c.head_direction,
                    **c.rates,
                    "test error": c.test_error,
                    "standard error": float(c.evolution.test_error_stderr[c.best_step]),
                    "step": c.best_step,
                }
                for c in self.candidates
            ]
        )


def rank_directions(
    mixture: MixtureLaw,
    objective: Objective,
    directions: Mapping[str, Direction | None],
    head_directions: Mapping[str, HeadDirection | None] | None = None,
    rates: Sequence[Mapping[str, Any]] = ({"lr": 0.05},),
    steps: int = 100,
    ratio: float = 1.0,
    *,
    theta: Tensor | None = None,
    alignment: Tensor | None = None,
    overlap: Tensor | None = None,
    progress: bool | None = None,
    **options: Any,
) -> RankedDirections:
    r"""Run state evolution for every g, f and rate, and rank them by min_t test_t.

    .. math:: (g^*, f^*) = \arg\min_{g \in \mathcal G,\, f \in \mathcal F}\
              \min_{t \le T}\ \mathrm{test}_t

    The mixture must be given. The lowest of many predictions has no selection bias, unlike the
    lowest of many runs: predictions are limits, computed up to their standard errors.

    Args:
        mixture: The law of the rows.
        objective: Ψ, whose test error is compared.
        directions: 𝒢, functions g(h, y, a) by name; None is the gradient of Ψ.
        head_directions: ℱ, functions f(h, y, a) by name; by default the gradient alone.
        rates: Settings of :class:`~decoupled_descent.DecoupledDescent` to try with each, such as
            ``{"lr": 0.1, "damping": 0.95}``.
        steps: T.
        ratio: α = n/d.
        theta: Starting point, as in :meth:`StateEvolution.run`.
        alignment: Instead of ``theta``.
        overlap: Instead of ``theta``.
        progress: Whether to draw a progress bar; by default, only on a terminal.
        options: For :class:`~decoupled_descent.StateEvolution`: ``paths``, ``seed`` and so on.

    Returns:
        The candidates, the best first.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.flipped_classes(10, snr=1.5, labels=(0.0, 1.0))
        >>> objective = dd.Objective(dd.heads.Linear(), "logistic")
        >>> directions = {"gradient": None, "labels": lambda h, y, a: (0.5 - y)[:, None] + 0 * h}
        >>> result = dd.theory.rank_directions(
        ...     mixture, objective, directions, rates=[{"lr": 0.1, "damping": 0.9}], steps=40
        ... )
        >>> result.best.direction, round(result.best.test_error, 2)
        ('labels', 0.49)
    """
    head_directions = {"gradient": None} if head_directions is None else head_directions
    if not directions or not head_directions or not rates:
        raise ValueError("directions, head_directions and rates must not be empty")
    start: dict[str, Any] = {"theta": theta, "alignment": alignment, "overlap": overlap}
    tried = list(product(directions.items(), head_directions.items(), rates))
    candidates = []
    quiet = ignoring(DivergenceWarning)  # the curve ends before it
    with progress_bar(len(tried), "directions", progress) as advance, quiet:
        for count, ((name, g), (head_name, f), settings) in enumerate(tried, 1):
            algorithm = DecoupledDescent(**settings, g=g, f=f)
            theory = StateEvolution(mixture, objective, algorithm, ratio, **options)
            evolution = theory.run(steps, **start, progress=False)
            candidates.append(PredictedAlgorithm(name, head_name, settings, algorithm, evolution))
            advance(count, f"{name}: {candidates[-1].test_error:.4f}")
    return RankedDirections(sorted(candidates, key=lambda candidate: candidate.test_error))
