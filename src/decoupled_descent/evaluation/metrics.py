r"""Metrics by name, as functions of means over rows.

A metric is :math:`f(\bar s)`, where each row has a few numbers s_i and :math:`\bar s` is their
mean. So the metric without any one row, or group, costs no more than the metric itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.checks import error_interval, interval, share_interval
from decoupled_descent.evaluation.output_scale import classes

Floats = NDArray[np.float64]
#: Smaller probabilities count as this in a logarithm: what float64 can tell from 0, as sklearn.
LEAST = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class MeanMetric:
    """A function of means over rows.

    Attributes:
        rows: The numbers of each row, shape (n, q), from labels and predictions.
        value: The metric from means of shape (…, q).
        classifies: Whether it is for classes; else for values.
        interval: Its 95 % interval, from a value and a standard error.
        is_share: Whether it is a share of rows: of those whose second number is 1, or of all.
        from_squares: For a function of squared errors, its interval from that of their mean and
            from the numbers of the rows.
    """

    rows: Callable[[Any, Floats], Floats]
    value: Callable[[Floats], Floats]
    classifies: bool
    interval: Callable[[float, float], tuple[float, float]] = interval
    is_share: bool = False
    from_squares: Callable[[tuple[float, float], Floats], tuple[float, float]] | None = None


def _first(means: Floats) -> Floats:
    return np.asarray(means[..., 0])


def _correct(y: Any, predictions: Floats) -> Floats:
    return np.asarray(classes(predictions) == y, float)[:, None]


def _wrong(y: Any, predictions: Floats) -> Floats:
    return 1 - _correct(y, predictions)


def _table(y: Any, predictions: Floats) -> tuple[Floats, Floats]:
    """Labels and predicted classes as rows of 0 and 1."""
    said = classes(predictions)
    kinds = np.unique(np.concatenate([y, said]))
    return (np.asarray(y)[:, None] == kinds).astype(float), (said[:, None] == kinds).astype(float)


def _recalls(y: Any, predictions: Floats) -> Floats:
    true, said = _table(y, predictions)
    there = true.any(0)
    return np.concatenate([(true * said)[:, there], true[:, there]], 1)


def _mean_recall(means: Floats) -> Floats:
    both, true = np.split(means, 2, axis=-1)
    there = true > 1e-15  # a class whose last row is left out does not count
    ratios = np.divide(both, true, out=np.zeros_like(both), where=there)
    return np.asarray(ratios.sum(-1) / there.sum(-1))


def _overlap(y: Any, predictions: Floats) -> Floats:
    true, said = _table(y, predictions)
    if predictions.ndim == 1:  # of class 1
        true = (np.asarray(y) == 1)[:, None].astype(np.float64)
        said = classes(predictions)[:, None].astype(np.float64)
    return np.concatenate([true * said, true + said], 1)


def _mean_f1(means: Floats) -> Floats:
    both, total = np.split(means, 2, axis=-1)
    there = total > 1e-15
    ratios = np.divide(2 * both, total, out=np.zeros_like(both), where=there)
    return np.asarray(ratios.sum(-1) / np.maximum(there.sum(-1), 1))


def _brier(y: Any, predictions: Floats) -> Floats:
    if predictions.ndim == 1:
        return np.asarray((predictions - y) ** 2)[:, None]
    true = np.asarray(y)[:, None] == np.arange(predictions.shape[1])
    return np.asarray(((predictions - true) ** 2).sum(1))[:, None]


def _log_loss(y: Any, predictions: Floats) -> Floats:
    if predictions.ndim == 1:
        predictions = np.stack([1 - predictions, predictions], 1)
    chosen = predictions[np.arange(len(y)), np.asarray(y, np.int64)]
    return np.asarray(-np.log(np.clip(chosen, LEAST, 1 - LEAST)))[:, None]


def _squares(y: Any, predictions: Floats) -> Floats:
    return np.asarray(((predictions - y) ** 2).reshape(len(y), -1).mean(1)[:, None])


def _absolute(y: Any, predictions: Floats) -> Floats:
    return np.asarray(abs(predictions - y).reshape(len(y), -1).mean(1)[:, None])


def _squares_and_labels(y: Any, predictions: Floats) -> Floats:
    if np.ndim(predictions) > 1:
        raise ValueError("metric='r2' is for one target; several have output_r2_")
    centred = y - np.mean(y)  # less is lost in the difference of squares below
    return np.stack([(predictions - y) ** 2, centred, centred**2], 1)


def _explained(means: Floats) -> Floats:
    return np.asarray(1 - means[..., 0] / (means[..., 2] - means[..., 1] ** 2))


def _share_among(given: str, label: int) -> Callable[[Any, Floats], Floats]:
    """Whether a row is right, and whether it counts: by its label, or by its predicted class."""

    def rows(y: Any, predictions: Floats) -> Floats:
        if predictions.ndim > 1:
            raise ValueError("sensitivity, specificity, ppv and npv are for two classes")
        true, predicted = np.asarray(y) == label, classes(predictions) == label
        counted = true if given == "label" else predicted
        return np.stack([true & predicted, counted], 1).astype(np.float64)

    return rows


def _ratio(means: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(means[..., 0] / means[..., 1])


def _root_interval(value: float, stderr: float) -> tuple[float, float]:
    """That of a root of a mean of losses, which is about as symmetric as its root is."""
    low, high = error_interval(value**2, 2 * value * stderr)
    return math.sqrt(low), math.sqrt(high)


def _same(ends: tuple[float, float], _: Floats) -> tuple[float, float]:
    return ends


def _roots(ends: tuple[float, float], _: Floats) -> tuple[float, float]:
    return math.sqrt(ends[0]), math.sqrt(ends[1])


def _explained_interval(ends: tuple[float, float], rows: Floats) -> tuple[float, float]:
    """That of R²; the variance of the labels counts as exact."""
    variance = float(rows[:, 2].mean() - rows[:, 1].mean() ** 2)
    return (1 - ends[1] / variance, 1 - ends[0] / variance) if variance > 0 else (-math.inf, 1.0)


def _share(given: str, label: int) -> MeanMetric:
    return MeanMetric(_share_among(given, label), _ratio, True, share_interval, True)


#: The metrics that have names, apart from "auc".
METRICS = {
    "accuracy": MeanMetric(_correct, _first, True, share_interval, True),
    "error_rate": MeanMetric(_wrong, _first, True, share_interval, True),
    "sensitivity": _share("label", 1),  # of the rows of class 1, those that are recognised
    "specificity": _share("label", 0),
    "ppv": _share("prediction", 1),  # of the rows that are predicted as class 1, those that are
    "npv": _share("prediction", 0),
    "balanced_accuracy": MeanMetric(_recalls, _mean_recall, True, share_interval),
    "f1": MeanMetric(_overlap, _mean_f1, True, share_interval),
    "brier": MeanMetric(_brier, _first, True, error_interval),
    "log_loss": MeanMetric(_log_loss, _first, True, error_interval),
    "mse": MeanMetric(_squares, _first, False, error_interval, from_squares=_same),
    "rmse": MeanMetric(
        _squares, lambda means: np.sqrt(means[..., 0]), False, _root_interval, from_squares=_roots
    ),
    "mae": MeanMetric(_absolute, _first, False, error_interval),
    "r2": MeanMetric(_squares_and_labels, _explained, False, from_squares=_explained_interval),
}
