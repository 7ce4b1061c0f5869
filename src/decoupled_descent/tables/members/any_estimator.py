"""Any estimator of scikit-learn as a member: rows are predicted by fits without their fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter
from torch import Tensor

from decoupled_descent.tables.members.interface import (
    Floats,
    KeptRows,
    Member,
    MemberFit,
    TableSize,
    TrainingTable,
)

#: Folds of the mixture are joined to this many: the estimator is fitted so often, and once more.
FOLDS = 10


@dataclass(frozen=True, eq=False)
class AnyEstimator(Member):
    """A fitted estimator, with those that were fitted without each fold."""

    kind = "estimator"
    name: str
    model: Any
    without: list[Any]
    width: int  # the number of columns of predictions
    classes: bool  # whether they are probabilities

    def predict(self, X: Any) -> Tensor:
        """Probabilities of all classes, or numbers, shape (m, C)."""
        return torch.from_numpy(self._ask(self.model, np.asarray(X)))

    def _ask(self, model: Any, X: Any) -> Floats:
        """Predictions of one of the estimators; a class that it has not seen has probability 0."""
        if not self.classes:
            return np.asarray(model.predict(X), np.float64).reshape(len(X), self.width)
        chances = np.zeros((len(X), self.width))
        chances[:, model.classes_.astype(int)] = model.predict_proba(X)
        return chances

    def kept_rows(self, table: TrainingTable, some: Tensor) -> KeptRows:
        """The fold of each row: the estimator without the fold is one without the row."""
        rows = np.asarray(table.X[some.numpy()], np.float64)
        return KeptRows(table.folds[some] % FOLDS, torch.from_numpy(rows))

    def changes(self, X: Any | None, kept: KeptRows) -> Tensor:
        """Predictions of the estimator without the fold of a row, minus those of the model."""
        inputs = np.asarray(kept.X if X is None else X)
        moved = np.stack([self._ask(one, inputs) for one in self.without], 1)
        moved -= self._ask(self.model, inputs)[:, None]
        return torch.from_numpy(moved[:, kept.matrix.numpy()])

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Refuse: a file with any object would run code when it is read."""
        raise ValueError(
            f"the member {self.name} cannot be saved: files hold numbers only, no objects of other "
            "libraries; train without it in members=, or keep the estimator in memory"
        )

    @classmethod
    def restore(cls, settings: Any, tensors: dict[str, Tensor], width: int) -> Self:  # noqa: ARG003
        """Refuse, as :meth:`state` does."""
        raise ValueError("a file cannot hold estimators of other libraries")


@dataclass(frozen=True)
class EstimatorRecipe:
    """Fits of an estimator to all rows, and without each of ten folds."""

    estimator: Any

    @property
    def name(self) -> str:
        """The name of its class, and its options."""
        return f"{' '.join(repr(self.estimator).split()):.60}"

    def suits(self, size: TableSize) -> bool:
        """Every table suits."""
        return True

    def operations(self, size: TableSize) -> float:
        """Nothing is known about the estimators of others."""
        return 0.0

    def train(self, table: TrainingTable, seed: int) -> list[MemberFit]:
        """Fit clones; ``seed`` is not used, because the estimator has its own."""
        del seed
        folds = table.folds.numpy() % FOLDS
        every = np.ones(len(folds), dtype=bool)
        count = int(folds.max()) + 1
        model = self._fitted(table, every)
        without = [self._fitted(table, folds != fold) for fold in range(count)]
        classes = table.loss.has_classes
        member = AnyEstimator(self.name, model, without, table.width, classes)
        honest = np.empty((len(folds), table.width))
        for fold, one in enumerate(without):
            honest[folds == fold] = member._ask(one, table.X[folds == fold])
        if not np.isfinite(honest).all():
            raise ValueError(f"members has {self.name}, which predicts values that are not finite")
        predictions = torch.from_numpy(honest)
        return [MemberFit(member, predictions, torch.zeros_like(predictions))]

    def _fitted(self, table: TrainingTable, rows: NDArray[np.bool_]) -> Any:
        """A clone, fitted to some rows."""
        one, options = clone(self.estimator), {}
        if table.loss.has_classes and not hasattr(one, "predict_proba"):
            raise ValueError(f"members has {self.name}, which has no predict_proba for classes")
        if table.weights is not None:
            if not has_fit_parameter(one, "sample_weight"):
                raise ValueError(f"members has {self.name}, which takes no sample_weight")
            options["sample_weight"] = table.row_weights[rows]
        classes = table.classes
        y = table.y.numpy() if classes is None else classes.numpy()
        return one.fit(np.asarray(table.X[rows], np.float64), y[rows], **options)
