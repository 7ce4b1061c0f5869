"""A problem at its minimum, with the influence of its rows on their outputs."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from decoupled_descent.leave_one_out.influence import BlockDiagonal, Influence
from decoupled_descent.leave_one_out.kernel import KernelInfluence
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.leave_one_out.ridge import RidgeInfluence
from decoupled_descent.leave_one_out.softmax import SoftmaxDual, SoftmaxPrimal
from decoupled_descent.objective.second_order import Curvature
from decoupled_descent.rows.blocks import Rows

#: Curvatures of rows, before weights, are at least this, which counts as zero in float64.
TINY = 1e-10
#: With more features than this share of the rows, the n × n form of V is the cheaper one.
DUAL = 0.6
#: Up to this many rows n × n matrices are made.
SQUARE = 3000


class Minimum(NamedTuple):
    """A problem at its minimum, and what leaving rows out of it needs."""

    problem: Problem
    outputs: Tensor  # o, shape (n, K)
    curvature: Curvature  # the loss to second order there, before weights
    influence: Influence  # V

    @property
    def gradients(self) -> Tensor:
        """g_i of all rows, shape (n, K)."""
        return self.problem.weights.unsqueeze(1) * self.curvature.slope

    def rough(self) -> Minimum:
        """The same with products that have few digits, see :meth:`Influence.rough`."""
        return self._replace(influence=self.influence.rough())

    def hessians(self, rows: Tensor) -> Tensor:
        """W_i of some rows, shape (…, K, K)."""
        return self.problem.weights[rows][..., None, None] * self.curvature.matrices(rows)


def linear_minimum(problem: Problem, outputs: Tensor) -> Minimum:
    """The minimum of a model that is linear in its parameters, by its outputs, shape (n, K)."""
    curvature = problem.expand(outputs)
    return Minimum(problem, outputs, curvature, influence_of(problem, curvature))


def influence_of(problem: Problem, curvature: Curvature) -> Influence:
    """V for the curvature of single rows before weights; the last one is kept with the rows."""
    key = (problem.ridge, problem.intercept, problem.weights, *curvature[2:])
    influence: Influence = problem.rows.recall(
        "influence", key, lambda: _structured(problem, curvature)
    )
    return influence


def forget_influence(rows: Rows) -> None:
    """Free the memory of the V that is kept with the rows."""
    rows.kept.pop("influence", None)


def _structured(problem: Problem, curvature: Curvature) -> Influence:
    """The structure of V with the smallest matrices."""
    rows, ridge, intercept = problem.rows, problem.ridge, problem.intercept
    parameters = curvature.diagonal.shape[1] * (rows.d + 1)
    many = rows.n > SQUARE or not rows.in_memory or parameters <= rows.n
    if curvature.full is not None or (curvature.rank_one is not None and many):
        return SoftmaxPrimal(problem, curvature)
    diagonal = problem.weights * curvature.diagonal.T.clamp_min(TINY)
    gram = rows.products if is_dual(rows) else None
    outputs: list[RidgeInfluence | KernelInfluence] = [
        RidgeInfluence(rows, own, ridge, intercept)
        if gram is None
        else KernelInfluence(gram, own, ridge, intercept)
        for own in distinct(rows, diagonal)
    ]
    outputs *= len(diagonal) // len(outputs)
    if curvature.rank_one is None:
        return outputs[0] if len(outputs) == 1 else BlockDiagonal(outputs)
    rank_one = problem.weights.sqrt().unsqueeze(1) * curvature.rank_one
    return SoftmaxDual([one.dense() for one in outputs], rank_one, intercept)


def distinct(rows: Rows, curvature: Tensor) -> Tensor:
    """Curvatures (K, n) in which outputs differ: one row if all outputs have the same."""
    differ = (curvature != curvature[:1]).sum()
    return curvature if int(rows.total(differ)[0]) else curvature[:1]


def is_dual(rows: Rows) -> bool:
    """Whether n × n matrices are cheaper than r × r ones."""
    return rows.in_memory and DUAL * rows.n < rows.d and rows.n <= SQUARE
