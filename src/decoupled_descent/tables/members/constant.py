"""The model without columns: the shares of the classes.

A mixture is drawn towards it as far as its own gain is uncertain
(``tables/search/shrinkage.py``). Classes keep their shares when a row is left out, so
that all rows have the same predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from decoupled_descent.tables.members.interface import (
    Floats,
    KeptRows,
    Member,
    MemberFit,
    TableSize,
    TrainingTable,
)
from decoupled_descent.tables.prediction import predictor


@dataclass(frozen=True, eq=False)
class Constant(Member):
    """The shares of the classes in the training rows."""

    kind = "constant"
    name = "constant"
    shares: Floats  # shape (C,)

    def predict(self, X: Any) -> Tensor:
        """The same probabilities for all rows, shape (m, C)."""
        return torch.from_numpy(predictor.constant(vars(self), X))

    def kept_rows(self, table: TrainingTable, some: Tensor) -> KeptRows:
        """Nothing: classes keep their shares when a row is left out."""
        del table
        return KeptRows(some)

    def without_own(self, X: Any, kept: KeptRows) -> Tensor:
        """The same probabilities for all rows."""
        del kept
        return self.predict(X)

    def changes(self, X: Any | None, kept: KeptRows) -> Tensor:
        """Intervals are for numbers, which have no classes."""
        raise ValueError("a constant model predicts classes, which have no intervals")

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The shares."""
        return {"kind": self.kind}, {"shares": torch.from_numpy(self.shares)}

    @classmethod
    def restore(cls, settings: Any, tensors: dict[str, Tensor], width: int) -> Self:  # noqa: ARG003
        """Take the shares."""
        return cls(tensors["shares"].numpy())


@dataclass(frozen=True)
class ConstantRecipe:
    """The shares of the classes; nothing for numbers."""

    name: str = "constant"

    def suits(self, size: TableSize) -> bool:
        """Classes only."""
        return size.has_classes

    def operations(self, size: TableSize) -> float:
        """A count takes no time."""
        return 0.0

    def train(self, table: TrainingTable, seed: int) -> list[MemberFit]:
        """Count the rows of each class, by their weights."""
        del seed
        classes = table.classes
        if classes is None:
            return []
        weights = table.row_weights
        shares = np.bincount(classes.numpy(), weights, minlength=table.width) / weights.sum()
        model = Constant(shares)
        predictions = model.predict(table.X)
        return [MemberFit(model, predictions, torch.zeros_like(predictions), is_reference=True)]
