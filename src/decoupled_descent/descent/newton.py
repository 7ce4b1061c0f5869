r"""Decoupled Newton: leave-one-out at the minimum, the fixed point of the family on real rows.

The paper's damped descent has fixed points h = Xθ + c ĥ: the memory adds back each row's own
influence on its output, which is −c ĥ_i. At the minimum of a ridge-penalised loss the same holds on
any data, with a c of its own for each row, and Newton's method finds both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from decoupled_descent.descent import gauss_newton
from decoupled_descent.descent.common import Algorithm, Info, starting_theta
from decoupled_descent.descent.leave_one_out import (
    LeftOut,
    covariance,
    leave_groups_out,
    leave_out,
    refined,
)
from decoupled_descent.descent.newton_step import Problem, newton_step
from decoupled_descent.objective import BoundObjective, Objective, Parameters
from decoupled_descent.objective.structured import adds_only
from decoupled_descent.rows.blocks import Rows

#: Rows whose outputs move by more than this when they are left out get further Newton steps; below,
#: the error of the first is of the order of the square.
LARGE_MOVE = 0.5


class State(NamedTuple):
    """What the Newton method carries from step to step.

    Attributes:
        theta: θ, shape (L, d).
        head: a, by parameter name.
        step: How many updates have been made.
    """

    theta: Tensor
    head: Parameters
    step: int


@dataclass(frozen=True)
class DecoupledNewton(Algorithm):
    r"""Newton's method on a ridge-penalised loss, with every row left out of the minimum.

    .. math::
       F(\beta) = \textstyle\sum_i w_i \ell(o_i(\beta), y_i) + \tfrac12\lambda\|\beta\|^2, \qquad
       o_i^{(-i)} = o_i + V_i (I - W_i V_i)^{-1} g_i

    β are all trained parameters, θ and the head's; biases are not penalised. The mean loss at
    o^(−i) is the train error, an estimate of the test error that assumes nothing of the rows but
    that they are drawn independently (or in groups). For heads that add nothing but an intercept
    (:class:`~decoupled_descent.heads.Linear`) it is exact for squared loss and refined to higher
    order otherwise; heads with weights of their own are treated by Gauss–Newton, and their own
    optimism is included.

    The estimate holds at the minimum only. Until it is reached, ``Info.estimates`` is False and the
    losses recorded are plain fitted ones; training ends when it is reached.

    Args:
        ridge: λ, positive.
        tolerance: The minimum counts as reached when the next Newton step would lower F by less
            than half this per unit of weight.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.flipped_classes(50, 2.0, labels=(0.0, 1.0)).sample(200, seed=0)
        >>> objective = dd.Objective(dd.heads.Linear(intercept=True), "logistic")
        >>> run = dd.fit(X.double(), y, objective, dd.DecoupledNewton(ridge=1.0))
        >>> str(run.stop_reason), len(run.train_error) < 10
        ('at the minimum', True)
    """

    takes_weights: ClassVar[bool] = True

    ridge: float
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("ridge", "tolerance"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not 0 < float(value) < math.inf:
                raise ValueError(f"{name}={value!r} must be a positive number")

    def init(
        self,
        rows: Rows,
        objective: Objective | BoundObjective,
        theta: Tensor | None = None,
        seed: int | None = None,
    ) -> State:
        """Return the state before any update; θ₁ is 0 for linear models unless given."""
        bound = self.bind(rows, objective, theta)
        if theta is None and adds_only(bound.objective.head):
            theta = rows.X.new_zeros(bound.width, rows.d)
        theta = starting_theta(rows, bound, theta, seed)
        return State(theta, bound.parameters(rows.X), 0)

    def step(
        self, state: State, rows: Rows, objective: Objective | BoundObjective
    ) -> tuple[State, Info]:
        """Make one damped Newton step; see :meth:`Algorithm.step`."""
        bound = self.bind(rows, objective, state.theta)
        if bound.g is not None or bound.f is not None:
            raise ValueError("DecoupledNewton minimises the loss itself; leave out g and f")
        problem = Problem(rows, bound, float(self.ridge), _smoothing(rows, bound))
        if not adds_only(bound.objective.head):
            return self._general_step(state, problem)
        names = list(state.head)
        intercept = state.head[names[0]] if names else None
        move = newton_step(problem, state.theta, intercept)
        done = move.decrement <= self.tolerance * problem.total
        outputs = move.outputs
        if done:
            outputs = self.left_out(problem, move.outputs).outputs
        losses = rows.averaged(bound.objective.losses_of(_shaped(outputs), rows.y))
        shift = 0.0 if intercept is None else intercept
        info = Info(losses, outputs - shift, None, estimates=done, finished=done)
        head = {name: move.intercept for name in names if move.intercept is not None}
        return State(move.theta, head, state.step + 1), info

    def left_out(self, problem: Problem, outputs: Tensor) -> LeftOut:
        """Outputs of every row with the row, or its group, left out of the minimum."""
        rows, weights = problem.rows, problem.weights
        bends = problem.expand(outputs)
        spread = covariance(rows.X, bends, problem.ridge, weights)
        if rows.groups is not None:
            return leave_groups_out(outputs, bends, spread, weights, rows.groups)
        removed = problem.removed
        first = leave_out(outputs, bends, spread.blocks, removed)
        movers = (first.change > LARGE_MOVE).nonzero().squeeze(1)
        if problem.exact or not len(movers):
            return first
        slopes = problem.slopes
        found = refined(outputs, slopes, bends, spread, weights, removed, first, movers)
        return found

    def _general_step(self, state: State, problem: Problem) -> tuple[State, Info]:
        """The same for heads with weights of their own, by Gauss–Newton."""
        move = gauss_newton.step(problem, state.theta, state.head)
        done = move.decrement <= self.tolerance * problem.total
        outputs = move.left_out() if done else move.outputs
        losses = problem.rows.averaged(
            problem.bound.objective.losses_of(_shaped(outputs), problem.rows.y)
        )
        info = Info(losses, outputs, None, estimates=done, finished=done)
        return State(move.theta, move.head, state.step + 1), info

    def outputs(self, state: Any, preactivations: Tensor, bound: BoundObjective) -> Tensor:
        """Outputs of the training rows as if they were new, (n,) or (n, K)."""
        if adds_only(bound.objective.head):
            return super().outputs(state, preactivations, bound)
        return _shaped(preactivations)

    def assumptions(self) -> frozenset[str]:
        """That the minimum was reached."""
        return frozenset({"minimum"})


def _shaped(outputs: Tensor) -> Tensor:
    """(n, 1) as (n,), which is what losses and users expect."""
    return outputs.squeeze(1) if outputs.shape[1] == 1 else outputs


def _smoothing(rows: Rows, bound: BoundObjective) -> float:
    """δ for losses with kinks: a share of the labels' spread that shrinks as n^{−1/5}."""
    loss = bound.objective.loss
    if loss.expand is not None or not bound.kinked:
        return 0.0
    labels = rows.y.double()
    centre = labels.median(0).values if labels.ndim == 2 else labels.median()
    spread = 1.4826 * float((labels - centre).abs().median())
    return 0.5 * max(spread, 1e-6) / float(rows.n) ** 0.2
