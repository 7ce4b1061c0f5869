r"""The formula for more coefficients than a matrix of pairs of them allows: random products.

With random signs z the mean of :math:`z \circ V z` is the diagonal of V. V z needs products with
the columns alone (conjugate gradients). A diagonal of m products has an error of order 1/√m, which
makes the losses too large by an amount of order 1/m. The losses of both halves of the products tell
how much: twice as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.evaluation.families.interface import NoFormulaError
from decoupled_descent.evaluation.families.minimum import ForeignMinimum
from decoupled_descent.evaluation.task import Task

Floats = NDArray[np.float64]

#: The number of random products, those for the variance that rows have in common, …
PRODUCTS, COMMON = 100, 10
#: … and the precision and the most steps of conjugate gradients.
PRECISION, STEPS = 1e-6, 500
#: 1 − WV is at least this.
LEFT = 1e-3


@dataclass(frozen=True, eq=False)
class ProbedMinimum(ForeignMinimum):
    """A minimum of which only products with V are made; outputs do not concern each other."""

    @cached_property
    def _products(self) -> Floats:
        """Single estimates of the diagonal, shape (n, m)."""
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(self.design), PRODUCTS))
        return np.asarray(signs * self.times(signs))

    def _from(self, products: Floats) -> Floats:
        """The diagonal from some products, within its range, shape (n,)."""
        most = (1 - LEFT) / np.maximum(self.curvatures, 1e-300)
        return np.asarray(np.clip(products.mean(1), 0.0, most))

    @cached_property
    def diagonal(self) -> Floats:
        """V of each row, shape (n, 1, 1)."""
        return self._from(self._products)[:, None, None]

    def halves(self) -> list[Floats]:
        """The moves of each half of the products."""
        half = PRODUCTS // 2
        parts = (self._from(one) for one in (self._products[:, :half], self._products[:, half:]))
        return [(v / (1 - self.curvatures * v))[:, None] * self.gradients for v in parts]

    def times(self, outputs: Floats) -> Floats:
        """V times numbers of all rows."""
        return np.asarray(self.design @ self._divided(self.design.T @ outputs))

    def pairs(self, task: Task, slopes: Floats) -> float:
        """The variance that losses have in common, by random products."""
        left = self.solved(task.units, slopes, transposed=True)
        own = left * self.solved(task.units, self.gradients)
        signs = np.random.default_rng(1).choice([-1.0, 1.0], (task.n, COMMON))
        total = 0.0
        for a in own.T:
            weighted = a[:, None] * signs
            total += float((weighted * self._others(a[:, None] * self._others(signs))).sum())
        return max(0.0, total / COMMON / (task.n * (task.n - 1)))

    def _others(self, outputs: Floats) -> Floats:
        """V without its diagonal, times numbers of all rows."""
        return self.times(outputs) - self.diagonal[:, 0] * outputs

    def moves(self, task: Task) -> Floats:
        """How far the outputs of each row move."""
        if task.groups is not None:
            raise NoFormulaError("groups are not left out by random products")
        return super().moves(task)

    def _decrement(self) -> float | None:
        if self.slopes is None:
            return None
        gradient = self.design.T @ self.gradients + self.slopes
        return float((gradient * self._divided(gradient)).sum())

    def _divided(self, right: Floats) -> Floats:
        """H⁻¹ times columns, by conjugate gradients with the diagonal divided out."""
        scale = self.curvatures @ np.square(self.design) + self.penalty
        inverse = 1 / np.maximum(scale, 1e-300)[:, None]
        found, rest = np.zeros_like(right), right.copy()
        direction = inverse * rest
        size = (rest * direction).sum(0)
        first = np.maximum(size, 1e-300)
        for _ in range(STEPS):
            turned = self.design.T @ (self.curvatures[:, None] * (self.design @ direction))
            turned += self.penalty[:, None] * direction
            step = size / np.maximum((direction * turned).sum(0), 1e-300)
            found += step * direction
            rest -= step * turned
            scaled = inverse * rest
            new = (rest * scaled).sum(0)
            if (new <= PRECISION**2 * first).all():
                break
            direction = scaled + new / np.maximum(size, 1e-300) * direction
            size = new
        return found
