r"""Decoupled Newton: leave-one-out at the minimum, the fixed point of the family on real rows.

The paper's damped descent has fixed points h = Xθ + c ĥ: the memory adds back each row's own
influence on its output, which is −c ĥ_i. At the minimum of a ridge-penalised loss the same holds on
any data, with a c of its own for each row, and Newton's method finds both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.checks import whole_number
from decoupled_descent.descent import gauss_newton
from decoupled_descent.descent.common import Algorithm
from decoupled_descent.descent.info import Info
from decoupled_descent.descent.leave_one_out import (
    LeftOut,
    leave_groups_out,
    leave_out,
    pair_covariance,
    reacted,
    refined,
    shifted,
)
from decoupled_descent.descent.newton_step import Problem, newton_step
from decoupled_descent.descent.spread import spread
from decoupled_descent.objective import BoundObjective, Objective, Parameters
from decoupled_descent.objective.chains import adds_only
from decoupled_descent.rows.blocks import Rows

#: Rows that move by more than this when they are left out get further Newton steps. For smaller
#: moves the error of the first step is of the order of the square of the move. The unit is a move
#: of a logit where both classes are equally likely; see ``_felt``.
LARGE_MOVE = 0.5
#: At most this many rows get further steps, those with the largest moves. The errors of the others
#: are divided by n, which is larger still.
REFINED = 400
#: The most Newton steps of a refit without one row, which starts at the minimum with it.
REFIT_STEPS = 20
#: Such a refit has reached its minimum when the next step would lower F by half of this share.
REFIT_TOLERANCE = 1e-8


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

    β are all trained parameters, θ and the head's; the bias of the outputs is not penalised. The
    mean loss at o^(−i) is the train error, an estimate of the test error. It assumes only that
    rows, or groups of rows, are drawn independently. For heads that add nothing but an intercept
    (:class:`~decoupled_descent.heads.Linear`) it is exact for squared loss and refined to higher
    order otherwise. Heads with weights of their own are treated by Gauss–Newton, and their own
    optimism is included.

    The estimate holds at the minimum only. Before, ``Info.estimates`` is False and the recorded
    losses are those of the fit. Training ends at the minimum.

    Args:
        ridge: λ, positive.
        tolerance: The minimum counts as reached when the next Newton step would lower F by less
            than half this share of it.
        repairs: The largest number of rows for which the model is refitted without the row, because
            the linearisation is doubtful. Rows with the largest moves come first.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.flipped_classes(50, 2.0, labels=(0.0, 1.0)).sample(200, seed=0)
        >>> objective = dd.Objective(dd.heads.Linear(intercept=True), "logistic")
        >>> run = dd.fit(X.double(), y, objective, dd.DecoupledNewton(ridge=1.0))
        >>> str(run.stop_reason), len(run.train_error) < 10
        ('at the minimum', True)
    """

    takes_weights: ClassVar[bool] = True
    uses_jacobian: ClassVar[bool] = False

    ridge: float
    tolerance: float = 1e-9
    repairs: int = 100

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("ridge", "tolerance"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not 0 < float(value) < math.inf:
                raise ValueError(f"{name}={value!r} must be a positive number")
        whole_number("repairs", self.repairs, least=0)

    def init(
        self,
        rows: Rows,
        objective: Objective | BoundObjective,
        theta: Tensor | None = None,
        seed: int | None = None,
    ) -> Any:
        """Return the state before any update; θ₁ is 0 for linear models unless given."""
        bound = self.bind(rows, objective, theta)
        if rows.like.element_size() < 4:
            raise ValueError(
                f"X has dtype {rows.like.dtype}, in which no system of equations can be solved; "
                "pass it in float32 or float64"
            )
        _check_two_classes(rows, bound)
        if theta is None and adds_only(bound.objective.head):
            theta = rows.like.new_zeros(bound.width, rows.d)
        return super().init(rows, bound, theta, seed)

    def start(self, rows: Rows, bound: BoundObjective, theta: Tensor) -> State:
        """The state before any update; see :meth:`Algorithm.start`."""
        return State(theta, bound.parameters(rows.like), 0)

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
        done = move.decrement <= self.tolerance
        outputs, notes = move.outputs, {}

        def refit(without: Problem, row: int) -> Tensor:
            theta, shift = state.theta, intercept
            for _ in range(REFIT_STEPS):
                again = newton_step(without, theta, shift, move.inverse)
                theta, shift = again.theta, again.intercept
                if again.decrement <= REFIT_TOLERANCE:
                    break
            own = rows.take(torch.tensor([row], device=theta.device))[0]
            return theta @ own + (0.0 if shift is None else shift)

        if done:
            found = self.left_out(problem, outputs)
            found, repaired = self._repaired(problem, found, refit)
            outputs, notes = found.outputs, {"repaired": repaired, "doubtful": len(found.doubtful)}
        losses = rows.averaged(problem.losses(outputs))
        shift = 0.0 if intercept is None else intercept
        info = Info(losses, outputs - shift, None, done, done, notes)
        head = {name: move.intercept for name in names if move.intercept is not None}
        return State(move.theta, head, state.step + 1), info

    def left_out(self, problem: Problem, outputs: Tensor) -> LeftOut:
        """Outputs of every row with the row, or its group, left out of the minimum."""
        rows, weights = problem.rows, problem.weights
        bends = problem.expand(outputs)
        around = spread(rows, bends, problem.ridge, weights, problem.intercept)
        if rows.groups is not None:
            return leave_groups_out(outputs, bends, around, weights, rows.groups)
        removed = problem.removed
        first = leave_out(outputs, bends, around.blocks, removed)
        if problem.exact:
            return first
        felt = _felt(problem, outputs, first.outputs)
        movers = felt.topk(min(REFINED, rows.here)).indices
        movers = movers[felt[movers] > LARGE_MOVE].sort().values
        if rows.processes is not None:  # the refinement needs rows of other processes
            return first._replace(doubtful=movers)
        if not len(movers):
            return first
        slopes = problem.slopes
        return refined(outputs, slopes, bends, around, weights, removed, first, movers)

    def _repaired(
        self, problem: Problem, found: LeftOut, refit: Callable[[Problem, int], Tensor]
    ) -> tuple[LeftOut, int]:
        """Refit without each doubtful row, from the minimum; count the rows."""
        if problem.rows.processes is not None:
            return found, 0
        order = found.doubtful[found.change[found.doubtful].argsort(descending=True)]
        outputs = found.outputs.clone()
        for row in order[: self.repairs].tolist():
            weights = problem.weights.clone()
            weights[row] = (weights[row] - problem.removed[row]).clamp_min(0)
            outputs[row] = refit(replace(problem, weighting=weights), row)
        repaired = min(len(order), self.repairs)
        return found._replace(outputs=outputs, doubtful=order[repaired:]), repaired

    def _general_step(self, state: State, problem: Problem) -> tuple[State, Info]:
        """The same for heads with weights of their own, by Gauss–Newton."""
        move = gauss_newton.step(problem, state.theta, state.head)
        done = move.decrement <= self.tolerance
        outputs, notes = move.outputs, {}

        def refit(without: Problem, row: int) -> Tensor:
            theta, head = state.theta, state.head
            for _ in range(REFIT_STEPS):
                again = gauss_newton.step(without, theta, head)
                theta, head = again.theta, again.head
                if again.decrement <= REFIT_TOLERANCE:
                    break
            h = problem.rows.X[row : row + 1] @ theta.T
            return problem.bound.objective.pure_head(h, head).reshape(-1)

        if done:
            found = move.left_out()
            moved = _felt(problem, outputs, found)
            movers = (moved > LARGE_MOVE).nonzero().squeeze(1)
            if problem.rows.groups is not None:
                movers = movers[:0]
            left = LeftOut(found, torch.zeros_like(found), moved, movers)
            left, repaired = self._repaired(problem, left, refit)
            outputs, notes = left.outputs, {"repaired": repaired, "doubtful": len(left.doubtful)}
        losses = problem.rows.averaged(problem.losses(outputs))
        info = Info(losses, outputs, None, done, done, notes)
        return State(move.theta, move.head, state.step + 1), info

    def outputs(self, state: Any, preactivations: Tensor, bound: BoundObjective) -> Tensor:
        """Outputs of the training rows as if they were new, (n,) or (n, K)."""
        if adds_only(bound.objective.head):
            return super().outputs(state, preactivations, bound)
        return _shaped(preactivations)

    def assumptions(self) -> frozenset[str]:
        """That the minimum was reached."""
        return frozenset({"minimum"})


def paired_losses(problem: Problem, outputs: Tensor, some: Tensor) -> float:
    """Mean covariance at a minimum of two entries of ``rows.averaged``, over some rows."""
    rows, weights, groups = problem.rows, problem.weights, problem.rows.groups
    bends = problem.expand(outputs)
    around = spread(rows, bends, problem.ridge, weights, problem.intercept)
    if groups is None:
        removed, count = problem.removed, rows.n
        found = leave_out(outputs, bends, around.blocks, removed)
    else:
        removed, count = weights, int(groups.max()) + 1
        found = leave_groups_out(outputs, bends, around, removed, groups)
    shares = weights / weights.mean() * (count / rows.n)
    slopes = shares.unsqueeze(1) * problem.expand(found.outputs).slope
    left = reacted(slopes, bends, around, removed, groups)
    return pair_covariance(left, found.moves, around, some, groups)


def shifts_without(problem: Problem, outputs: Tensor, folds: Tensor) -> Tensor:
    r"""How left-out outputs at a minimum move if a fold of rows is left out too, (folds, n, K).

    Leaving out fold S moves the outputs of row i by V_iS d_S, and its left-out outputs by

    .. math:: (I - V_i W_i)^{-1} V_{iS}\, d_S, \qquad d_S = (I - W_S V_{SS})^{-1} g_S .

    V_i is that of all rows: what the labels of the fold have told the model is taken back, and the
    model is otherwise that of all rows but i.

    Args:
        problem: The problem at its minimum.
        outputs: The outputs there, shape (n, K).
        folds: The fold of each row, from 0 on, shape (n,); groups are in one fold.

    Returns:
        The moves, for rows outside the fold.
    """
    rows, weights, groups = problem.rows, problem.weights, problem.rows.groups
    bends = problem.expand(outputs)
    around = spread(rows, bends, problem.ridge, weights, problem.intercept)
    moves = leave_groups_out(outputs, bends, around, weights, folds).moves
    placed = moves.new_zeros(*moves.T.shape, int(folds.max()) + 1)
    placed[:, torch.arange(len(moves)), folds] = moves.T
    removed = problem.removed if groups is None else weights
    return shifted(around.times(placed), bends, around, removed, groups).permute(2, 1, 0)


def _check_two_classes(rows: Rows, bound: BoundObjective) -> None:
    """Raise ``ValueError`` for classes of which there is one: the intercept has no minimum."""
    loss = bound.objective.loss.name
    if loss not in ("logistic", "cross_entropy") or not bound.parameters():
        return
    if rows.processes is not None:  # others may have the other classes
        return
    first = float(rows.y.reshape(-1)[0])
    if first == round(first) and bool((rows.y == first).all()):
        raise ValueError(
            f"y is {first:g} in every row; loss {loss!r} has no minimum for one class, pass rows "
            "of at least two"
        )


def _felt(problem: Problem, outputs: Tensor, left_out: Tensor) -> Tensor:
    r"""How far rows move when they are left out, as the loss feels it, shape (n,).

    .. math:: 2\,(\Delta^\top \bar W \Delta)^{1/2}, \qquad
       \bar W \Delta = g(o + \Delta) - g(o),

    for moves Δ of the outputs, with the mean curvature W̄ along the way. A logit may move far
    without any effect if its class is very unlikely before and after.
    """
    before, after = (problem.expand(at).slope for at in (outputs, left_out))
    squares = ((left_out - outputs) * (after - before)).sum(1)
    return 2 * squares.clamp_min(0).sqrt()


def _shaped(outputs: Tensor) -> Tensor:
    """(n, 1) as (n,), which is what losses and users expect."""
    return outputs.squeeze(1) if outputs.shape[1] == 1 else outputs


def _smoothing(rows: Rows, bound: BoundObjective) -> float:
    """δ for losses with kinks: a share of the labels' spread that shrinks as n^{−1/5}."""
    loss = bound.objective.loss
    if loss.expand is not None or not bound.kinked:
        return 0.0
    if rows.processes is not None:
        raise ValueError(
            f"loss {loss.name!r} has kinks, whose width depends on the labels of all rows; use a "
            "smooth loss, or rows in one process"
        )
    labels = rows.y.double()
    centre = labels.median(0).values if labels.ndim == 2 else labels.median()
    spread = 1.4826 * float((labels - centre).abs().median())
    share: float = 0.5 / float(rows.n) ** 0.2
    return share * max(spread, 1e-6)
