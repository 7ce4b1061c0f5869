"""Scaled training rows and their distances, shared by all kernels that are tried on them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.rows.kernels import Geometry, Units
from decoupled_descent.rows.scaling import Columns, as_matrix, row_weights


class Scaled:
    """Training rows of positive weight, on one scale, with what all kernels share."""

    def __init__(self, X: Any, weights: Tensor, ranks: bool) -> None:
        self.columns = Columns.learn(X, ranks, weights)
        self.X, self.weights = X, weights

    @cached_property
    def rows(self) -> Any:
        """All rows, scaled."""
        return self.columns.apply(self.X)

    @cached_property
    def geometry(self) -> Geometry:
        """Distances of all rows from each other."""
        return Geometry(self.rows, self.rows, self.units)

    @cached_property
    def units(self) -> Units:
        """Mean distances of the rows."""
        return Units.of(self.rows, self.weights)


class Training:
    """Rows and weights, checked once for many feature maps; rows of weight zero are separate."""

    def __init__(self, X: Any, sample_weight: Any = None) -> None:
        self.X = as_matrix(X)
        weights = row_weights(sample_weight, self.X.shape[0])
        self.present = torch.nonzero(weights > 0)[:, 0]
        self.weights = weights[self.present]
        self.complete = len(self.present) == len(weights)
        if len(self.present) < 2:
            raise ValueError("X has 1 row of positive weight; features need at least 2")
        self._scaled: dict[bool, Scaled] = {}

    def scaled(self, ranks: bool) -> Scaled:
        """Return the scaled rows; the same object at every call."""
        if ranks not in self._scaled:
            X = self.X if self.complete else self.X[self.present.numpy()]
            self._scaled[ranks] = Scaled(X, self.weights, ranks)
        return self._scaled[ranks]
