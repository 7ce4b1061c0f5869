r"""Ensembles of trees as plain arrays, with the rows that each tree did not see.

The prediction of the ensemble is the mean over its trees. Without training row i it is the mean
over the trees whose bag does not contain the row (out of bag): these trees are an ensemble of the
same kind that was trained without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.tables.members.interface import Floats, KeptRows, Member, TrainingTable
from decoupled_descent.tables.members.nodes import leaves_of

#: New rows are processed in blocks, so that about this many numbers are in memory.
NUMBERS = 2**21
#: Arrays of a forest in files, with their types.
ARRAYS = {
    "feature": torch.int32,
    "threshold": torch.float64,
    "left": torch.int32,
    "right": torch.int32,
    "value": torch.float64,
    "roots": torch.int64,
    "low": torch.float64,
    "high": torch.float64,
}
#: Scaled values are cut at this number, far beyond any threshold, and far below float32's largest.
FAR = 1e30


@dataclass(frozen=True, eq=False)
class Forest(Member):
    """An ensemble of trees: all nodes of all trees in common arrays.

    A node with ``feature`` −1 is a leaf. Otherwise rows whose scaled value of that column is at
    most ``threshold`` go to the node ``left``, others to ``right``.
    """

    kind = "forest"
    name: str
    feature: NDArray[np.int32]  # shape (nodes,)
    threshold: Floats  # shape (nodes,)
    left: NDArray[np.int32]  # a later node, shape (nodes,)
    right: NDArray[np.int32]
    value: Floats  # predictions, shape (nodes, C)
    roots: NDArray[np.int64]  # the first node of each tree, shape (trees,)
    low: Floats  # the lowest value of each column, shape (d,)
    high: Floats  # the highest value
    unseen: NDArray[np.bool_] | None = None  # whether each tree lacks each row, (n, trees)

    def predict(self, X: Any) -> Tensor:
        """The mean over all trees, shape (m, C)."""
        X = np.asarray(X, dtype=np.float64)
        result = np.empty((len(X), self.value.shape[1]))
        for rows in self._blocks(len(X)):
            result[rows] = self.value[self.leaves(X[rows])].mean(1)
        return torch.from_numpy(result)

    def leaves(self, X: Floats) -> NDArray[np.int64]:
        """The leaf of each row in each tree, shape (m, trees)."""
        scaled = scaled_columns(X, self.low, self.high)
        nodes = self.roots, self.feature, self.threshold, self.left, self.right
        return leaves_of(scaled, *nodes)

    def kept_rows(self, table: TrainingTable, some: Tensor) -> KeptRows:
        """Which trees did not see each row, (s, trees)."""
        assert self.unseen is not None
        rows = np.asarray(table.X[some.numpy()], np.float64)
        return KeptRows(torch.from_numpy(self.unseen[some.numpy()]), torch.from_numpy(rows))

    def changes(self, X: Any | None, kept: KeptRows) -> Tensor:
        """The mean over the trees that did not see a row, minus the mean over all."""
        unseen = kept.matrix.double()
        without = _shares(unseen) - 1 / unseen.shape[1]
        inputs = np.asarray(kept.X if X is None else X, dtype=np.float64)
        result = torch.empty(len(inputs), len(unseen), self.value.shape[1], dtype=torch.float64)
        for rows in self._blocks(len(inputs)):
            values = torch.from_numpy(self.value[self.leaves(inputs[rows])])
            result[rows] = torch.einsum("mtk,st->msk", values, without)
        return result

    def without_own(self, X: Any, kept: KeptRows) -> Tensor:
        """The mean over the trees that did not see the row."""
        shares = _shares(kept.matrix.double())
        inputs, result = np.asarray(X, np.float64), []
        for rows in self._blocks(len(inputs)):
            values = torch.from_numpy(self.value[self.leaves(inputs[rows])])
            result.append(torch.einsum("stk,st->sk", values, shares[rows]))
        return torch.cat(result)

    def _blocks(self, m: int) -> list[slice]:
        """Blocks of m rows that bound memory."""
        size = max(1, NUMBERS // (len(self.roots) * self.value.shape[1]))
        return [slice(start, start + size) for start in range(0, m, size)]

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The name, and all arrays."""
        tensors = {name: torch.from_numpy(getattr(self, name)) for name in ARRAYS}
        return {"kind": self.kind, "name": self.name}, tensors

    @classmethod
    def restore(cls, settings: Any, tensors: dict[str, Tensor], width: int) -> Self:  # noqa: ARG003
        """Take all arrays."""
        return cls(settings["name"][:80], **{name: tensors[name].numpy() for name in ARRAYS})


def _shares(unseen: Tensor) -> Tensor:
    """The share of each tree in the ensemble without a row; all trees where each has seen it."""
    count = unseen.sum(1, keepdim=True)
    return torch.where(count > 0, unseen / count.clamp_min(1), 1 / unseen.shape[1])


def scaled_columns(X: Floats, low: Floats, high: Floats) -> NDArray[np.float32]:
    """Columns divided by their ranges, in float32, which trees compare: 0 to 1 in training.

    Large numbers with small differences, such as times, would lose them in float32 as they are.
    """
    halves = high / 2 - low / 2  # halves, because the range itself may be infinite
    with np.errstate(over="ignore"):
        scaled = (X / 2 - low / 2) / np.where(halves > 0, halves, 1.0)
    return np.clip(scaled, -FAR, FAR).astype(np.float32)
