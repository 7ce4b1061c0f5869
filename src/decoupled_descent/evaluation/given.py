"""Predictions that others have made without the rows, as evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.checks import LIKELY_CLASSES, ROWS_PER_CLASS
from decoupled_descent.evaluation.checks.of_models import leak
from decoupled_descent.evaluation.comparison import price_of_choice
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.foreign import codes_of, taken_labels
from decoupled_descent.evaluation.inputs import as_groups, as_weights
from decoupled_descent.evaluation.kinds import DECISIONS, NUMBERS, PROBABILITIES
from decoupled_descent.evaluation.task import Task

Floats = NDArray[np.float64]

#: Probabilities of a row add up to 1 to this part.
ROUNDED = 0.01
#: Numbers repeat the labels up to this part of their standard deviation.
REPEATED = 1e-9
#: Residuals are orthogonal to columns if all cosines are below this part of those by chance, of at
#: least so many columns.
ORTHOGONAL, FEWEST = 0.01, 2


def of_predictions(
    predictions: Any,
    y: Any,
    sample_weight: Any = None,
    groups: Any = None,
    X: Any = None,
    out_of_fold: bool = False,
) -> Evaluation:
    """The evaluation of predictions of one model, or of the best of several by name."""
    if y is None:
        raise ValueError("y is missing: pass the labels of the rows of predictions")
    labels = np.asarray(y)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    require_values("y", labels)
    options = {
        "weights": as_weights(sample_weight, len(labels)),
        "groups": as_groups(groups, len(labels)),
    }
    if X is not None and len(taken_labels(X)) != len(labels):
        raise ValueError(f"X has {len(taken_labels(X))} rows and y {len(labels)}; give the same")

    def checked(one: Evaluation) -> Evaluation:
        task = Task(X, y, one.labels, one.kind, one.classes, one.weights)
        notes = {"in_sample": is_fitted(one, task), "unknown_origin": float(not out_of_fold)}
        found = None if X is None else leak(task)
        return replace(one, notes=notes, given=() if found is None else (found,))

    if not isinstance(predictions, Mapping):
        require_same_order("predictions", predictions, y)
        return checked(_of_one(predictions, labels, "predictions", options))
    if not predictions:
        raise ValueError("predictions is an empty dictionary: pass those of a model by its name")
    for name, own in predictions.items():
        require_same_order(f"predictions[{name!r}]", own, y)
    each = {
        str(name): checked(_of_one(own, labels, f"predictions[{name!r}]", options))
        for name, own in predictions.items()
    }
    return best_of(each)


def require_values(name: str, values: Any) -> None:
    """Refuse numbers that are not finite, and missing values."""
    rows = values.reshape(len(values), -1) if values.ndim else values.reshape(1, 1)
    bad = ~np.isfinite(rows) if values.dtype.kind in "fc" else pd.isna(rows)
    if count := int(bad.any(1).sum()):
        raise ValueError(
            f"{name} has {count} row{'s' * (count > 1)} with missing or infinite values; drop "
            "these rows and labels"
        )


def require_same_order(name: str, predictions: Any, y: Any) -> None:
    """Refuse predictions whose index has the labels of y's in another order, as folds leave it."""
    one, other = (getattr(given, "index", None) for given in (predictions, y))
    if not (isinstance(one, pd.Index) and isinstance(other, pd.Index)) or len(one) != len(other):
        return
    if not one.equals(other) and one.is_unique and one.isin(other).all():
        raise ValueError(
            f"{name} has the index of y in another order; pass {name}.loc[y.index], or arrays in "
            "the order of y"
        )


def is_fitted(evaluation: Evaluation, task: Task) -> float:
    """1 if predictions show that the model was fitted to these rows.

    Numbers that repeat all labels; and residuals that are orthogonal to all columns, as they are at
    a minimum without a penalty.
    """
    labels, said = np.asarray(evaluation.labels), np.asarray(evaluation.predictions)
    if evaluation.kind == DECISIONS or labels.ndim > 1:
        return 0.0
    if evaluation.kind == PROBABILITIES:
        rest = task.one_hot()[:, 1:] - said[:, 1:]
    else:
        rest = (labels - said)[:, None]
        if np.abs(rest).max() <= REPEATED * labels.std():
            return 1.0
    columns = None if task.X is None else task.columns
    if columns is None or not FEWEST <= columns.shape[1] < task.n / 2:
        return 0.0
    weighted, X = task.row_weights[:, None] * rest, columns.to_numpy()
    X = X[:, np.ptp(X, axis=0) > 0]  # constant columns are orthogonal to everything
    if X.shape[1] < FEWEST:
        return 0.0
    ways = (X - X.mean(0), X)  # with an intercept, and without
    limit = ORTHOGONAL / task.n**0.5
    return float(any(_cosines(one, weighted).max() < limit for one in ways))


def _cosines(one: Floats, other: Floats) -> Floats:
    """The cosines of the angles between columns, at least 0."""
    lengths = np.linalg.norm(one, axis=0)[:, None] * np.linalg.norm(other, axis=0)
    return np.asarray(np.abs(one.T @ other) / np.maximum(lengths, 1e-300))


def best_of(candidates: Mapping[str, Evaluation]) -> Evaluation:
    """The evaluation with the lowest error, which is corrected for the choice."""
    losses = {one.loss for one in candidates.values()}
    if len(losses) > 1:
        raise ValueError(
            f"predictions are judged by different losses ({', '.join(sorted(losses))}): pass "
            "probabilities, classes or numbers for all models"
        )
    name = min(candidates, key=lambda one: candidates[one].error)
    best = candidates[name]
    price = price_of_choice([one.losses for one in candidates.values()], best.weights, best.groups)
    return replace(
        best, losses=best.losses + price, optimism=price, candidates=dict(candidates), chosen=name
    )


def _of_one(predictions: Any, labels: Any, name: str, options: Any) -> Evaluation:
    """The evaluation of one model's predictions."""
    given = np.asarray(predictions)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
        if _is_first(getattr(predictions, "columns", None), given, labels):
            given = 1 - given.astype(np.float64)
    if given.ndim == 0:
        raise ValueError(f"{name}={predictions!r} must have a prediction for each row of y")
    if len(given) != len(labels):
        raise ValueError(f"{name} has {len(given)} rows and y {len(labels)}; give the same")
    require_values(name, given)
    if not _has_classes(labels, given):
        if given.dtype.kind not in "biuf" or given.shape != labels.shape:
            raise ValueError(
                f"{name} has shape {given.shape} and y, which are numbers, {labels.shape}; give "
                "one number for each, and a dictionary for several models"
            )
        return Evaluation.of(labels.astype(float), given.astype(float), NUMBERS, **options)
    classes = np.unique(labels)
    codes = codes_of(labels, classes)
    if given.ndim == 1 and _are_decisions(given, classes):
        said = codes_of(given, classes)
        return Evaluation.of(codes, said, DECISIONS, classes=classes, **options)
    chances = _probabilities(predictions, given, classes, name)
    return Evaluation.of(codes, chances, PROBABILITIES, classes=classes, **options)


def _has_classes(labels: Any, given: Any) -> bool:
    """Whether labels are classes: text, or few whole numbers."""
    if labels.ndim > 1:
        return False
    if labels.dtype.kind not in "iuf":
        return True
    count = len(np.unique(labels))
    whole = bool((labels == np.round(labels)).all())
    if given.ndim == 2:
        return bool(given.shape[1] == count)
    few = count <= LIKELY_CLASSES and len(labels) >= ROWS_PER_CLASS * count
    binary = few and bool(np.isin(labels, (0, 1)).all())  # logits are not evaluated as numbers
    return whole and (
        (_are_decisions(given, np.unique(labels)) and few) or _are_chances(given, count) or binary
    )


def _are_decisions(given: Any, classes: Any) -> bool:
    return bool(np.isin(given, classes).all())


def _are_chances(given: Any, count: int) -> bool:
    """Whether numbers are probabilities of the second of two classes."""
    numeric = given.dtype.kind in "biuf"
    return count == 2 and numeric and bool((given >= 0).all() and (given <= 1).all())


def _is_first(columns: Any, given: Any, labels: Any) -> bool:
    """Whether the only column has the name of the first of two classes, and probabilities.

    Names are text: a frame that was given none has the number 0 there, which says nothing.
    """
    if columns is None or not isinstance(columns[0], str):
        return False
    classes = np.unique(labels)
    named = len(classes) == 2 and columns[0] == _texts(classes)[0]
    return named and _are_chances(given, 2) and _has_classes(labels, given)


def _texts(classes: Any) -> list[str]:
    """The names of classes as text; 1.0 is 1."""
    whole = classes.dtype.kind == "f" and bool((classes == np.round(classes)).all())
    return [str(one) for one in (classes.astype(np.int64) if whole else classes).tolist()]


def _unknown(given: Any, classes: Any) -> Any:
    """The first value that is neither a class nor, of numbers, a probability."""
    values = given.tolist()
    if given.dtype.kind in "biuf" and len(classes) == 2:
        return next(one for one in values if not 0 <= one <= 1)
    return next(one for one in values if one not in classes.tolist())


def _probabilities(predictions: Any, given: Any, classes: Any, name: str) -> Floats:
    """Probabilities of all classes in the order of the classes, shape (n, K)."""
    if given.ndim == 1 and _are_chances(given, len(classes)):
        second = given.astype(np.float64)
        return np.stack([1 - second, second], 1)
    if given.ndim == 1:
        raise ValueError(
            f"{name} has {_unknown(given, classes)!r}, and y the classes {classes.tolist()}: give "
            "classes, or the probabilities of the second of two (of logits, 1/(1 + exp(-logit)))"
        )
    if given.ndim != 2 or given.shape[1] != len(classes) or given.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has shape {given.shape}; y has {len(classes)} classes: give a class or "
            f"{len(classes)} probabilities for each row"
        )
    names = list(getattr(predictions, "columns", classes))
    order = codes_of(classes, names)
    if (order < 0).any():
        order = codes_of(_texts(classes), [str(one) for one in names])
    if (order < 0).any():
        raise ValueError(f"{name} has the columns {names}, and y the classes {classes.tolist()}")
    chances = given[:, order].astype(np.float64)
    if (chances < 0).any() or (np.abs(chances.sum(1) - 1) > ROUNDED).any():
        raise ValueError(f"{name} has rows that do not add up to 1; give probabilities")
    return np.asarray(chances / chances.sum(1, keepdims=True))
