"""Models of the past: trained on some rows, they predict later ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from decoupled_descent.evaluation.checks.check import Finding
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.quiet import ignoring

if TYPE_CHECKING:
    from decoupled_descent.tables.estimators.base import DecoupledEstimator

Rows = NDArray[np.intp]


class Predicted(NamedTuple):
    """Rows that were predicted by a model of the rows before them."""

    rows: Rows
    predictions: NDArray[np.floating[Any]]  # probabilities (m, K), or numbers (m,)
    decided: NDArray[Any]  # what the model decides for: classes, or the same numbers


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

    def predict(self, past: Rows, piece: Rows) -> Predicted | None:
        """Predict later rows; None if the past has one class only, or no row counts."""
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
        predictions = self.estimator._predicted_by(model, self.X[piece])
        return Predicted(piece, predictions, model.predict(self.X[piece]))

    def evaluation(self, parts: Sequence[Predicted], given: Sequence[Finding]) -> Evaluation:
        """The evaluation of pieces that were predicted, in order."""
        rows = np.concatenate([one.rows for one in parts])
        sizes = [len(one.rows) for one in parts]
        labels: Any = self.labels[rows]
        decided: Any = np.concatenate([one.decided for one in parts])
        rule, own = self.estimator.decision_rule_, self.estimator.evaluation_
        options: dict[str, Any] = {"rule": rule, "classes": own.classes}
        if own.classes is not None:
            classes = np.asarray(own.classes)
            labels = np.searchsorted(classes, labels)
            options |= {} if rule.is_usual else {"decided": np.searchsorted(classes, decided)}
        if self.groups is not None:
            options["groups"] = np.unique(self.groups[rows], return_inverse=True)[1].reshape(-1)
        return Evaluation.of(
            labels, np.concatenate([one.predictions for one in parts]), own.kind,
            how="later rows", periods=np.repeat(np.arange(len(parts)), sizes),
            weights=self.weights[rows] if self.is_weighted else None, given=tuple(given),
            refits=len(parts), **options,
        )  # fmt: skip
