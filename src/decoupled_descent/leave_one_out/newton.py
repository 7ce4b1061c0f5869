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
from decoupled_descent.descent.common import Algorithm
from decoupled_descent.descent.info import Info
from decoupled_descent.leave_one_out.class_shares import ClassShares
from decoupled_descent.leave_one_out.leave_out import LeaveOneOut, leave_out, refine
from decoupled_descent.leave_one_out.minimise import NewtonStep, newton_step
from decoupled_descent.leave_one_out.minimum import Minimum
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective import BoundObjective, Objective, Parameters
from decoupled_descent.objective.chains import adds_only
from decoupled_descent.rows.blocks import Rows

#: Rows that move by more than this when they are left out get further Newton steps. For smaller
#: moves the error of the first step is of the order of the square of the move. The unit is a move
#: of a logit where both classes are equally likely; see ``_move_sizes``.
LARGE_MOVE = 0.5
#: At most this many rows get further steps, those with the largest moves. The errors of the others
#: are divided by n, which is larger still.
REFINED = 400
#: The most Newton steps of a refit without one row, which starts at the minimum with it.
REFIT_STEPS = 20
#: Such a refit has reached its minimum when the next step would lower F by half of this share.
REFIT_TOLERANCE = 1e-8

#: A step that gains less than this share of F is near the minimum: the next ones, so many at most,
#: use its approximate inverse.
NEAR, FURTHER_STEPS = 0.01, 5


class NewtonState(NamedTuple):
    """What the Newton method carries from step to step."""

    theta: Tensor  # θ, shape (L, d)
    head: Parameters  # a, by parameter name
    step: int  # how many updates have been made


@dataclass(frozen=True)
class DecoupledNewton(Algorithm):
    r"""Newton's method on a ridge-penalised loss, with every row left out of the minimum.

    .. math::
       F(\beta) = \textstyle\sum_i w_i \ell(o_i(\beta), y_i) + \tfrac12\lambda\|\beta\|^2, \qquad
       o_i^{(-i)} = o_i + V_i (I - W_i V_i)^{-1} g_i

    β are θ and the intercepts, which are not penalised: heads that add anything else
    (other than :class:`~decoupled_descent.heads.Linear`) are refused, because their loss may have
    several minima. :class:`DecoupledGaussNewton` leaves rows out of those along the path. The
    mean loss at o^(−i) is the train error, an estimate of the test error. It assumes only that
    rows, or groups of rows, are drawn independently. It is exact for squared loss and refined to
    higher order otherwise.

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
        head = bound.objective.head
        if not adds_only(head):
            raise ValueError(
                f"DecoupledNewton takes heads.Linear only, and head {type(head).__name__} may have "
                "several minima; pass the whole module with DecoupledGaussNewton()"
            )
        if rows.like.element_size() < 4:
            raise ValueError(
                f"X has dtype {rows.like.dtype}, in which no system of equations can be solved; "
                "pass it in float32 or float64"
            )
        _check_two_classes(rows, bound)
        if theta is None:
            theta = rows.like.new_zeros(bound.width, rows.d)
        return super().init(rows, bound, theta, seed)

    def start(self, rows: Rows, bound: BoundObjective, theta: Tensor) -> NewtonState:
        """The state before any update; see :meth:`Algorithm.start`."""
        return NewtonState(theta, bound.parameters(rows.like), 0)

    def step(
        self, state: NewtonState, rows: Rows, objective: Objective | BoundObjective
    ) -> tuple[NewtonState, Info]:
        """Make one damped Newton step; see :meth:`Algorithm.step`."""
        bound = self.bind(rows, objective, state.theta)
        if bound.g is not None or bound.f is not None:
            raise ValueError("DecoupledNewton minimises the loss itself; leave out g and f")
        problem = Problem(rows, bound, float(self.ridge), _smoothing(rows, bound))
        move = newton_step(problem, state.theta, state.head)
        done = move.decrement <= self.tolerance
        outputs, notes = move.outputs, {}

        def refit(without: Problem, row: int) -> Tensor:
            theta, head = state.theta, state.head
            for _ in range(REFIT_STEPS):
                again = move.again(without, theta, head)
                theta, head = again.theta, again.head
                if again.decrement <= REFIT_TOLERANCE:
                    break
            own = rows.take(torch.tensor([row], device=theta.device))
            return bound.objective.pure_head(own @ theta.T, head).reshape(-1)

        if done:
            minimum = move.minimum()
            shares = ClassShares.at(minimum)
            first = leave_out_refined(minimum, shares)
            result, repaired = self._repaired(problem, first, shares, refit)
            outputs = result.outputs
            notes = {"repaired": repaired, "doubtful": len(result.doubtful)}
        losses = rows.averaged(problem.losses(outputs))
        h = outputs - next(iter(state.head.values()), 0.0)
        info = Info(losses, h, None, done, done, notes)
        if not done:
            move = self._further(move)
        return NewtonState(move.theta, move.head, state.step + 1), info

    def _further(self, move: NewtonStep) -> NewtonStep:
        """Further Newton steps near the minimum, with the approximate inverse of the first.

        The inverse is most of the work of a step, and hardly changes there.
        """
        for _ in range(FURTHER_STEPS):
            if move.decrement > NEAR:
                return move
            again = move.again(move.problem, move.theta, move.head)
            if again.decrement <= self.tolerance:  # the move has led to the minimum
                return move
            move = again
        return move

    def _repaired(
        self,
        problem: Problem,
        result: LeaveOneOut,
        shares: ClassShares | None,
        refit: Callable[[Problem, int], Tensor],
    ) -> tuple[LeaveOneOut, int]:
        """Refit without each doubtful row, from the minimum; count the rows."""
        if not problem.rows.all_here:
            return result, 0
        order = result.doubtful[result.change[result.doubtful].argsort(descending=True)]
        outputs = result.outputs.clone()
        for row in order[: self.repairs].tolist():
            weights = problem.weights.clone() if shares is None else shares.weights_without(row)
            weights[row] = 0.0
            outputs[row] = refit(replace(problem, weighting=weights), row)
        repaired = min(len(order), self.repairs)
        return result._replace(outputs=outputs, doubtful=order[repaired:]), repaired

    def assumptions(self) -> frozenset[str]:
        """That the minimum was reached."""
        return frozenset({"minimum"})


def leave_out_refined(minimum: Minimum, shares: ClassShares | None = None) -> LeaveOneOut:
    """Outputs of every row with the row, or its group, left out of the minimum.

    With ``shares`` the classes keep their shares.

    Rows that move far get further Newton steps; those of several processes are doubtful.
    """
    first, problem = leave_out(minimum, shares), minimum.problem
    if problem.rows.groups is not None or problem.quadratic:
        return first
    sizes = _move_sizes(problem, minimum.outputs, first.outputs)
    movers = (sizes > LARGE_MOVE).nonzero().squeeze(1)
    movers = movers[sizes[movers].topk(min(REFINED, len(movers))).indices].sort().values
    if not problem.rows.all_here:  # the refinement needs rows of other processes
        return first._replace(doubtful=movers)
    return refine(minimum, first, movers, shares) if len(movers) else first


def _check_two_classes(rows: Rows, bound: BoundObjective) -> None:
    """Raise ``ValueError`` for classes of which there is one: the intercept has no minimum."""
    loss = bound.objective.loss
    if not loss.has_classes or not bound.parameters():
        return
    if not rows.all_here:  # others may have the other classes
        return
    first = float(rows.y.reshape(-1)[0])
    if first == round(first) and bool((rows.y == first).all()):
        raise ValueError(
            f"y is {first:g} in every row; loss {loss.name!r} has no minimum for one class, pass "
            "rows of at least two"
        )


def _move_sizes(problem: Problem, outputs: Tensor, left_out: Tensor) -> Tensor:
    r"""How far rows move when they are left out, in the metric of the loss, shape (n,).

    .. math:: 2\,(\Delta^\top \bar W \Delta)^{1/2}, \qquad
       \bar W \Delta = g(o + \Delta) - g(o),

    for moves Δ of the outputs, with the mean curvature W̄ along the way. A logit may move far
    without any effect if its class is very unlikely before and after.
    """
    before, after = (problem.expand(at).slope for at in (outputs, left_out))
    squares = ((left_out - outputs) * (after - before)).sum(1)
    return 2 * squares.clamp_min(0).sqrt()


def _smoothing(rows: Rows, bound: BoundObjective) -> float:
    """δ for losses with kinks: a share of the labels' spread that shrinks as n^{−1/5}."""
    loss = bound.objective.loss
    if loss.expand is not None or not bound.kinked:
        return 0.0
    if not rows.all_here:
        raise ValueError(
            f"loss {loss.name!r} has kinks, whose width depends on the labels of all rows; use a "
            "smooth loss, or rows in one process"
        )
    labels = rows.y.double()
    centre = labels.median(0).values if labels.ndim == 2 else labels.median()
    spread = 1.4826 * float((labels - centre).abs().median())
    share: float = 0.5 / float(rows.n) ** 0.2
    return share * max(spread, 1e-6)
