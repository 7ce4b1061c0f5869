"""Linear models at the minimum of a smooth loss and a penalty: left out by a formula."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.evaluation.families.interface import Family, LeftOut, NoFormulaError
from decoupled_descent.evaluation.families.losses import FamilyLoss, doubt
from decoupled_descent.evaluation.families.minimum import MOST, ForeignMinimum, rotated
from decoupled_descent.evaluation.families.probes import ProbedMinimum
from decoupled_descent.evaluation.kinds import DECISIONS, PROBABILITIES
from decoupled_descent.evaluation.task import Task

Floats = NDArray[np.float64]

#: Coefficients below this part of the largest count as zero under a penalty with a kink.
ZERO = 1e-12


@dataclass(frozen=True, eq=False)
class Penalised:
    """What a linear model minimises.

    Attributes:
        loss: The loss of a row.
        coefficients: Shape (d, K).
        intercepts: Shape (K,).
        ridge: The penalty is ½ ridge ‖β‖² …
        kink: … + kink ‖β‖₁.
        weights: What the loss of each row is multiplied by, shape (n,).
        has_intercept: Whether there is one.
        intercept_size: The intercept is penalised as the coefficient of a column of this number;
            0 if it is not penalised.
        is_positive: Whether coefficients are held above zero.
    """

    loss: FamilyLoss
    coefficients: Floats
    intercepts: Floats
    ridge: float
    kink: float
    weights: Floats
    has_intercept: bool = True
    intercept_size: float = 0.0
    is_positive: bool = False


class Linear(Family):
    """A family of linear models; each says what it minimises."""

    @abstractmethod
    def problem(self, model: Any, task: Task) -> Penalised:
        """What the model minimises."""

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Predict every row by one Newton step without it."""
        task = task.with_rows(task.matrix)
        if not np.isfinite(task.X).all():
            raise ValueError(
                "X has missing or infinite values, and the model has none in its fit: pass its rows"
            )
        problem = self.problem(model, task)
        outputs = task.X @ problem.coefficients + problem.intercepts
        minimum = _minimum(problem, task, outputs)
        if _stopped_early(model):  # refits will say what that means
            minimum = replace(minimum, slopes=None)
        return by_formula(minimum, problem.loss, outputs, task)


def by_formula(minimum: ForeignMinimum, loss: FamilyLoss, outputs: Floats, task: Task) -> LeftOut:
    """Leave each unit out of a minimum."""
    left = outputs + minimum.moves(task)
    shares = task.row_weights / task.row_weights.mean()

    def pairs() -> float:
        slopes = loss.slopes(left, task.labels)
        return 0.0 if slopes is None else minimum.pairs(task, shares[:, None] * slopes)

    kept = None
    if task.kind.has_classes:
        kept = loss.predictions(left + minimum.shifts(task))
    fitted = loss.predictions(outputs)
    excess = _excess(minimum, loss, outputs, left, task)
    unsure = doubt(outputs, left) if task.kind == DECISIONS else None
    if task.kind == PROBABILITIES:  # flat parts of a loss hide how far outputs move
        unsure = np.abs(left - outputs).max(1)
    again = partial(by_formula, minimum, loss, outputs)
    said = loss.predictions(left)
    return LeftOut(said, "formula", fitted, kept, pairs, again, excess, unsure)


def _excess(
    minimum: ForeignMinimum, loss: FamilyLoss, outputs: Floats, left: Floats, task: Task
) -> Floats | None:
    """How much too large losses are because a random estimate of the moves has a variance."""
    halves = [
        task.kind.losses(task.labels, loss.predictions(outputs + moved))
        for moved in minimum.halves()
    ]
    if not halves:
        return None
    return np.asarray(np.mean(halves, 0) - task.kind.losses(task.labels, loss.predictions(left)))


def _minimum(problem: Penalised, task: Task, outputs: Floats) -> ForeignMinimum:
    """The columns that move, with their derivatives."""
    loss, weights = problem.loss, problem.weights
    gradients = weights[:, None] * loss.gradients(outputs, task.labels)
    curved = loss.curvatures(outputs, task.labels)
    curvatures = weights * curved if curved.ndim == 1 else weights[:, None, None] * curved
    size = problem.intercept_size or 1.0
    held = problem.kink and problem.intercept_size and not problem.intercepts.any()
    free = np.full((task.n, int(problem.has_intercept and not held)), size)
    beta, intercepts = problem.coefficients, problem.intercepts[None, : outputs.shape[1]]
    d, penalised = len(beta), problem.intercept_size > 0
    own_ridge, own_kink = (penalised * one for one in (problem.ridge, problem.kink))
    moving = _moving(problem)
    if moving is None and problem.ridge > 0 and MOST >= task.n < d:
        columns, penalty, slopes = rotated(task.X, np.full(d, problem.ridge), task.X @ beta, free)
        last = len(penalty) - free.shape[1]
        penalty[last:] = own_ridge
        slopes[last:] = own_ridge * intercepts / size
        return ForeignMinimum(
            columns, gradients, curvatures, penalty, slopes, gauge=_gauge(problem, last)
        )
    slopes = problem.ridge * beta + problem.kink * np.sign(beta)
    rows = np.ones(d, bool) if moving is None else moving.any(1)
    columns = np.concatenate([task.X[:, rows], free], 1)
    ridge = np.full(int(rows.sum()), problem.ridge)
    penalty = np.concatenate([ridge, np.full(free.shape[1], own_ridge)])
    if not problem.ridge and moving is None and columns.shape[1] >= task.n:
        raise NoFormulaError("it has as many coefficients as rows, and no penalty")
    own = own_ridge * intercepts / size + own_kink * np.sign(intercepts)
    with_intercept = np.concatenate([slopes[rows], own[: free.shape[1]]])
    active = None
    if moving is not None and curvatures.ndim > 1:
        active = np.concatenate([moving[rows], np.ones((free.shape[1], beta.shape[1]), bool)])
    gauge = _gauge(problem, int(rows.sum()))
    large = columns.shape[1] > MOST and curvatures.ndim == 1
    if large:
        return ProbedMinimum(columns, gradients, curvatures, penalty, with_intercept, active, gauge)
    scaled = len(ridge) if task.is_standardised and problem.has_intercept else 0
    kinks = (problem.kink * np.sign(beta))[rows][:scaled]
    return ForeignMinimum(
        columns, gradients, curvatures, penalty, with_intercept, active, gauge, scaled, kinks
    )


def _moving(problem: Penalised) -> NDArray[np.bool_] | None:
    """The coefficients that are not held at zero, shape (d, K); None for all."""
    if not problem.kink and not problem.is_positive:
        return None
    largest = np.abs(problem.coefficients).max(initial=0.0)
    return np.asarray(np.abs(problem.coefficients) > ZERO * largest)


def _gauge(problem: Penalised, place: int) -> tuple[int, ...]:
    """The column of the intercepts, if they may all rise together."""
    free = problem.has_intercept and not problem.intercept_size
    return (place,) if free and problem.coefficients.shape[1] > 1 and problem.loss.is_joint else ()


def _stopped_early(model: Any) -> bool:
    """Whether training made as many steps as it may."""
    steps, most = getattr(model, "n_iter_", None), getattr(model, "max_iter", None)
    return steps is not None and most is not None and bool(np.max(steps) >= most)


def columns_of(values: Any) -> Floats:
    """Coefficients of one output, (d,), or several, (K, d), as columns (d, K)."""
    return np.atleast_2d(np.asarray(values, np.float64)).T


def as_weights(model: Any, task: Task) -> Floats:
    """The weight of each row times that of its class."""
    class_weight = getattr(model, "class_weight", None)
    if class_weight is None:
        return task.row_weights
    from sklearn.utils.class_weight import compute_class_weight

    codes = np.arange(len(task.classes))
    if isinstance(class_weight, dict):
        class_weight = {k: class_weight.get(name, 1) for k, name in enumerate(task.classes)}
    by_class = compute_class_weight(class_weight, classes=codes, y=task.labels)
    return np.asarray(task.row_weights * by_class[task.labels])
