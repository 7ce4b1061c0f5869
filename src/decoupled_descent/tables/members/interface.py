"""The interface of members of a mixture that are not Newton fits.

A member is trained together with honest predictions of its training rows: predictions by parts of
it that did not see the row. They are weighed against the leave-one-out predictions of the Newton
fits (:mod:`decoupled_descent.tables.search.stacking`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from decoupled_descent.objective.links import Link
from decoupled_descent.objective.losses import Loss

Floats = NDArray[np.floating[Any]]


class TableSize(NamedTuple):
    """What decides whether a member suits a table, and how long its training takes."""

    rows: int  # n
    columns: int  # d
    outputs: int  # K
    has_classes: bool  # whether labels are classes
    link: Link | None = None  # of counts and proportions; None for other labels

    @property
    def width(self) -> int:
        """The number of columns of predictions: classes, or outputs."""
        return max(self.outputs, 2) if self.has_classes else self.outputs


class TrainingTable(NamedTuple):
    """The rows that a member is trained on."""

    X: Floats  # shape (n, d), in memory
    y: Tensor  # class indices, 0 and 1, or numbers of shape (n,) or (n, K)
    loss: Loss
    outputs: int  # K
    weights: Tensor | None  # of the rows, shape (n,)
    groups: Tensor | None  # rows with the same whole number are left out together, shape (n,)
    folds: Tensor  # stratified folds of the mixture, from 0 on, shape (n,); groups are in one fold
    mixed: Tensor | None = None  # honest predictions of a mixture of what is trained, (n, C)

    @property
    def classes(self) -> Tensor | None:
        """The class of each row; None for numbers."""
        return self.loss.classes(self.y)

    @property
    def width(self) -> int:
        """The number of columns of predictions: classes, or outputs."""
        return self.size.width

    @property
    def size(self) -> TableSize:
        """The size of the table."""
        rows, columns = self.X.shape
        return TableSize(rows, columns, self.outputs, self.loss.has_classes, self.loss.link)

    @property
    def units(self) -> Tensor:
        """The number of the unit that each row is left out with: itself, or its group."""
        return torch.arange(len(self.y)) if self.groups is None else self.groups

    @property
    def row_weights(self) -> Floats:
        """Weights of the rows, ones by default, shape (n,)."""
        return np.ones(len(self.y)) if self.weights is None else self.weights.double().numpy()

    def weights_without(self, left_out: NDArray[np.bool_]) -> Floats:
        """Weights of the rows if some are left out; classes keep their total weights.

        A class without other rows loses its weight.
        """
        weights = self.row_weights
        kept = np.where(left_out, 0.0, weights)
        classes = self.classes
        if classes is None:
            return kept
        totals, rest = (np.bincount(classes, one) for one in (weights, kept))
        factors = totals / np.where(rest > 0, rest, 1.0)
        shares: Floats = kept * factors[classes]
        return shares

    @property
    def targets(self) -> Tensor:
        """What predictions should be: classes one-hot, or numbers, shape (n, C)."""
        if self.classes is None:
            return self.y.reshape(len(self.y), -1).double()
        return one_hot(self.classes.long(), self.width).double()

    def errors(self, predictions: Tensor) -> Tensor:
        """The mean loss of predictions (n, C) without each fold and, last, of all rows."""
        losses = self.loss.of_predictions(predictions, self.y)
        others = torch.arange(int(self.folds.max()) + 2).unsqueeze(1) != self.folds
        weights = torch.from_numpy(self.row_weights) * others
        return (weights @ losses) / weights.sum(1)


class SelectedColumn(NamedTuple):
    """A column that a sparse model selects."""

    column: int  # its number
    coefficients: list[float]  # for the column as it is, one for each output
    stays_selected: float  # how often it is selected without a fold of rows, from 0 to 1


class KeptRows(NamedTuple):
    """What a member needs to predict without each of s training rows."""

    matrix: Tensor  # its meaning is the member's own, shape (s, …)
    X: Tensor | None = None  # the rows themselves, shape (s, d); not saved in files


class Member(ABC):
    """A trained model of a mixture."""

    #: The kind of the member in files.
    kind: ClassVar[str]
    #: What it is, for tables of candidates.
    name: str

    def selected_columns(self) -> list[SelectedColumn]:
        """Columns with a coefficient, the largest effect first; none if it selects none."""
        return []

    @abstractmethod
    def predict(self, X: Any) -> Tensor:
        """Probabilities of all classes, or numbers, shape (m, C), for rows of shape (m, d)."""

    @abstractmethod
    def kept_rows(self, table: TrainingTable, some: Tensor) -> KeptRows:
        """What :meth:`changes` needs about some training rows."""

    @abstractmethod
    def changes(self, X: Any | None, kept: KeptRows) -> Tensor:
        """How predictions of numbers change if each kept row is left out, shape (m, s, K).

        X are new rows, shape (m, d); None stands for the kept rows themselves.
        """

    def without_own(self, X: Any, kept: KeptRows) -> Tensor:
        """Predictions of rows X, shape (s, d), each without the kept row of its place, (s, C)."""
        at = torch.arange(len(kept.matrix))
        return self.predict(X) + self.changes(X, kept)[at, at]

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Settings for JSON and tensors by name, for a file; refuse what no file can hold."""

    @classmethod
    @abstractmethod
    def restore(cls, settings: Any, tensors: dict[str, Tensor], width: int) -> Self:
        """Make the member again from its state, which ``tables/schema.py`` has checked.

        ``width`` is the number of columns of its predictions.
        """


class MemberFit(NamedTuple):
    """A trained member with the honest predictions of its training rows."""

    model: Member
    predictions: Tensor  # of parts that did not see the row, shape (n, C)
    excess: Tensor  # their variance in excess of the model's, shape (n, C)
    #: Whether it is selected without the labels of each fold and, last, with all; None for always.
    selected: Tensor | None = None
    is_reference: bool = False  # whether mixtures are drawn towards it

    @property
    def name(self) -> str:
        """The name of the member."""
        return self.model.name


class Recipe(Protocol):
    """How a member is trained."""

    @property
    def name(self) -> str:
        """What is trained, for messages."""

    def suits(self, size: TableSize) -> bool:
        """Whether it trains anything on tables of this size."""

    def operations(self, size: TableSize) -> float:
        """Expected time of the training, in the time of one operation of a matrix product.

        0 if nothing is known about it.
        """

    def train(self, table: TrainingTable, seed: int) -> list[MemberFit]:
        """Train on all rows, and predict each row by parts that did not see it.

        A recipe may have several results, such as penalties; those of no use are left out.
        """
