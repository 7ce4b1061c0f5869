"""Kernels on columns whose few whole numbers may be names of levels: a step between each two.

A column with the values 1, 2, 3 may count something, or number things: rooms, teachers, codes. Here
each value becomes a column of zeros and ones, so that all differences between values are alike.
Whether that is better is decided by the ranking, as for all maps; no labels are used.
"""

from __future__ import annotations

import re
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.features.interface import Features
from decoupled_descent.tables.features.kernel_map import Kernel
from decoupled_descent.tables.features.scaling import as_matrix, is_sparse

#: A column of this many different whole numbers may have levels. Two are the same either way.
FEWEST, MOST = 3, 30
#: On average, a level has at least this many rows.
ROWS = 3
_NAME = re.compile(r"(?P<inner>.+)/levels")


class Levels(Features):
    """A kernel on rows whose columns of few whole numbers are columns of zeros and ones.

    Args:
        kind: The kind of kernel, as in ``Kernel``.
        scale: Width of the kernel.
        landmarks: Rows up to which features are exact, and number of landmarks above.
        seed: Decides which rows are landmarks.

    Example:
        >>> X = torch.arange(12.0).double().remainder(3)[:, None]
        >>> Levels("linear").fit_transform(X).shape
        torch.Size([12, 2])
    """

    def __init__(
        self, kind: str = "laplace1", scale: float = 1.0, landmarks: int = 2000, seed: int = 0
    ) -> None:
        self.kind, self.scale, self.landmarks, self.seed = kind, scale, landmarks, seed

    @property
    def name(self) -> str:
        """The name of the kernel, and levels."""
        return f"{self._kernel().name}/levels"

    def _kernel(self) -> Kernel:
        return Kernel(self.kind, self.scale, False, self.landmarks, self.seed)

    @property
    def takes_sparse(self) -> bool:
        """Sparse matrices have no levels."""
        return False

    @property
    def is_linear(self) -> bool:
        """Whether the features are the columns with their levels."""
        return self._kernel().is_linear

    @classmethod
    def from_name(cls, name: str) -> Self | None:
        """Read ``kind(scale)/levels``."""
        match = _NAME.fullmatch(name)
        kernel = None if match is None else Kernel.from_name(match["inner"])
        if kernel is None or kernel.ranks:
            return None
        return cls(kernel.kind, kernel.scale)

    def suits(self, X: Any) -> bool:
        """Whether some column has levels; only rows in memory are searched for them."""
        if is_sparse(X) or (isinstance(X, Rows) and not X.in_memory):
            return False
        return len(find_levels(as_matrix(X.X if isinstance(X, Rows) else X))[0]) > 0

    def width(self, n: int, d: int) -> int:
        """Each column may have several levels."""
        return self._kernel().width(n, min(n, MOST * d))

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Tensor:
        """Learn the levels and the map."""
        X = as_matrix(X)
        if is_sparse(X):
            raise ValueError(f"X is sparse, which {self.name!r} cannot use; pass X.toarray()")
        self.columns_, self.values_ = find_levels(X)
        self.kernel_ = self._kernel()
        phi = self.kernel_.fit_transform(self._expanded(X), sample_weight=sample_weight)
        self.map_ = self.kernel_.map_
        return phi

    def transform(self, X: Any) -> Tensor:
        """Return the features; a value without a level is none of them."""
        self._check_fitted()
        return self.kernel_.transform(self._expanded(as_matrix(X)))

    def _expanded(self, X: Tensor) -> Tensor:
        """The columns without levels, then a column of zeros and ones for each level."""
        plain = torch.ones(X.shape[1], dtype=torch.bool)
        plain[self.columns_] = False
        return torch.cat([X[:, plain], (X[:, self.columns_] == self.values_).double()], 1)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The kernel's, with the levels."""
        self._check_fitted()
        settings, tensors = self.kernel_.state()
        own = {"level_columns": self.columns_, "level_values": self.values_}
        return {"map": "Levels", "kernel": settings}, tensors | own

    @classmethod
    def restore(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> Self:
        """Restore the kernel and the levels."""
        kernel = Kernel.restore(settings["kernel"], tensors)
        columns, values = tensors["level_columns"], tensors["level_values"]
        made = cls(kernel.kind, kernel.scale, kernel.landmarks, kernel.seed)
        made.columns_, made.values_, made.kernel_ = columns, values, kernel
        made.map_ = kernel.map_
        return made


def find_levels(X: Tensor) -> tuple[Tensor, Tensor]:
    """The column and the value of each level, both of shape (levels,).

    Example:
        >>> columns, values = find_levels(torch.tensor([[1.0, 0.5], [2.0, 1.5], [4.0, 2.5]] * 3))
        >>> columns.tolist(), values.tolist()
        ([0, 0, 0], [1.0, 2.0, 4.0])
    """
    columns, values = [], []
    for number, column in enumerate(X.double().T):
        if bool((column != column.round()).any()):
            continue
        levels = np.unique(column.numpy())
        if FEWEST <= len(levels) <= min(MOST, len(column) / ROWS):
            columns += [number] * len(levels)
            values += levels.tolist()
    return torch.tensor(columns, dtype=torch.int64), torch.tensor(values, dtype=torch.float64)
