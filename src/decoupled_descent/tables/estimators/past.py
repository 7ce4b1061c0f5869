"""Models of the past: trained on some rows, they predict later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from decoupled_descent.checks import ignoring
from decoupled_descent.tables.estimators.forward import PieceErrors

if TYPE_CHECKING:
    from decoupled_descent.tables.estimators.base import DecoupledEstimator

Rows = NDArray[np.intp]


class Past:
    """Trains copies of an estimator on rows of the past, and predicts later rows.

    Args:
        estimator: The estimator whose options the copies have.
        X: The rows, as a matrix.
        labels: Their labels.
        sample_weight: Their weights; rows of weight 0 count nowhere.
        groups: Their groups. Rows of a group that is predicted are left out of the past.
    """

    def __init__(
        self, estimator: DecoupledEstimator, X: Any, labels: NDArray[Any],
        sample_weight: Any = None, groups: Any = None,
    ) -> None:  # fmt: skip
        self.estimator, self.X, self.labels = estimator, X, labels
        self.is_weighted, n = sample_weight is not None, len(labels)
        self.weights = np.broadcast_to(1.0 if sample_weight is None else sample_weight, n)
        self.groups = None if groups is None else np.asarray(groups).astype(str)

    def errors_of(self, past: Rows, piece: Rows) -> PieceErrors | None:
        """The errors of later rows; None if the past has one class only, or no row counts."""
        piece = piece[self.weights[piece] > 0]
        past = past[self.weights[past] > 0]
        if self.groups is not None:
            past = past[~np.isin(self.groups[past], self.groups[piece])]
        if not len(piece) or len(past) < 2 or len(np.unique(self.labels[past])) < 2:
            return None
        model: Any = clone(self.estimator).set_params(verbose=False)
        given: dict[str, Any] = {}
        if self.is_weighted:
            given["sample_weight"] = self.weights[past]
        if self.groups is not None and 1 < len(np.unique(self.groups[past])) < len(past):
            given["groups"] = self.groups[past]
        with ignoring(UserWarning):  # the fit to all rows has warned already
            model.fit(self.X[past], self.labels[past], **given)
        rows, labels = self.X[piece], self.labels
        losses, scores = self.estimator._errors_of(model, rows, labels[piece], labels)
        return PieceErrors(losses, scores, np.asarray(self.weights[piece], np.float64))
