"""The rows and labels that a fitted model is evaluated on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.evaluation.kinds import Kind

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

#: Tables of more numbers are not looked at: 134 MB.
MOST_NUMBERS = 2**24
#: Texts with more different values are no categories.
MOST_CATEGORIES = 50


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
        is_standardised: Whether columns were divided by their standard deviations in these rows,
            as a refit without a row would do again.
    """

    X: Any
    y: Any
    labels: Any
    kind: Kind
    classes: Any = None
    weights: Floats | None = None
    groups: Codes | None = None
    is_standardised: bool = False

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

    @cached_property
    def columns(self) -> pd.DataFrame | None:
        """Columns of a table as finite numbers, categories as 0 and 1; None of anything else."""
        return columns_of(self.X)

    def with_rows(self, X: Any, is_standardised: bool | None = None) -> Task:
        """The same task with other columns."""
        given = self.is_standardised if is_standardised is None else is_standardised
        return replace(self, X=X, is_standardised=given)

    def one_hot(self) -> Floats:
        """The classes as columns of 0 and 1, shape (n, K)."""
        return np.asarray(self.labels[:, None] == np.arange(len(self.classes)), np.float64)


def columns_of(X: Any) -> pd.DataFrame | None:
    """The columns of a table as finite numbers, categories as 0 and 1; None of anything else."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 2 or shape[0] * shape[1] > MOST_NUMBERS:
        return None
    X = X.toarray() if hasattr(X, "toarray") else X
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf" and np.isfinite(X).all():
        return pd.DataFrame(X.astype(np.float64)) if shape[1] else None
    frame = pd.DataFrame(X).infer_objects()
    numbers = frame.select_dtypes(["number", "bool"]).astype(np.float64)
    texts = frame.select_dtypes(["object", "string", "category"])
    few = [name for name in texts if texts[name].astype(str).nunique() <= MOST_CATEGORIES]
    if few:
        marks = pd.get_dummies(texts[few].astype(str), dtype=np.float64)
        numbers = pd.concat([numbers, marks], axis=1)
    found = numbers.fillna(numbers.mean()).fillna(0.0)
    return found if np.isfinite(found.to_numpy()).all() and found.shape[1] else None
