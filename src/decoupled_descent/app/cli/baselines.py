"""The model beside a linear model and guessing, as the report and the terminal show them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from decoupled_descent.app.cli.tables import TrainingTable
from decoupled_descent.app.report.data import Contender
from decoupled_descent.checks import Target
from decoupled_descent.evaluation.decision_rule import DecisionRule
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.kinds import NUMBERS
from decoupled_descent.tables.analyses.baselines import Baseline, baselines, better_than_guessing


def contenders(prepared: TrainingTable, estimator: Any) -> list[Contender]:
    """Return the model, a linear model and guessing with their errors on new rows."""
    own = estimator.evaluation_
    given = prepared.given
    X, y = given.pop("X"), given.pop("y")
    linear, guess = baselines(estimator, X, y, **given)
    measure = _measure(estimator)
    area: tuple[float, ...] = ()
    if not guess.is_worse and better_than_guessing(own, guess):
        found = own.estimate("auc")
        area = (found.value, *found.interval)
    return [
        _contender("this model", own, own.error, measure),
        _contender(linear.name, linear.evaluation, linear.loss, measure, linear),
        _contender(guess.name, guess.evaluation, guess.loss, measure, guess)._replace(area=area),
    ]


def _usual(evaluation: Evaluation) -> Evaluation:
    """The same with decisions for the more probable class, by which accuracies are compared."""
    if evaluation.rule.is_usual or not evaluation.kind.has_classes:
        return evaluation
    return evaluation.with_rule(replace(evaluation.rule, threshold=DecisionRule().threshold))


def _contender(
    name: str, evaluation: Evaluation, loss: float, measure: str, baseline: Baseline | None = None
) -> Contender:
    gap, stderr = (0.0, 0.0) if baseline is None else baseline.gap[1:3]
    score = _usual(evaluation).estimate(evaluation.kind.score).value
    median = None
    if not evaluation.kind.has_classes:
        median = evaluation.estimate("median_absolute_error").value
    return Contender(
        name, evaluation.error, evaluation.stderr, score, median, gap, stderr, loss, measure,
        evaluation.rule.is_usual, is_root=_is_root(evaluation),
    )  # fmt: skip


def _is_root(evaluation: Evaluation) -> bool:
    """Whether losses are squares, of which the roots are shown."""
    return evaluation.kind == NUMBERS


def _measure(estimator: Any) -> str:
    """The name of the loss that is compared, or of its root."""
    if not _is_root(estimator.evaluation_):
        return str(estimator.evaluation_.error_name)
    return "typical error of the logarithm" if estimator.log_target else "typical error"


def targets(task: Target, y: Any) -> Any:
    """The target as columns: numbers, or an indicator of each class, shape (n, K)."""
    if not task.has_classes:
        return np.asarray(y, dtype=np.float64)[:, None]
    return (np.asarray(y)[:, None] == np.unique(y)).astype(np.float64)
