r"""Metrics by name, as functions of means over rows.

A metric is :math:`f(\bar s)`, where each row has a few numbers s_i and :math:`\bar s` is their
mean. So the metric without any one row, or group, costs no more than the metric itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.training.output_scale import classes

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
    """

    rows: Callable[[Any, Floats], Floats]
    value: Callable[[Floats], Floats]
    classifies: bool


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
    centred = y - np.mean(y)  # less is lost in the difference of squares below
    return np.stack([(predictions - y) ** 2, centred, centred**2], 1)


def _explained(means: Floats) -> Floats:
    return np.asarray(1 - means[..., 0] / (means[..., 2] - means[..., 1] ** 2))


#: The metrics that have names, apart from "auc".
METRICS = {
    "accuracy": MeanMetric(_correct, _first, True),
    "error_rate": MeanMetric(_wrong, _first, True),
    "balanced_accuracy": MeanMetric(_recalls, _mean_recall, True),
    "f1": MeanMetric(_overlap, _mean_f1, True),
    "brier": MeanMetric(_brier, _first, True),
    "log_loss": MeanMetric(_log_loss, _first, True),
    "mse": MeanMetric(_squares, _first, False),
    "rmse": MeanMetric(_squares, lambda means: np.sqrt(means[..., 0]), False),
    "mae": MeanMetric(_absolute, _first, False),
    "r2": MeanMetric(_squares_and_labels, _explained, False),
}
