"""The rows and labels that a fitted model is evaluated on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.evaluation.kinds import Kind

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Task:
    """Rows, labels, weights and groups.

    Attributes:
        X: The rows, as the model takes them: an array, a sparse matrix or a data frame.
        y: The labels as they were given.
        labels: Classes as 0, 1, 2, …, or numbers, shape (n,) or (n, m).
        kind: What the model predicts.
        classes: The names of the classes, or None.
        weights: Weights of the rows, shape (n,), or None.
        groups: The number of the group of each row: 0, 1, 2, …, or None.
    """

    X: Any
    y: Any
    labels: Any
    kind: Kind
    classes: Any = None
    weights: Floats | None = None
    groups: Codes | None = None

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.labels)

    @property
    def row_weights(self) -> Floats:
        """The weight of each row, shape (n,)."""
        return np.ones(self.n) if self.weights is None else self.weights

    @cached_property
    def units(self) -> list[Codes]:
        """The rows of each unit: of each group, or each row alone."""
        if self.groups is None:
            return [np.array([row]) for row in range(self.n)]
        order = np.argsort(self.groups, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.groups))[:-1])

    @cached_property
    def matrix(self) -> Floats:
        """The rows as numbers, shape (n, d)."""
        X = self.X.toarray() if hasattr(self.X, "toarray") else self.X
        return np.asarray(X, np.float64)

    def with_rows(self, X: Any) -> Task:
        """The same task with other columns."""
        return replace(self, X=X)

    def one_hot(self) -> Floats:
        """The classes as columns of 0 and 1, shape (n, K)."""
        return np.asarray(self.labels[:, None] == np.arange(len(self.classes)), np.float64)
