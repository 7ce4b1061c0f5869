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
from decoupled_descent.tables.prediction import predictor

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
        return torch.from_numpy(predictor.forest(vars(self), np.asarray(X, np.float64)))

    def leaves(self, X: Floats) -> NDArray[np.int64]:
        """The leaf of each row in each tree, shape (m, trees)."""
        nodes: NDArray[np.int64] = predictor.leaves_of_scaled(vars(self), X)
        return nodes

    def blocks(self, m: int) -> list[slice]:
        """Blocks of m rows that bound memory."""
        size = max(1, NUMBERS // (len(self.roots) * self.value.shape[1]))
        return [slice(start, start + size) for start in range(0, m, size)]

    def kept_rows(self, table: TrainingTable, some: Tensor) -> KeptRows:
        """Which trees did not see each row, (s, trees)."""
        assert self.unseen is not None
        rows = np.asarray(table.X[some.numpy()], np.float64)
        return KeptRows(torch.from_numpy(self.unseen[some.numpy()]), torch.from_numpy(rows))

    def changes(self, X: Any | None, kept: KeptRows) -> Tensor:
        """The mean over the trees that did not see a row, minus the mean over all."""
        rows = np.asarray(kept.X if X is None else X, np.float64)
        return torch.from_numpy(predictor.forest_changes(vars(self), rows, kept.matrix.numpy()))

    def without_own(self, X: Any, kept: KeptRows) -> Tensor:
        """The mean over the trees that did not see the row."""
        shares = predictor.unseen_shares(kept.matrix.numpy())
        inputs, result = np.asarray(X, np.float64), []
        for rows in self.blocks(len(inputs)):
            values = self.value[self.leaves(inputs[rows])]
            result.append(np.einsum("stk,st->sk", values, shares[rows]))
        return torch.from_numpy(np.concatenate(result))

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The name, and all arrays."""
        tensors = {name: torch.from_numpy(getattr(self, name)) for name in ARRAYS}
        return {"kind": self.kind, "name": self.name}, tensors

    @classmethod
    def restore(cls, settings: Any, tensors: dict[str, Tensor], width: int) -> Self:  # noqa: ARG003
        """Take all arrays."""
        return cls(settings["name"][:80], **{name: tensors[name].numpy() for name in ARRAYS})
