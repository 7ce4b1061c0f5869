"""Boosted trees, grown by scikit-learn and stored as plain arrays, with out-of-fold predictions.

The outputs of a row are sums over trees, one sequence of trees for each output; probabilities are
those of logits. Each fold of rows is predicted by a model that was fitted without it. Early
stopping sets a tenth of the rows aside inside of each fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from torch import Tensor

from decoupled_descent.objective.losses import Loss, get_loss
from decoupled_descent.tables.members.interface import (
    Floats,
    KeptRows,
    Member,
    MemberFit,
    TableSize,
    TrainingTable,
)
from decoupled_descent.tables.prediction import predictor

#: Folds of the mixture are joined to this many.
FOLDS = 5
#: Shrinkage of the trees, their leaves, and the ridge of the values of leaves.
RATE, LEAVES, RIDGE = 0.05, 15, 1.0
#: Tables with fewer rows have forests; see docs/results/tables.md.
FEWEST = 1000
#: Operations of a matrix product that take as long as one row and column in one tree, and a tree.
EACH, TREE, TYPICAL = 60.0, 1e7, 120
#: The arrays of a model in files.
ARRAYS = ("feature", "threshold", "left", "right", "value", "roots", "output", "start")


@dataclass(frozen=True, eq=False)
class Boosting(Member):
    """Sums of trees: all nodes of all trees in common arrays.

    A node with ``feature`` −1 is a leaf. Otherwise rows whose value of that column is at most
    ``threshold`` go to the node ``left``, others to ``right``.
    """

    kind = "boosting"
    name = "boosting"
    loss: Loss
    feature: NDArray[np.int32]  # shape (nodes,)
    threshold: Floats  # shape (nodes,)
    left: NDArray[np.int32]  # a later node, shape (nodes,)
    right: NDArray[np.int32]
    value: Floats  # what a leaf adds, shape (nodes,)
    roots: NDArray[np.int64]  # the first node of each tree, shape (trees,)
    output: NDArray[np.int64]  # the output that each tree adds to, shape (trees,)
    start: Floats  # outputs without trees, shape (K,)
    without: tuple[Boosting, ...] = ()  # the models without each fold; not saved in files

    def outputs(self, X: Any) -> Floats:
        """Sums over the trees, shape (m, K)."""
        result: Floats = predictor.boosting(vars(self), np.asarray(X, np.float64))
        return result

    def predict(self, X: Any) -> Tensor:
        """Probabilities of all classes, or numbers, shape (m, C)."""
        return self.loss.predictions(torch.from_numpy(self.outputs(X)))

    def kept_rows(self, table: TrainingTable, some: Tensor) -> KeptRows:
        """The fold of each row: the model without the fold is one without the row."""
        return KeptRows(table.folds[some] % FOLDS)

    def changes(self, X: Any | None, kept: KeptRows) -> Tensor:
        """None: one of a thousand rows or more hardly moves the sums of many trees."""
        m = len(kept.matrix) if X is None else len(X)
        return torch.zeros(m, len(kept.matrix), len(self.start), dtype=torch.float64)

    def without_own(self, X: Any, kept: KeptRows) -> Tensor:
        """Predictions of each row by the model without the fold of its kept row."""
        rows, folds = np.asarray(X, np.float64), kept.matrix.numpy()
        result = torch.empty_like(self.predict(rows))
        for fold in np.unique(folds):
            own = folds == fold
            result[torch.from_numpy(own)] = self.without[fold].predict(rows[own])
        return result

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The loss and all arrays."""
        tensors = {name: torch.from_numpy(getattr(self, name)) for name in ARRAYS}
        return {"kind": self.kind, "loss": self.loss.name}, tensors

    @classmethod
    def restore(cls, settings: Any, tensors: dict[str, Tensor], width: int) -> Self:  # noqa: ARG003
        """Take all arrays."""
        arrays: dict[str, Any] = {name: tensors[name].numpy() for name in ARRAYS}
        return cls(get_loss(settings["loss"]), **arrays)


@dataclass(frozen=True)
class BoostingRecipe:
    """Boosted trees, and the same without each of five folds.

    Args:
        name: What users call it.
        fewest: With fewer rows for every two classes nothing is trained.
    """

    name: str = "boosting"
    fewest: int = 2

    def suits(self, size: TableSize) -> bool:
        """Large tables with one target; each class has trees of its own, which take time.

        scikit-learn has no boosted trees for proportions.
        """
        enough = size.rows >= self.fewest * max(size.width, 2) / 2
        known = size.link is None or bool(size.link.boosted)
        return enough and known and (size.has_classes or size.outputs == 1)

    def operations(self, size: TableSize) -> float:
        """Histograms of all columns in each tree."""
        trees = TYPICAL * (size.width if size.width > 2 else 1) * (FOLDS + 1)
        return trees * (EACH * size.rows * math.sqrt(size.columns) + TREE)

    def train(self, table: TrainingTable, seed: int) -> list[MemberFit]:
        """Fit to all rows, and without each fold."""
        if not self.suits(table.size):
            return []
        folds = table.folds.numpy() % FOLDS
        weights = table.row_weights
        without = [grown(table, weights * (folds != fold), seed) for fold in range(FOLDS)]
        model = grown(table, weights, seed, tuple(without))
        rows = np.asarray(table.X, np.float64)
        honest = np.empty((len(rows), table.width))
        for fold, one in enumerate(without):
            honest[folds == fold] = one.predict(rows[folds == fold]).numpy()
        predictions = torch.from_numpy(honest)
        return [MemberFit(model, predictions, torch.zeros_like(predictions))]


def grown(
    table: TrainingTable, weights: Floats, seed: int, without: tuple[Boosting, ...] = ()
) -> Boosting:
    """Boosted trees of the rows of positive weight."""
    classes, here = table.classes, weights > 0
    y = table.y.numpy() if classes is None else classes.numpy()
    kind: Any = HistGradientBoostingRegressor if classes is None else HistGradientBoostingClassifier
    counts = None if classes is None else np.bincount(y[here])
    stops = counts is None or counts[counts > 0].min() > 1  # a tenth is set aside by class
    model = kind(
        learning_rate=RATE, max_leaf_nodes=LEAVES, l2_regularization=RIDGE,
        early_stopping=bool(stops), random_state=seed % 2**32,
        **({} if table.loss.link is None else {"loss": table.loss.link.boosted}),
    )  # fmt: skip
    if counts is not None and (counts > 0).sum() < 2:
        return _single(table, int(counts.argmax()), without)
    own = weights[here] / weights[here].mean()
    with config_context(skip_parameter_validation=True):
        model.fit(
            np.asarray(table.X, np.float64)[here], y[here],
            sample_weight=None if np.ptp(own) == 0 else own,
        )  # fmt: skip
    return _as_arrays(model, table, without)


def _single(table: TrainingTable, code: int, without: tuple[Boosting, ...]) -> Boosting:
    """The model of rows of one class: no tree, and the other classes are improbable."""
    rare = -math.log(len(table.y))
    start = np.full(table.width, rare)
    start[code] = 0.0
    start = start if table.width > 2 else np.array([start[1] - start[0]])
    leaf, none, zero = np.full(1, -1, np.int32), np.zeros(1, np.int32), np.zeros(1)
    one = np.zeros(1, np.int64)
    return Boosting(
        table.loss, leaf, zero, none, none, zero, one, one, start, without
    )  # fmt: skip


def _as_arrays(model: Any, table: TrainingTable, without: tuple[Boosting, ...]) -> Boosting:
    """All trees of a fitted model in common arrays; classes that it has not seen are improbable."""
    parts = [(tree.nodes, k) for step in model._predictors for k, tree in enumerate(step)]
    sizes = [len(nodes) for nodes, _ in parts]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[: len(parts)]
    shifts = np.repeat(roots, sizes)
    every = np.concatenate([nodes for nodes, _ in parts])
    inner = every["is_leaf"] == 0
    seen = np.arange(len(np.ravel(model._baseline_prediction)))
    outputs = 1 if table.width == 2 and table.classes is not None else table.width
    start = np.full(outputs, -math.log(len(table.y)))
    if table.classes is not None and outputs > 1:
        seen = np.asarray(model.classes_, np.int64)
        if len(seen) == 2:  # one sequence of trees for the logit of the second class
            start[seen[0]], seen = 0.0, seen[1:]
    start[seen] = np.ravel(model._baseline_prediction)
    return Boosting(
        table.loss,
        feature=np.where(inner, every["feature_idx"], -1).astype(np.int32),
        threshold=np.where(inner, every["num_threshold"], 0.0),
        left=np.where(inner, every["left"] + shifts, 0).astype(np.int32),
        right=np.where(inner, every["right"] + shifts, 0).astype(np.int32),
        value=np.where(inner, 0.0, every["value"]),
        roots=roots,
        output=seen[np.array([k for _, k in parts], np.int64)],
        start=start,
        without=without,
    )
