"""The training rows of a fitted estimator, as its analyses need them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.means import Mean, mean_with_stderr
from decoupled_descent.tables.columns.rules import Columns

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AnalysedTable:
    """A fitted estimator with the rows that it was trained on.

    Attributes:
        model: The estimator.
        X: The rows that count, as the matrix that the model takes, shape (n, d).
        columns: What was done with the columns of the raw table; None if it was a matrix.
    """

    model: Any
    X: Floats
    columns: Columns | None = None

    @classmethod
    def of(cls, model: Any, X: Any, columns: Columns | None = None) -> AnalysedTable:
        """Take the rows of ``fit``, a raw table or a matrix, or raise ``ValueError``.

        ``columns`` are rules that made a matrix of a table before ``fit``; those of the model by
        default.
        """
        evaluation: Evaluation = model._rows_of_fit()
        rows = np.asarray(model._checked(X), np.float64)
        kept = model._kept
        count = len(evaluation.labels) if kept is None else len(kept)
        if model.time_estimate_ is None and len(rows) != count:
            raise ValueError(
                f"X has {len(rows)} rows but the model was trained on {count}; pass those of fit"
            )
        return cls(model, rows if kept is None else rows[kept], columns or model.columns_)

    @property
    def evaluation(self) -> Evaluation:
        """Predictions of these rows by models that were fitted without them."""
        left_out: Evaluation = self.model._left_out
        return left_out

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns of the table."""
        if self.columns is not None:
            return [column.name for column in self.columns.columns]
        own = getattr(self.model, "feature_names_in_", None)
        return [f"column {k}" for k in range(self.X.shape[1])] if own is None else [*map(str, own)]

    @cached_property
    def spans(self) -> list[slice]:
        """The columns of X that were made from each column of the table."""
        if self.columns is None:
            return [slice(k, k + 1) for k in range(self.X.shape[1])]
        counts = [len(column.outputs) for column in self.columns.columns]
        return [slice(*ends) for ends in pairwise(np.cumsum([0, *counts]).tolist())]

    def losses(self, predictions: Floats, rows: Any = slice(None)) -> Floats:
        """The losses of predictions of some rows: log losses, or squared errors.

        Where the logarithm of the target is fitted, errors are those of the logarithm: errors in
        the units of the target would be those of the few largest ones.
        """
        labels = self.evaluation.labels[rows]
        if getattr(self.model, "log_target", False):
            labels, predictions = np.log(labels), np.log(predictions)
        return self.evaluation.kind.losses(labels, predictions)

    def mean(self, values: Floats, rows: Any) -> Mean:
        """The mean of values of some rows; groups are independent."""
        evaluation = self.evaluation
        weights = None if evaluation.weights is None else evaluation.weights[rows]
        groups = None
        if evaluation.groups is not None:
            groups = np.unique(evaluation.groups[rows], return_inverse=True)[1].reshape(-1)
        return mean_with_stderr(values, weights, groups)
