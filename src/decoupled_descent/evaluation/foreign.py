"""A model that somebody else has fitted: what it predicts, and how it is fitted again."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.evaluation.kinds import DECISIONS, NUMBERS, PROBABILITIES, Kind
from decoupled_descent.evaluation.task import Task
from decoupled_descent.quiet import ignoring

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Foreign:
    """A fitted model with its rows. Refits are fits of clones."""

    model: Any
    task: Task
    options: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def weight_name(self) -> str | None:
        """The argument of ``fit`` that takes weights of rows; None if there is none."""
        return _weight_name(self.model)

    @property
    def keeps_shares(self) -> bool:
        """Whether weights keep the shares of the classes when a row is left out of a refit.

        They are for models that decide without probabilities; balanced classes keep them anyway.
        """
        if self.task.kind != DECISIONS or self.weight_name is None:
            return False
        return getattr(_last(self.model), "class_weight", None) != "balanced"

    def without(self, out: Codes, shares: bool = False) -> Any:
        """The model, fitted without some rows; with the shares of the classes kept if asked."""
        task, kept = self.task, np.ones(self.task.n, bool)
        kept[out] = False
        if task.classes is not None and len(np.unique(task.labels[kept])) < 2:
            raise ValueError("y has too few rows of a class: without some, only one class is left")
        weights = task.weights
        if shares and self.keeps_shares:
            weights = _raised(task, kept)
        return self.fitted(np.flatnonzero(kept), weights)

    def fitted(self, rows: Codes, weights: Floats | None) -> Any:
        """A clone, fitted to some rows."""
        from sklearn.base import clone

        options: dict[str, Any] = {}
        if weights is not None and self.weight_name is not None:
            options[self.weight_name] = weights[rows]
        if self.task.groups is not None and hasattr(self.model, "cv_results_"):
            options["groups"] = self.task.groups[rows]
        with ignoring(Warning):  # the user has seen those of the fit to all rows
            return clone(self.model).fit(taken(self.task.X, rows), self.task.y[rows], **options)

    def predict(self, model: Any, rows: Codes) -> Any:
        """What a model predicts for some rows: probabilities of all classes, codes, or numbers."""
        return predicted(model, taken(self.task.X, rows), self.task)


def predicted(model: Any, X: Any, task: Task) -> Any:
    """Probabilities of all classes of a task, codes of classes, or numbers."""
    with ignoring(Warning):
        if task.kind == PROBABILITIES:
            result = np.zeros((len(taken_labels(X)), len(task.classes)))
            result[:, codes_of(model.classes_, task.classes)] = model.predict_proba(X)
            return result
        said = np.asarray(model.predict(X))
    if task.kind == DECISIONS:
        return codes_of(said.reshape(-1), task.classes)
    return said.astype(np.float64).reshape(len(said), *task.labels.shape[1:])


def taken_labels(X: Any) -> range:
    """Numbers for the rows of anything that has rows."""
    return range(X.shape[0] if hasattr(X, "shape") else len(X))


def taken(X: Any, rows: Codes) -> Any:
    """Some rows of an array, a sparse matrix, a data frame or a list."""
    from sklearn.utils import _safe_indexing

    return _safe_indexing(X, rows)


def codes_of(values: Any, classes: Any) -> Codes:
    """The number of each value among the classes; −1 for others."""
    places = {name: k for k, name in enumerate(np.asarray(classes).tolist())}
    return np.array([places.get(one, -1) for one in np.asarray(values).tolist()], np.int64)


def kind_of(model: Any) -> Kind:
    """What a model predicts."""
    if not hasattr(model, "classes_"):
        return NUMBERS
    return PROBABILITIES if hasattr(model, "predict_proba") else DECISIONS


def _raised(task: Task, kept: NDArray[np.bool_]) -> Floats:
    """Weights of which those that are kept have the sums that all have in each class."""
    weights = task.row_weights.copy()
    for label in np.unique(task.labels[~kept]):
        own = task.labels == label
        left = weights[own & kept].sum()
        if left > 0:
            weights[own] *= weights[own].sum() / left
    return weights


def _weight_name(model: Any) -> str | None:
    """The argument of ``fit`` for weights: of the last step of a pipeline, by its name."""
    from sklearn.utils.validation import has_fit_parameter

    if hasattr(model, "steps"):
        name, last = model.steps[-1]
        own = _weight_name(last)
        return None if own is None else f"{name}__{own}"
    if hasattr(model, "best_estimator_"):
        return _weight_name(model.best_estimator_)
    return "sample_weight" if has_fit_parameter(model, "sample_weight") else None


def _last(model: Any) -> Any:
    """The last step of pipelines."""
    while hasattr(model, "steps"):
        model = model.steps[-1][1]
    return model
