"""Sparse linear models as members of a mixture, with predictions of rows by fits without them.

The path of penalties is followed on all rows and, beside it, without each fold of rows. Classes
keep their shares when a fold is left out. The fold fits also show which columns stay selected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.objective.losses import Loss, get_loss
from decoupled_descent.quiet import ignoring
from decoupled_descent.tables.members.interface import (
    Floats,
    KeptRows,
    Member,
    MemberFit,
    SelectedColumn,
    TableSize,
    TrainingTable,
)
from decoupled_descent.tables.members.sparse_path import (
    MOST,
    RATIO,
    Coefficients,
    SparseProblem,
    steepest,
)
from decoupled_descent.tables.members.standardised import column_moments
from decoupled_descent.tables.prediction import predictor
from decoupled_descent.tables.prediction.predictor import standardised

#: The path ends after this many penalties in a row that are worse than the best one.
PATIENCE = 2
#: Folds of the mixture are joined to this many: the path is followed once without each.
FOLDS = 10
#: Tables with fewer columns per row than this are not wide: there the models had no share that
#: helped (71 fits), and at 0.3 a share that cost 10 %.
WIDE = 0.4
#: Operations of a matrix product that take as long as one minimum, and as one entry of the table.
PER_MINIMUM, PER_ENTRY = 6e7, 300.0
#: Arrays in files, and their types.
ARRAYS = {
    "columns": torch.int64,
    "mean": torch.float64,
    "scale": torch.float64,
    "theta": torch.float64,
    "bias": torch.float64,
    "fold_theta": torch.float64,
    "fold_bias": torch.float64,
}


@dataclass(frozen=True, eq=False)
class SparseLinear(Member):
    """A linear model of few columns, with the models without each of F folds."""

    kind = "sparse linear"
    loss: Loss
    penalty: float  # λ, as in :mod:`sparse_path`
    columns: NDArray[np.int64]  # those with a coefficient in some of the models, shape (u,)
    mean: Floats  # of these columns, shape (u,)
    scale: Floats  # their deviations, shape (u,)
    theta: Floats  # coefficients of scaled columns, shape (u, K)
    bias: Floats  # shape (K,)
    fold_theta: Floats  # shape (F, u, K)
    fold_bias: Floats  # shape (F, K)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The kind and the penalty."""
        return f"sparse linear({self.penalty:.2g})"

    def selected_columns(self) -> list[SelectedColumn]:
        """Columns with a coefficient, the largest effect first."""
        size, share = np.abs(self.theta).max(1), self.fold_theta.any(2).mean(0)
        order = [k for k in np.argsort(-size, kind="stable") if size[k] > 0]
        selected = [
            (int(self.columns[k]), self.coef[:, k].tolist(), float(share[k])) for k in order
        ]
        return [SelectedColumn(*one) for one in selected]

    @property
    def coef(self) -> Floats:
        """Coefficients of the columns as they are, shape (K, u), in the order of ``columns``."""
        return (self.theta / self.scale[:, None]).T

    def predict(self, X: Any) -> Tensor:
        """Probabilities of all classes, or numbers, shape (m, C)."""
        outputs = predictor.sparse_linear(vars(self), np.asarray(X, np.float64))
        return self.loss.predictions(torch.from_numpy(outputs))

    def _scaled(self, X: Any) -> Floats:
        values = np.asarray(X, dtype=np.float64)[:, self.columns]
        scaled: Floats = standardised(values, self.mean, self.scale)
        return scaled

    def kept_rows(self, table: TrainingTable, some: Tensor) -> KeptRows:
        """The fold of each row: the model without the fold is a model without the row."""
        rows = np.asarray(table.X[some.numpy()], np.float64)
        return KeptRows(table.folds[some] % FOLDS, torch.from_numpy(rows))

    def without_own(self, X: Any, kept: KeptRows) -> Tensor:
        """Predictions of each row by the model without the fold of its kept row."""
        fold = kept.matrix.numpy()
        outputs = np.einsum("su,suk->sk", self._scaled(X), self.fold_theta[fold])
        return self.loss.predictions(torch.from_numpy(outputs + self.fold_bias[fold]))

    def changes(self, X: Any | None, kept: KeptRows) -> Tensor:
        """Predictions of the model without the fold of a row, minus those of the model."""
        rows = np.asarray(kept.X if X is None else X, np.float64)
        changes = predictor.sparse_linear_changes(vars(self), rows, kept.matrix.numpy())
        return torch.from_numpy(changes)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The loss, the penalty and all arrays."""
        tensors = {name: torch.from_numpy(getattr(self, name)).contiguous() for name in ARRAYS}
        about = {"kind": self.kind, "loss": self.loss.name, "penalty": float(self.penalty)}
        return about, tensors

    @classmethod
    def restore(cls, settings: Any, tensors: dict[str, Tensor], width: int) -> Self:  # noqa: ARG003
        """Take the loss, the penalty and all arrays."""
        arrays = {name: tensors[name].numpy() for name in ARRAYS}
        return cls(get_loss(settings["loss"]), float(settings["penalty"]), **arrays)


class PathStep(NamedTuple):
    """The models of one penalty."""

    penalty: float
    model: Coefficients  # of all rows
    without: list[Coefficients]  # of all rows but those of each fold
    predictions: Tensor  # of the rows by models without their fold, shape (n, C)
    errors: Tensor  # their mean loss without each fold and, last, of all rows


@dataclass(frozen=True)
class SparseRecipe:
    """A path of sparse linear models, of which the best and its neighbours are kept.

    Without a fold another penalty may be the best one; such models serve the estimate only.
    """

    name: str = "sparse linear"
    only_wide: bool = False  # whether to train on wide tables only

    def suits(self, size: TableSize) -> bool:
        """Wide tables, or all; numbers with squared loss, and classes."""
        return size.link is None and (not self.only_wide or size.columns >= WIDE * size.rows)

    def operations(self, size: TableSize) -> float:
        """Paths with and without each fold."""
        minimum = PER_MINIMUM + PER_ENTRY * size.rows * size.columns
        return (FOLDS + 1) * size.outputs * MOST * minimum

    def train(self, table: TrainingTable, seed: int) -> list[MemberFit]:
        """Follow the path until the error rises."""
        if not self.suits(table.size):
            return []
        mean, scale = column_moments(table)
        with ignoring(Warning):  # of a limit of sweeps: the next parabola continues
            steps = list(path(table, mean, scale, table.folds.numpy() % FOLDS))
        best = torch.stack([one.errors for one in steps]).argmin(0)
        near = [(best - place).abs() <= 1 for place in range(len(steps))]
        pairs = zip(steps, near, strict=True)
        return [_member(table, mean, scale, one, own) for one, own in pairs if bool(own.any())]


def path(
    table: TrainingTable, mean: Floats, scale: Floats, folds: NDArray[np.intp]
) -> Iterator[PathStep]:
    """Models of one penalty after the other, the largest first, with each fold left out."""
    X = np.asfortranarray(standardised(np.asarray(table.X, np.float64), mean, scale))
    Y = table.loss.regression_targets(table.y, table.outputs).numpy()
    weights = [table.row_weights]
    weights += [table.weights_without(folds == fold) for fold in range(int(folds.max()) + 1)]
    problems = [SparseProblem(X, Y, each / each.sum(), table.loss.has_classes) for each in weights]
    models, last = [one.null() for one in problems], max(map(steepest, problems))
    best, worse = np.inf, 0
    for _ in range(MOST):
        penalty = RATIO * last
        pairs = zip(problems, models, strict=True)
        models = [problem.minimise(penalty, last, model) for problem, model in pairs]
        outputs = np.empty((len(X), Y.shape[1]))
        for fold, model in enumerate(models[1:]):
            outputs[folds == fold] = model.outputs(X[folds == fold])
        predictions = table.loss.predictions(torch.from_numpy(outputs))
        step = PathStep(penalty, models[0], models[1:], predictions, table.errors(predictions))
        yield step
        error = float(step.errors[-1])
        worse = 0 if error < best else worse + 1
        best, last = min(best, error), penalty
        if worse >= PATIENCE:
            return


def _member(
    table: TrainingTable, mean: Floats, scale: Floats, step: PathStep, selected: Tensor
) -> MemberFit:
    """Keep the columns that some of the models use."""
    folds = [one.theta for one in step.without]
    used = np.flatnonzero(step.model.theta.any(1) | np.any([one.any(1) for one in folds], axis=0))
    model = SparseLinear(
        table.loss,
        step.penalty,
        used.astype(np.int64),
        mean[used],
        scale[used],
        step.model.theta[used],
        step.model.bias,
        np.stack([one[used] for one in folds]),
        np.stack([one.bias for one in step.without]),
    )
    return MemberFit(model, step.predictions, torch.zeros_like(step.predictions), selected)
