"""Scaled training rows and their distances, shared by all kernels that are tried on them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.freed_memory import return_freed_memory
from decoupled_descent.tables.features.kernels import Geometry, Units
from decoupled_descent.tables.features.scaling import (
    ColumnScales,
    as_matrix,
    as_rows,
    is_sparse,
    row_weights,
    sorted_rows,
)


class ScaledRows:
    """Training rows of positive weight, on one scale, with what all kernels share.

    Attributes:
        inputs: The rows as they were given: :class:`Rows`, or a CSR matrix.
        all_weights: Of the rows of all processes.
        weights: Of the rows of this process.
        columns: The scale.
        shape: Of the scaled rows of all processes.
    """

    def __init__(self, inputs: Any, all_weights: Tensor, ranks: bool) -> None:
        self.inputs, self.all_weights = inputs, all_weights
        self.weights = all_weights[inputs.span] if isinstance(inputs, Rows) else all_weights
        self.columns = ColumnScales.learn(inputs, ranks, all_weights)
        n = inputs.n if isinstance(inputs, Rows) else inputs.shape[0]
        self.shape = n, len(self.columns.keep)

    @cached_property
    def rows(self) -> Any:
        """All rows, scaled: for few rows, and for sparse ones."""
        if not isinstance(self.inputs, Rows):
            return self.columns.apply(self.inputs)
        return self.take(torch.arange(self.shape[0]))

    def take(self, index: Tensor) -> Tensor:
        """Some rows, scaled, by their number among those of all processes."""
        return_freed_memory(8 * len(index) * self.shape[1])
        scaled: Tensor = self.columns.apply(self.inputs.gather(index))
        return scaled

    def parts(self, width: int = 0) -> Iterator[tuple[slice, Any]]:
        """Go through the rows of this process, scaled, in pieces of ``width`` numbers a row."""
        if not isinstance(self.inputs, Rows):
            yield slice(0, self.shape[0]), self.rows
            return
        for span, part in self.inputs.doubles(width):
            yield span, self.columns.apply(part)

    def total(self, *parts: Tensor) -> list[Tensor]:
        """Sums over all processes of what was summed over the rows of this one."""
        return self.inputs.total(*parts) if isinstance(self.inputs, Rows) else list(parts)

    @cached_property
    def geometry(self) -> Geometry:
        """Distances of all rows from each other."""
        return Geometry(self.rows, self.rows, self.units)

    @cached_property
    def units(self) -> Units:
        """Mean distances of the rows."""
        some = sorted_rows(self.all_weights)
        return Units.of(self.take(some), self.all_weights[some])


class TrainingRows:
    """Rows and weights, checked once for many feature maps; rows of weight zero are separate."""

    def __init__(self, X: Any, sample_weight: Any = None) -> None:
        self.given, self.sample_weight = X, sample_weight
        self.X: Any = as_matrix(X) if is_sparse(X) else as_rows(X)
        self.count = int(self.X.n if isinstance(self.X, Rows) else self.X.shape[0])
        weights = row_weights(sample_weight, self.count)
        self.present = torch.nonzero(weights > 0)[:, 0]
        self.weights = weights[self.present]
        self.complete = len(self.present) == len(weights)
        if len(self.present) < 2:
            raise ValueError("X has 1 row of positive weight; features need at least 2")
        self._scaled: dict[bool, ScaledRows] = {}

    def take(self, which: Tensor) -> Any:
        """Some rows as they were given."""
        return self.X.gather(which) if isinstance(self.X, Rows) else self.X[which.numpy()]

    def scaled(self, ranks: bool) -> ScaledRows:
        """Return the scaled rows; the same object at every call."""
        if ranks not in self._scaled:
            X = self.X if self.complete else self.take(self.present)
            X = X if is_sparse(X) else as_rows(X)
            self._scaled[ranks] = ScaledRows(X, self.weights, ranks)
        return self._scaled[ranks]
