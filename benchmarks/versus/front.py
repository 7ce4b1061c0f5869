"""``DecoupledClassifier`` and ``DecoupledRegressor`` with their defaults, on real tables.

Its own leave-one-out estimate is compared with hold-out and folds around the same estimator.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import decoupled_descent as dd
from benchmarks.versus.studies import study
from benchmarks.versus.ways import (
    Answer,
    Array,
    Draw,
    Learner,
    RowLosses,
    Way,
    common_ways,
    single_fit,
)


def draw(name: str, n: int, seed: int) -> Draw:
    """Training rows and up to 6,000 others of a table; text is coded as numbers by all columns."""
    tables = study("tables")
    folder = Path(os.environ.get("DECOUPLED_DATA", "data")) / "tables"
    X, y, X_test, y_test, _ = tables.split(folder, name, n, seed)
    return Draw(X, y, X_test[:6000], y_test[:6000])


def task(y: Array) -> str:
    return "regression" if np.issubdtype(y.dtype, np.floating) else "classification"


@dataclass(frozen=True)
class Fitted:
    """One fitted estimator behind the preparation of its rows."""

    map_: Any
    model: Any

    def losses(self, X: Any, y: Array) -> Array:
        """Row losses, shape (1, rows); NaN for classes that were not among the training rows."""
        tables, kind = study("tables"), task(y)
        count, known = 0, np.ones(len(y), bool)
        if kind == "classification":
            known = np.isin(y, self.model.classes_)
            count = int(max(y.max(), self.model.classes_.max())) + 1
        said = tables.predicted(self.model, np.asarray(self.map_.transform(X), float), kind, count)
        losses = tables.row_losses(kind, y, said)
        return np.where(known, losses, np.nan)[None]

    def pick(self, index: int) -> RowLosses:
        return lambda X, y: self.losses(X, y)[0]


def train(X: Any, y: Array, last: int | None = None) -> Fitted:
    """Fit the estimator with its defaults."""
    map_ = study("tables").prepared(X)
    A = np.asarray(map_.fit_transform(X), float)
    kind = dd.DecoupledRegressor if task(y) == "regression" else dd.DecoupledClassifier
    return Fitted(map_, kind().fit(A, y))


def own(X: Any, y: Array) -> Answer:
    """The estimate that comes with the fit."""
    fitted = train(X, y)
    model = fitted.model
    estimate = model.estimated_test_error_, model.estimated_test_error_stderr_
    return Answer(*estimate, fitted.pick(0))


def ways() -> dict[str, Way]:
    """All ways of this model class."""
    learner: Learner = train
    found = {"one fit": single_fit(learner)} | common_ways(learner)
    return found | {"own": own}
