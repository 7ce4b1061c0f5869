"""What a family of models is: one class that leaves rows out of the models of a kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.evaluation.task import Task

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class NoFormulaError(Exception):
    """A family cannot leave rows out of this model; the message says why. Folds do it then."""


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Predictions of all rows as if they were new.

    Attributes:
        predictions: Probabilities, classes or numbers of each row by the model without it.
        how: How they were obtained, in a word or two.
        fitted: The predictions of the model itself, to see how far each row moves; or None.
        kept: The same as ``predictions`` if the shares of the classes are kept; or None.
        pairs: Computes the variance of the error because rows train the models for each other;
            None if fits to halves of the rows have to say it.
        regrouped: Leaves out other units, of a task with other groups, without doing work twice;
            None if that is done from the start.
        excess: How much too large the losses are because the predictions are more variable than
            those of the model, shape (n,); or None.
        doubt: How wrong the formula may be for each row, shape (n,), in any unit; None if the
            change of the losses says it.
        refits: How many models were fitted.
        reason: Why no formula was used, for the report.
        is_exact: Whether the predictions are those of literal refits, or need none for another
            reason, so that refits have nothing to correct.
        models: The number of the model that predicts each row, where several were fitted; or None.
    """

    predictions: Any
    how: str
    fitted: Any = None
    kept: Any = None
    pairs: Callable[[], float] | None = None
    regrouped: Callable[[Task], LeftOut] | None = None
    excess: Floats | None = None
    doubt: Floats | None = None
    refits: int = 0
    reason: str = ""
    is_exact: bool = False
    models: Codes | None = None


def with_shares(task: Task, predictions: Floats) -> Floats:
    r"""Probabilities as if the classes had kept their shares when a row, or group, was left out.

    Without row i its class is rarer, and is predicted less often. Where predictions are in
    proportion to shares, as by Bayes' rule, :math:`p_k \propto p_k^{(-i)} \pi_k / \pi_k^{(-i)}`.
    """
    marks = task.one_hot() * task.row_weights[:, None]
    units = np.arange(task.n) if task.groups is None else task.groups
    lost = np.zeros((int(units.max()) + 1, marks.shape[1]))
    np.add.at(lost, units, marks)
    rest = (marks.sum(0) - lost)[units]
    factors = marks.mean(0) / marks.mean() * rest.sum(1, keepdims=True)
    kept = predictions * np.where(rest > 0, factors / np.where(rest > 0, rest, 1.0), 0.0)
    total = kept.sum(1, keepdims=True)
    return np.asarray(np.where(total > 0, kept / np.where(total > 0, total, 1.0), predictions))


def not_known() -> float:
    """No variance that rows have in common, where neither formula nor halves say it cheaply."""
    return 0.0


class Family(ABC):
    """Models that rows are left out of in the same way. To add one, see :func:`register`."""

    @abstractmethod
    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Predict every row by the model without it.

        Raises ``NoFormulaError`` if that is not possible for this model, and ``ValueError`` if the
        model was not fitted to these rows.
        """

    def misses(self, model: Any, task: Task) -> str:
        """Why a formula misses too much of the model for a few refits; empty if it does not."""
        return ""
