r"""Metrics by name, as functions of means over rows.

A metric is :math:`f(\bar s)`, where each row has a few numbers s_i and :math:`\bar s` is their
mean. So the metric without any one row, or group, costs no more than the metric itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from decoupled_descent.checks import error_interval, interval, share_interval
from decoupled_descent.objective.links import POISSON, PROPORTION, Link
from decoupled_descent.objective.losses import log_losses

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Takes(Enum):
    """What a metric compares the labels with."""

    DECISIONS = "the class that is decided for, a number for each row"
    PROBABILITIES = "probabilities of all classes"
    NUMBERS = "predicted numbers"


@dataclass(frozen=True)
class MeanMetric:
    """A function of means over rows.

    Attributes:
        rows: The numbers of each row, shape (n, q), from labels and what the metric takes.
        value: The metric from means of shape (…, q).
        takes: What it compares the labels with.
        interval: Its 95 % interval, from a value and a standard error.
        is_share: Whether it is a share of rows: of those whose second number is 1, or of all.
        of_mean: For a function of the mean loss, the name of that loss, and the same from the mean,
            from the numbers of the rows and from their weights.
    """

    rows: Callable[[Any, Any], Floats]
    value: Callable[[Floats], Floats]
    takes: Takes
    interval: Callable[[float, float], tuple[float, float]] = interval
    is_share: bool = False
    of_mean: tuple[str, Callable[[float, Floats, Floats], float]] | None = None


def _first(means: Floats) -> Floats:
    return np.asarray(means[..., 0])


def _correct(y: Any, decisions: Codes) -> Floats:
    return np.asarray(decisions == y, float)[:, None]


def _wrong(y: Any, decisions: Codes) -> Floats:
    return 1 - _correct(y, decisions)


def _table(y: Any, said: Codes) -> tuple[Floats, Floats]:
    """Labels and decisions as rows of 0 and 1."""
    kinds = np.unique(np.concatenate([y, said]))
    return (np.asarray(y)[:, None] == kinds).astype(float), (said[:, None] == kinds).astype(float)


def _recalls(y: Any, decisions: Codes) -> Floats:
    true, said = _table(y, decisions)
    there = true.any(0)
    return np.concatenate([(true * said)[:, there], true[:, there]], 1)


def _mean_recall(means: Floats) -> Floats:
    both, true = np.split(means, 2, axis=-1)
    there = true > 1e-15  # a class whose last row is left out does not count
    ratios = np.divide(both, true, out=np.zeros_like(both), where=there)
    return np.asarray(ratios.sum(-1) / there.sum(-1))


def _overlap(y: Any, decisions: Codes) -> Floats:
    true, said = _table(y, decisions)
    if max(np.max(y), decisions.max()) <= 1:  # of class 1
        true = (np.asarray(y) == 1)[:, None].astype(np.float64)
        said = (decisions == 1)[:, None].astype(np.float64)
    return np.concatenate([true * said, true + said], 1)


def _mean_f1(means: Floats) -> Floats:
    both, total = np.split(means, 2, axis=-1)
    there = total > 1e-15
    ratios = np.divide(2 * both, total, out=np.zeros_like(both), where=there)
    return np.asarray(ratios.sum(-1) / np.maximum(there.sum(-1), 1))


def _grades(y: Any, decisions: Codes) -> Floats:
    """What kappa with quadratic weights is made of; classes are graded in their order."""
    true, said = np.asarray(y, np.float64), decisions.astype(np.float64)
    return np.stack([(said - true) ** 2, true, true**2, said, said**2], 1)


def _steps(y: Any, decisions: Codes) -> Floats:
    return np.abs(np.asarray(y, np.float64) - decisions)[:, None]


def _kappa(means: Floats) -> Floats:
    """One minus the squared error over that of independent grades with the same shares."""
    error, true, true2, said, said2 = np.moveaxis(np.asarray(means), -1, 0)
    chance = true2 + said2 - 2 * true * said
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1 - error / chance)


def _brier(y: Any, probabilities: Floats) -> Floats:
    """Squared distance from the right class; of class 1 alone where there are two, as usual."""
    true = np.asarray(y)[:, None] == np.arange(probabilities.shape[1])
    squares = np.square(probabilities - true)
    return np.asarray(squares.sum(1) / (2 if probabilities.shape[1] == 2 else 1))[:, None]


def _log_loss(y: Any, probabilities: Floats) -> Floats:
    given = np.ascontiguousarray(probabilities, np.float64)
    return np.asarray(log_losses(torch.from_numpy(given), torch.tensor(y)))[:, None]


def _squares(y: Any, predictions: Floats) -> Floats:
    return np.asarray(((predictions - y) ** 2).reshape(len(y), -1).mean(1)[:, None])


def _absolute(y: Any, predictions: Floats) -> Floats:
    return np.asarray(abs(predictions - y).reshape(len(y), -1).mean(1)[:, None])


def _deviances(link: Link) -> Callable[[Any, Floats], Floats]:
    """Twice the loss of a link."""

    def rows(y: Any, predictions: Floats) -> Floats:
        if np.min(y) < link.low or np.max(y) > link.high:
            raise ValueError(
                f"y runs from {np.min(y):g} to {np.max(y):g}, but this deviance is for numbers "
                f"from {link.low:g} to {link.high:g}; use 'mse' or 'mae'"
            )
        means, labels = (torch.tensor(np.asarray(one, np.float64)) for one in (predictions, y))
        return (
            2 * link.half_deviance(means, labels).reshape(len(labels), -1).mean(1).numpy()[:, None]
        )

    return rows


def _squares_and_labels(y: Any, predictions: Floats) -> Floats:
    if np.ndim(predictions) > 1:
        raise ValueError("metric='r2' is for one target; several have output_r2_")
    centred = y - np.mean(y)  # less is lost in the difference of squares below
    return np.stack([(predictions - y) ** 2, centred, centred**2], 1)


def _explained(means: Floats) -> Floats:
    return np.asarray(1 - means[..., 0] / (means[..., 2] - means[..., 1] ** 2))


def _share_among(given: str, label: int) -> Callable[[Any, Codes], Floats]:
    """Whether a row is right, and whether it counts: by its label, or by its decision."""

    def rows(y: Any, decisions: Codes) -> Floats:
        true, decided = np.asarray(y) == label, decisions == label
        if max(np.max(y), decisions.max()) > 1:
            raise ValueError("sensitivity, specificity, ppv and npv are for two classes")
        counted = true if given == "label" else decided
        return np.stack([true & decided, counted], 1).astype(np.float64)

    return rows


def _ratio(means: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(means[..., 0] / means[..., 1])


def _root_interval(value: float, stderr: float) -> tuple[float, float]:
    """That of a root of a mean of losses, which is about as symmetric as its root is."""
    low, high = error_interval(value**2, 2 * value * stderr)
    return math.sqrt(low), math.sqrt(high)


def _itself(mean: float, *_: Floats) -> float:
    return mean


def _root(mean: float, *_: Floats) -> float:
    return math.sqrt(max(0.0, mean))


def _explained_share(mean: float, rows: Floats, weights: Floats) -> float:
    """R² from the mean squared error; the variance of the labels counts as exact."""
    first, second = weights @ rows[:, 1:] / weights.sum()
    variance = float(second - first**2)
    return 1 - mean / variance if variance > 0 else 0.0


def _share(given: str, label: int) -> MeanMetric:
    return MeanMetric(_share_among(given, label), _ratio, Takes.DECISIONS, share_interval, True)


def _loss(
    name: str,
    rows: Callable[[Any, Any], Floats],
    takes: Takes,
    interval: Callable[[float, float], tuple[float, float]] = error_interval,
) -> dict[str, MeanMetric]:
    """The mean loss of a kind of predictions."""
    return {
        name: MeanMetric(rows, _first, takes, interval, takes is Takes.DECISIONS, (name, _itself))
    }


#: The metrics that have names, apart from "auc" and the median.
METRICS = {
    "accuracy": MeanMetric(_correct, _first, Takes.DECISIONS, share_interval, True),
    **_loss("error_rate", _wrong, Takes.DECISIONS, share_interval),
    "sensitivity": _share("label", 1),  # of the rows of class 1, those that are recognised
    "specificity": _share("label", 0),
    "ppv": _share("decision", 1),  # of the rows that are given to class 1, those that belong to it
    "npv": _share("decision", 0),
    "balanced_accuracy": MeanMetric(_recalls, _mean_recall, Takes.DECISIONS, share_interval),
    "weighted_kappa": MeanMetric(_grades, _kappa, Takes.DECISIONS),
    "grade_error": MeanMetric(_steps, _first, Takes.DECISIONS, error_interval),
    "f1": MeanMetric(_overlap, _mean_f1, Takes.DECISIONS, share_interval),
    "brier": MeanMetric(_brier, _first, Takes.PROBABILITIES, error_interval),
    **_loss("log_loss", _log_loss, Takes.PROBABILITIES),
    **_loss("mse", _squares, Takes.NUMBERS),
    **_loss("poisson_deviance", _deviances(POISSON), Takes.NUMBERS),
    **_loss("binomial_deviance", _deviances(PROPORTION), Takes.NUMBERS),
    "rmse": MeanMetric(
        _squares, lambda means: np.sqrt(means[..., 0]), Takes.NUMBERS, _root_interval,
        of_mean=("mse", _root),
    ),
    "mae": MeanMetric(_absolute, _first, Takes.NUMBERS, error_interval),
    "r2": MeanMetric(
        _squares_and_labels, _explained, Takes.NUMBERS, of_mean=("mse", _explained_share)
    ),
}  # fmt: skip
