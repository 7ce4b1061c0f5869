"""Classes as normal distributions: quadratic discriminant analysis and naive Bayes.

Their probabilities follow from means and covariances of each class. They need few rows to be good
where classes differ in spread, and have closed forms, so that fits without each fold take little
time. Classes keep their shares when a fold is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from decoupled_descent.tables.members.interface import (
    Floats,
    KeptRows,
    Member,
    MemberFit,
    TableSize,
    TrainingTable,
)
from decoupled_descent.tables.members.standardised import column_moments
from decoupled_descent.tables.prediction import predictor
from decoupled_descent.tables.prediction.predictor import standardised

#: Folds of the mixture are joined to this many.
FOLDS = 10
#: More columns than this have no covariances: they would take long, and more rows.
MOST_COLUMNS = 200
#: Operations of a matrix product that take as long as one term of the sums of all folds.
PER_SUM = 100.0
#: Arrays in files.
ARRAYS = ("mean", "scale", "centres", "roots", "offsets")


class Densities(NamedTuple):
    """Normal distributions of standardised columns, one for each of C classes."""

    centres: Floats  # shape (C, d)
    roots: Floats  # of inverse covariances, shape (C, d, d), or (C, d) without covariances
    offsets: Floats  # log share of the class, minus half the log determinant, shape (C,)

    @classmethod
    def fit(cls, Z: Floats, codes: Any, weights: Floats, count: int, recipe: Any) -> Densities:
        """Means, covariances and shares of the classes; a class without weight has share 0."""
        centres, roots, offsets = [], [], []
        for one in range(count):
            own = np.where(codes == one, weights, 0.0)
            total = own.sum()
            share = own / total if total > 0 else own
            centre = share @ Z
            away = Z - centre
            if recipe.covariances:
                moments = (away * share[:, None]).T @ away * (1 - recipe.ridge)
                moments[np.diag_indices_from(moments)] += recipe.ridge
                values, vectors = np.linalg.eigh(moments)
                values = np.maximum(values, recipe.ridge)
                roots.append(vectors / np.sqrt(values))
            else:
                values = share @ away**2 + recipe.ridge
                roots.append(1 / np.sqrt(values))
            centres.append(centre)
            offsets.append(np.log(max(total / weights.sum(), 1e-300)) - np.log(values).sum() / 2)
        return cls(np.stack(centres), np.stack(roots), np.array(offsets))

    def probabilities(self, Z: Floats) -> Floats:
        """Probabilities of the classes, shape (m, C)."""
        shares: Floats = predictor.probabilities(predictor.densities(self._asdict(), Z))
        return shares


@dataclass(frozen=True, eq=False)
class GaussianClasses(Member):
    """Normal distributions of the classes, for columns with their means and deviations."""

    kind = "gaussian classes"
    name: str
    mean: Floats  # shape (d,)
    scale: Floats  # shape (d,)
    densities: Densities
    without: tuple[Densities, ...] = ()  # those without each fold; not saved in files

    def predict(self, X: Any) -> Tensor:
        """Probabilities of all classes, shape (m, C)."""
        Z = standardised(np.asarray(X, np.float64), self.mean, self.scale)
        return torch.from_numpy(self.densities.probabilities(Z))

    def kept_rows(self, table: TrainingTable, some: Tensor) -> KeptRows:
        """The fold of each row: the densities without the fold are without the row."""
        return KeptRows(table.folds[some] % FOLDS)

    def without_own(self, X: Any, kept: KeptRows) -> Tensor:
        """Probabilities by the densities without the fold of the kept row."""
        Z = standardised(np.asarray(X, np.float64), self.mean, self.scale)
        result, folds = np.empty((len(Z), len(self.densities.offsets))), kept.matrix.numpy()
        for fold in np.unique(folds):
            own = folds == fold
            result[own] = self.without[fold].probabilities(Z[own])
        return torch.from_numpy(result)

    def changes(self, X: Any | None, kept: KeptRows) -> Tensor:
        """Intervals are for numbers, which have no classes."""
        raise ValueError(f"{self.name} predicts classes, which have no intervals")

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The name and all arrays."""
        arrays = self.mean, self.scale, *self.densities
        pairs = zip(ARRAYS, arrays, strict=True)
        tensors = {name: torch.from_numpy(np.ascontiguousarray(each)) for name, each in pairs}
        return {"kind": self.kind, "name": self.name}, tensors

    @classmethod
    def restore(cls, settings: Any, tensors: dict[str, Tensor], width: int) -> Self:  # noqa: ARG003
        """Take all arrays."""
        mean, scale, *rest = (tensors[name].numpy() for name in ARRAYS)
        return cls(settings["name"][:80], mean, scale, Densities(*rest))


@dataclass(frozen=True)
class GaussianRecipe:
    """Normal distributions with covariances, or of independent columns."""

    name: str
    covariances: bool
    ridge: float  # what is added to variances of standardised columns

    def suits(self, size: TableSize) -> bool:
        """Classes only, and not too many columns for covariances."""
        return size.has_classes and not (self.covariances and size.columns > MOST_COLUMNS)

    def operations(self, size: TableSize) -> float:
        """Sums over rows for each class and fold, of squares of columns or of single columns."""
        d = size.columns
        each = d**2 + d**3 / size.rows if self.covariances else 10 * d
        return PER_SUM * size.width * size.rows * each

    def train(self, table: TrainingTable, seed: int) -> list[MemberFit]:
        """Fit to all rows, and without each fold; nothing for numbers."""
        classes = table.classes
        if classes is None or not self.suits(table.size):
            return []
        mean, scale = column_moments(table)
        Z = standardised(np.asarray(table.X, np.float64), mean, scale)
        codes, folds = classes.numpy(), table.folds.numpy() % FOLDS
        honest, without = np.empty((len(Z), table.width)), []
        for fold in range(int(folds.max()) + 1):
            out = folds == fold
            weights = table.weights_without(out)
            without.append(Densities.fit(Z, codes, weights, table.width, self))
            honest[out] = without[fold].probabilities(Z[out])
        densities = Densities.fit(Z, codes, table.row_weights, table.width, self)
        predictions = torch.from_numpy(honest)
        model = GaussianClasses(self.name, mean, scale, densities, tuple(without))
        return [MemberFit(model, predictions, torch.zeros_like(predictions))]


#: With a ridge of 0.01, quadratic discriminant analysis was better than with 0.1 on 71 fits.
GAUSSIANS = (
    GaussianRecipe("quadratic discriminant", True, 0.01),
    GaussianRecipe("naive Bayes", False, 1e-3),
)
