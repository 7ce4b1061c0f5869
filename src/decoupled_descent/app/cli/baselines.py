"""The model is compared with a linear model and with guessing, by their leave-one-out errors."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import decoupled_descent as dd
from decoupled_descent.app.cli.tables import Prepared
from decoupled_descent.app.report.data import Contender

Floats = NDArray[np.float64]


def contenders(prepared: Prepared, estimator: Any) -> list[Contender]:
    """Return the model, a linear model and guessing with their out-of-sample errors.

    The list is empty if the train error of the model does not estimate its test error.
    """
    if not estimator.algorithm_.estimates_test_error:
        return []
    log = is_log(estimator)
    names = ["this model", "linear model", _guess_name(prepared, log)]
    tried = {one.get("features") for one in estimator.candidates_}
    linear = (
        estimator
        if tried == {"linear"}
        else fit_alone(prepared.task, prepared.given | {"time": None}, "linear", log)
    )
    predictions = [predictions_of(estimator), predictions_of(linear), _guesses(prepared, log)]
    losses = [losses_of(estimator, one, prepared.y) for one in predictions]
    numbers = "typical error of the logarithm" if log else "typical error"
    measure = numbers if prepared.task == "regression" else "log loss"
    compared = []
    models = (estimator, linear, None)
    for model, name, predicted, each in zip(models, names, predictions, losses, strict=True):
        squares = each if not log else np.square(predicted - prepared.y)
        error, stderr = mean(squares, prepared.groups)
        gain, gain_stderr = mean(each - losses[0], prepared.groups)
        score, median = _score(prepared, estimator, predicted, error)
        if prepared.time is None:  # otherwise it is that of later rows
            score = getattr(model, "estimated_accuracy_", score)
        loss = float(each.mean())
        compared.append(
            Contender(name, error, stderr, score, median, gain, gain_stderr, loss, measure)
        )
    return compared


def is_log(estimator: Any) -> bool:
    """Whether the logarithm of the target is fitted."""
    return bool(getattr(estimator, "log_target", False))


def mean(values: Floats, groups: NDArray[Any] | None = None) -> tuple[float, float]:
    """Mean and standard error; the rows are independent, or the groups if they are given."""
    centre = float(values.mean())
    sums = values - centre
    if groups is not None:
        sums = pd.Series(sums).groupby(groups).sum().to_numpy()
    count = len(sums)
    spread = float(np.square(sums).sum()) * count / max(1, count - 1)
    return centre, math.sqrt(spread) / len(values)


def fit_alone(task: str, given: dict[str, Any], features: str, log: bool) -> Any:
    """Fit one feature map; its penalty has the lowest leave-one-out error.

    ``given`` has the arguments of ``fit``.
    """
    kinds = {"classification": dd.DecoupledClassifier, "regression": dd.DecoupledRegressor}
    options: dict[str, Any] = {"log_target": True} if log else {}
    estimator: Any = kinds[task](features=features, stack=False, verbose=False, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(**given)


def predictions_of(estimator: Any) -> Floats:
    """Out-of-sample predictions of the training rows: probabilities (n, K), or numbers."""
    name = "corrected_proba_" if hasattr(estimator, "classes_") else "corrected_prediction_"
    predictions: Floats = np.asarray(getattr(estimator, name), dtype=np.float64)
    return predictions


def _guess_name(prepared: Prepared, log: bool) -> str:
    if prepared.task == "regression":
        return "always the geometric mean" if log else "always the mean"
    classes, counts = np.unique(prepared.y, return_counts=True)
    return f"always {classes[counts.argmax()]!s:.40}"


def targets(task: str, y: NDArray[Any]) -> Floats:
    """The target as columns: numbers, or an indicator of each class, shape (n, K)."""
    if task == "regression":
        return np.asarray(y, dtype=np.float64)[:, None]
    indicators: Floats = pd.get_dummies(y).to_numpy(dtype=np.float64)
    return indicators


def _guesses(prepared: Prepared, log: bool = False) -> Floats:
    """The mean among the rows of all other groups, or the share of each class.

    Classes keep their shares when rows are left out, as they do in the model. Half a row of each
    class is added, so that no share is 0 (Krichevsky and Trofimov).
    """
    n = len(prepared.y)
    values = targets(prepared.task, np.log(prepared.y) if log else prepared.y)
    if prepared.task == "classification":
        shares = (values.sum(0) + 0.5) / (n + 0.5 * values.shape[1])
        return np.tile(shares, (n, 1))
    own = pd.DataFrame(values).groupby(np.arange(n) if prepared.groups is None else prepared.groups)
    left = values.sum(0) - own.transform("sum").to_numpy()
    means: Floats = (left / (n - own.transform("size").to_numpy()[:, None]))[:, 0]
    return np.exp(means) if log else means


def losses_of(estimator: Any, predictions: Floats, y: NDArray[Any]) -> Floats:
    """Log losses of probabilities (n, K), or squared errors of numbers or of their logarithms."""
    if not hasattr(estimator, "classes_"):
        residuals = predictions - y
        if is_log(estimator):
            residuals = np.log(predictions) - np.log(y)
        squares: Floats = np.square(residuals)
        return squares
    codes = np.searchsorted(estimator.classes_, y)
    shares = predictions[np.arange(len(codes)), codes]
    losses: Floats = -np.log(np.maximum(shares, np.finfo(float).tiny))
    return losses


def _score(
    prepared: Prepared, estimator: Any, predictions: Floats, error: float
) -> tuple[float, float | None]:
    """Accuracy; or R² and the median of the absolute errors."""
    if prepared.task == "classification":
        right = estimator.classes_[predictions.argmax(1)] == prepared.y
        return float(right.mean()), None
    variance = float(np.var(prepared.y))
    score = 1 - error / variance if variance > 0 else math.nan
    return score, float(np.median(np.abs(predictions - prepared.y)))
