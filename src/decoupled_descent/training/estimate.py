r"""A metric of outputs by models that did not see the rows, with a jackknife standard error.

.. math:: s^2 = \frac{G - 1}{G} \sum_g (\theta_{-g} - \bar\theta)^2 ,

where θ is the metric and θ_{−g} the metric without unit g: a row, a group of rows, or a block of
rows where the metric is any function and there are many rows. Nothing is trained again: the
outputs stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.checks import interval
from decoupled_descent.training.metrics import METRICS, MeanMetric
from decoupled_descent.training.output_scale import OutputScale, classes

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Metric = str | Callable[..., Any]

#: A metric that is any function is computed at most so often; with more rows, blocks are left out.
#: The relative error of a standard error from so many blocks is about 1/√(2·200) = 5 %.
BLOCKS = 200
#: Functions of ``sklearn.metrics`` that take predicted classes. All others take probabilities.
OF_CLASSES = {
    "accuracy_score", "balanced_accuracy_score", "cohen_kappa_score", "f1_score", "fbeta_score",
    "hamming_loss", "jaccard_score", "matthews_corrcoef", "precision_score", "recall_score",
    "zero_one_loss",
}  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """A metric on rows that the model did not see.

    Attributes:
        value: The metric of all rows.
        stderr: Its standard error.
        metric: Its name.
        units: How many rows, groups or blocks were left out in turn.
        verdict: For networks "trust", "caution" or "do not trust"; else None, and
            :func:`~decoupled_descent.diagnose` has a verdict.
        reasons: Why it is no other, in sentences.
    """

    value: float
    stderr: float
    metric: str
    units: int
    verdict: str | None = None
    reasons: tuple[str, ...] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return interval(self.value, self.stderr)

    def __str__(self) -> str:
        verdict = "" if self.verdict is None else f" ({self.verdict})"
        return f"{self.metric} {self.value:.4g} ± {self.stderr:.2g}{verdict}"

    def with_verdict(self, verdict: str, reasons: tuple[str, ...]) -> Estimate:
        """The same estimate with a verdict."""
        return replace(self, verdict=verdict, reasons=reasons)


class Labels(NamedTuple):
    """The labels of the rows whose outputs a run has, for metrics."""

    y: Tensor
    scale: OutputScale
    weights: Tensor | None = None
    groups: Tensor | None = None

    def estimate(self, metric: Metric, outputs: Tensor, blocks: int) -> Estimate:
        """A metric of outputs for these rows; see :func:`estimate`."""
        options: dict[str, Any] = {"sample_weight": self.weights, "groups": self.groups}
        return estimate(metric, self.y, outputs, self.scale, **options, blocks=blocks)


def estimate(
    metric: Metric,
    y: Tensor,
    outputs: Tensor,
    scale: OutputScale | str = OutputScale.LOGITS,
    *,
    sample_weight: Tensor | None = None,
    groups: Tensor | None = None,
    blocks: int = BLOCKS,
) -> Estimate:
    """Compute a metric of outputs and its jackknife standard error.

    Args:
        metric: "accuracy", "error_rate", "balanced_accuracy", "f1", "auc", "brier", "log_loss",
            "mse", "rmse", "mae", "r2", or a function of labels and predictions such as those of
            ``sklearn.metrics``. Predictions are probabilities (of class 1 where there are two) or
            values; functions of ``sklearn.metrics`` that need classes get classes.
        y: Labels, shape (n,); classes are 0, 1, 2, …
        outputs: Outputs of each row by a model that did not see it, shape (n,) or (n, K).
        scale: What the outputs are: "logits", "log_probabilities", "probabilities" or "values".
        sample_weight: Weights of the rows, shape (n,).
        groups: A number for each row; groups are left out, not rows.
        blocks: How often a metric that is any function may be computed.

    Returns:
        The value and its standard error.

    Example:
        >>> import torch
        >>> y, logits = torch.tensor([0, 1, 1, 0]), torch.tensor([-1.0, 2.0, -1.0, -3.0])
        >>> print(estimate("accuracy", y, logits))
        accuracy 0.75 ± 0.25
    """
    scale = OutputScale(scale)
    predictions, labels = scale.predictions(outputs, y), _labels(y, scale)
    n = len(labels)
    if len(predictions) != n or n < 2:
        raise ValueError(f"y has {n} rows and outputs {len(predictions)}; give the same 2 or more")
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight.cpu().double())
    units = np.arange(n) if groups is None else np.unique(groups.cpu(), return_inverse=True)[1]
    if not isinstance(metric, str):
        named = {} if sample_weight is None else {"sample_weight": weights}
        return _of_function(metric, labels, predictions, scale, named, units, blocks)
    if metric == "auc":
        if predictions.ndim > 1:
            raise ValueError("metric='auc' is for two classes; for more, give a function")
        value, without = _auc(labels, predictions, weights, units)
    else:
        row_values, kind = _rows_of(metric, labels, predictions, scale)
        value, without = _of_means(row_values, kind.value, weights, units)
    return Estimate(float(value), jackknife(without), metric, len(without))


def mean_with_stderr(
    values: Tensor, weights: Tensor | None = None, groups: Tensor | None = None
) -> tuple[float, float]:
    """The weighted mean, and its jackknife standard error over rows or groups.

    Example:
        >>> import torch
        >>> mean_with_stderr(torch.tensor([1.0, 2.0, 3.0]))
        (2.0, 0.577...)
    """
    rows = np.asarray(values.detach().cpu().double())[:, None]
    w = np.ones(len(rows)) if weights is None else np.asarray(weights.cpu().double())
    units = (
        np.arange(len(rows)) if groups is None else np.unique(groups.cpu(), return_inverse=True)[1]
    )
    with np.errstate(all="ignore"):  # an error that is not finite is reported as it is
        value, without = _of_means(rows, lambda means: means[..., 0], w, units)
        return float(value), jackknife(without)


def jackknife(without: Floats) -> float:
    """The jackknife standard error from the metric without each unit."""
    units = len(without)
    spread = float(np.square(without - without.mean()).sum())
    return math.sqrt((units - 1) / units * spread) if units > 1 else math.nan


def _of_means(
    rows: Floats, value: Callable[[Floats], Floats], weights: Floats, units: Codes
) -> tuple[Floats, Floats]:
    """A function of means, and the same without each unit."""
    count = int(units.max()) + 1
    sums, total = np.zeros((count, rows.shape[1])), np.zeros(count)
    np.add.at(sums, units, rows * weights[:, None])
    np.add.at(total, units, weights)
    rest = (sums.sum(0) - sums) / (total.sum() - total)[:, None]
    return value(sums.sum(0) / total.sum()), value(rest)


def _rows_of(
    metric: str, labels: Any, predictions: Floats, scale: OutputScale
) -> tuple[Floats, MeanMetric]:
    """The numbers of each row for a metric with a name."""
    if metric not in METRICS:
        names = ", ".join([*METRICS, "auc"])
        raise ValueError(f"metric={metric!r} must be one of {names}, or a function")
    kind = METRICS[metric]
    if kind.classifies and not scale.classifies:
        raise ValueError(f"metric={metric!r} is for classes; the outputs are values")
    if not kind.classifies and scale.classifies:
        raise ValueError(f"metric={metric!r} is for values; the outputs are classes' probabilities")
    return kind.rows(labels, predictions), kind


def _auc(labels: Any, scores: Floats, weights: Floats, units: Codes) -> tuple[Floats, Floats]:
    r"""The area under the ROC curve, and the same without each unit.

    With S the weight of pairs that are in the right order (ties count half), a unit u takes away
    its pairs with all others: :math:`S_{-u} = S - \sum_{i \in u} S_i + S_{uu}`.
    """
    positive = np.asarray(labels) == 1
    if positive.all() or not positive.any():
        raise ValueError("metric='auc' needs rows of both classes")
    above = _below(scores[positive], scores[~positive], weights[~positive])
    below = weights[positive].sum() - _below(scores[~positive], scores[positive], weights[positive])
    pairs = np.empty(len(scores))
    pairs[positive], pairs[~positive] = above * weights[positive], below * weights[~positive]
    count = int(units.max()) + 1
    lost = np.bincount(units, pairs, count)
    ones = np.bincount(units, weights * positive, count)
    zeros = np.bincount(units, weights * ~positive, count)
    for unit in np.flatnonzero((ones > 0) & (zeros > 0)):  # pairs within a group were taken twice
        at = units == unit
        high, low = positive & at, ~positive & at
        lost[unit] -= _below(scores[high], scores[low], weights[low]) @ weights[high]
    total, rest = pairs[positive].sum(), (ones.sum() - ones) * (zeros.sum() - zeros)
    if (rest <= 0).any():
        raise ValueError("metric='auc' needs both classes without any one row or group")
    return total / (ones.sum() * zeros.sum()), (total - lost) / rest


def _below(values: Floats, others: Floats, weights: Floats) -> Floats:
    """For each value, the weight of others below it, equal ones by half."""
    order = np.argsort(others, kind="stable")
    reached = np.concatenate([[0.0], weights[order].cumsum()])
    left = np.searchsorted(others[order], values, "left")
    right = np.searchsorted(others[order], values, "right")
    return np.asarray((reached[left] + reached[right]) / 2)


def _of_function(
    metric: Callable[..., Any],
    labels: Any,
    predictions: Floats,
    scale: OutputScale,
    named: dict[str, Floats],
    units: Codes,
    blocks: int,
) -> Estimate:
    """Any function of labels and predictions, without each of at most so many blocks of units."""
    function = metric.func if isinstance(metric, partial) else metric
    name = getattr(function, "__name__", type(function).__name__)
    own = getattr(function, "__module__", "") or ""
    if own.startswith("sklearn.metrics") and name in OF_CLASSES:
        if not scale.classifies:
            raise ValueError(f"metric={name} is for classes; the outputs are values")
        predictions = np.asarray(classes(predictions))
    count = int(units.max()) + 1
    if count > blocks:
        units = _blocks(labels if scale.classifies else None, units, count, blocks)
        count = blocks
    kept = (units != unit for unit in range(count))
    value = float(metric(labels, predictions, **named))
    without = [
        float(metric(labels[at], predictions[at], **{key: w[at] for key, w in named.items()}))
        for at in kept
    ]
    return Estimate(value, jackknife(np.array(without)), name, count)


def _blocks(labels: Any, units: Codes, count: int, blocks: int) -> Codes:
    """Deal units to blocks, those of one class in turn, so that every block is like the others."""
    order = np.random.default_rng(0).permutation(count)
    if labels is not None and np.ndim(labels) == 1:
        first = np.unique(units, return_index=True)[1]
        order = order[np.argsort(labels[first][order], kind="stable")]
    block = np.empty(count, np.int64)
    block[order] = np.arange(count) % blocks
    return block[units]


def _labels(y: Tensor, scale: OutputScale) -> Any:
    """Labels as an array, classes as integers."""
    found = np.asarray(y.detach().cpu())
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    whole = scale.classifies and np.array_equal(found, np.round(found))
    return found.astype(np.int64) if whole else found.astype(np.float64)
