r"""A formula, corrected by literal refits: the difference estimator of survey sampling.

Units are drawn with probabilities that grow with how far the formula moved them. The model is
fitted again without each drawn unit, and the mean difference is added:

.. math:: \hat e = \frac1n \sum_i ℓ_i^{f} + \frac1m \sum_{k\ \text{drawn}}
   \frac{ℓ_k^{lit} - ℓ_k^{f}}{n p_k}, \qquad p_i \propto \text{move}_i + \text{mean} .

Most refits are without the units that moved farthest, or whose decision is most doubtful, in this
order: a single row far from all others can make up much of the error, and what the others miss is
small. The result is unbiased for leave-one-out whatever the formula misses, once all of these are
refitted. Where the formula is right, all differences are zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.checks import standard_error
from decoupled_descent.evaluation.foreign import Foreign

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

#: The first refits, and the most of them: as many as folds would be fitted.
FIRST, MOST = 4, 10
#: As many of the most are without the units that moved farthest, instead of drawn ones; so are
#: CERTAIN_FIRST of the first.
CERTAIN_FIRST, CERTAIN = 3, 7
#: Refits are enough when their standard error is this part of the sampling error.
ENOUGH = 0.2


@dataclass(frozen=True, eq=False)
class Correction:
    """What refits add to the error of a formula.

    Attributes:
        shift: The mean difference.
        stderr: Its standard error; after a single draw, its size.
        size: The same if the mean difference were zero, which is larger: of a few draws the
            deviation from zero is known better than that from their mean.
        waiting: What units that are certain to be refitted, but are not yet, may add to it: in
            proportion to how far they moved.
        refits: How many models were fitted.
        rows: The rows that were refitted …
        predictions: … and their predictions by the refits.
    """

    shift: float
    stderr: float
    size: float
    waiting: float
    refits: int
    rows: Codes
    predictions: Any

    def is_enough(self, sampling: float) -> bool:
        """Whether what few draws may have missed is small beside the sampling error."""
        return math.hypot(self.size, self.waiting) <= ENOUGH * sampling

    def promises(self, sampling: float) -> bool:
        """Whether the most refits that are allowed will be enough, after the first ones."""
        fewer = (FIRST - CERTAIN_FIRST) / (MOST - CERTAIN)
        return self.size * math.sqrt(fewer) <= ENOUGH * sampling


class DifferenceEstimator:
    """The refits of drawn units, one after another."""

    def __init__(self, foreign: Foreign, losses: Floats, moved: Floats | None) -> None:
        """Draw from the losses by the formula, and from how far it moved each of them."""
        task = foreign.task
        self.foreign, self.losses = foreign, losses
        self.shares = task.row_weights / task.row_weights.sum()
        moved = np.zeros(len(losses)) if moved is None else moved
        sizes = np.array([float(self.shares[own] @ moved[own]) for own in task.units])
        sizes = np.where(np.isfinite(sizes), sizes, sizes[np.isfinite(sizes)].max(initial=1.0))
        self.sizes = sizes
        chances = sizes + (sizes.mean() or 1.0)
        self.certain = np.argsort(-sizes, kind="stable")[: min(CERTAIN, len(sizes) // 2)].tolist()
        chances[self.certain] = 0.0
        self.chances = chances / chances.sum()
        self.draws: list[int] = []
        self.literal: dict[int, Any] = {}
        self._generator = np.random.default_rng(0)

    def draw(self, count: int) -> None:
        """Refit without some more units: those that moved farthest, then drawn ones."""
        left = [unit for unit in self.certain if unit not in self.literal]
        left = left[: max(1, count - count // 3)]
        for unit in left:
            self.refit(unit)
        count -= len(left)
        for unit in self._generator.choice(len(self.chances), count, p=self.chances):
            self.draws.append(int(unit))
            self.refit(int(unit))

    def refit(self, unit: int) -> None:
        """Refit without a unit, unless that was done before."""
        if unit not in self.literal:
            out = self.foreign.task.units[unit]
            model = self.foreign.without(out, shares=True)
            self.literal[unit] = self.foreign.predict(model, out)

    def correction(self, losses_of: Callable[[Any, Codes], Floats]) -> Correction:
        """The mean difference so far, for the losses of predictions of some rows."""
        units = self.foreign.task.units
        differences = {
            unit: float(
                self.shares[units[unit]] @ (losses_of(said, units[unit]) - self.losses[units[unit]])
            )
            for unit, said in self.literal.items()
        }
        certain = sum(differences.get(unit, 0.0) for unit in self.certain)
        seen = [unit for unit in self.certain if unit in differences]
        left = [unit for unit in self.certain if unit not in differences]
        moved = math.hypot(*self.sizes[seen])
        share = math.hypot(*self.sizes[left]) / max(moved, 1e-300)
        waiting = share * math.hypot(*(differences[unit] for unit in seen))
        values = np.array([differences[unit] / self.chances[unit] for unit in self.draws])
        rows = np.concatenate([units[unit] for unit in self.literal])
        predictions = np.concatenate(list(self.literal.values()))
        if len(self.literal) == len(units):  # nothing is left to chance
            shift, stderr, size, waiting = sum(differences.values()), 0.0, 0.0, 0.0
        else:
            drawn = values if len(values) else np.zeros(1)
            shift = certain + float(drawn.mean())
            size = math.sqrt(float(np.square(drawn).mean()) / len(drawn))
            stderr = float(standard_error(drawn)) if len(drawn) > 1 else size
        return Correction(shift, stderr, size, waiting, len(self.literal), rows, predictions)
