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

from decoupled_descent.checks import Z95, interval, share_interval
from decoupled_descent.evaluation.auc import area_under_curve
from decoupled_descent.evaluation.heavy_tail import mean_interval
from decoupled_descent.evaluation.median import median
from decoupled_descent.evaluation.metric_objects import as_function
from decoupled_descent.evaluation.metrics import METRICS, MeanMetric
from decoupled_descent.evaluation.output_scale import OutputScale, classes

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Metric = str | Callable[..., Any]

#: A metric that is any function is computed at most this often; of more rows, blocks are left out.
#: The relative error of a standard error from 200 blocks is about 1/√(2·200) = 5 %.
BLOCKS = 200
#: The area under the ROC curve, which is not a function of means over rows.
AUC = "auc"
#: The median of absolute errors, which is not one either; its interval is from order statistics.
MEDIAN = "median_absolute_error"
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
        ends: The 95 % interval where it is not computed from the standard error, as that of a
            squared error, of which a few rows may hold much.
        verdict: For networks "trust", "caution" or "do not trust"; else None, and
            :func:`~decoupled_descent.diagnose` has a verdict.
        reasons: Why it is no other, in sentences.
    """

    value: float
    stderr: float
    metric: str
    units: int
    ends: tuple[float, float] | None = None
    verdict: str | None = None
    reasons: tuple[str, ...] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval; that of a share is within 0 and 1, that of a mean loss above 0."""
        if self.ends is not None:
            return self.ends
        if not (math.isfinite(self.value) and math.isfinite(self.stderr)):
            return math.nan, math.nan
        if self.metric == AUC:
            return share_interval(self.value, self.stderr)
        kind = METRICS.get(self.metric)
        return (interval if kind is None else kind.interval)(self.value, self.stderr)

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
    folds: Tensor | None = None,
) -> Estimate:
    """Compute a metric of outputs and its jackknife standard error.

    Args:
        metric: "accuracy", "error_rate", "sensitivity", "specificity", "ppv", "npv",
            "balanced_accuracy", "f1", "auc", "brier", "log_loss", "mse", "rmse", "mae",
            "median_absolute_error", "r2"; a function of labels and predictions such as those of
            ``sklearn.metrics``; or a metric of torchmetrics. Predictions are probabilities (of
            class 1 where there are two) or values; functions of ``sklearn.metrics`` that need
            classes get classes.
        y: Labels, shape (n,); classes are 0, 1, 2, …
        outputs: Outputs of each row by a model that did not see it, shape (n,) or (n, K).
        scale: What the outputs are: "logits", "log_probabilities", "probabilities" or "values".
        sample_weight: Weights of the rows, shape (n,).
        groups: A number for each row; groups are left out, not rows.
        blocks: How often a metric that is any function may be computed.
        folds: A number for each row: only rows of the same fold are compared with each other by
            "auc", because other rows were predicted by other models.

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
    if metric == AUC:
        if predictions.ndim > 1:
            raise ValueError("metric='auc' is for two classes; for more, give a function")
        parts = None if folds is None else np.asarray(folds.cpu())
        area = area_under_curve(labels, predictions, weights, units, parts)
        stderr = max(jackknife(area.without), area.smallest_stderr)
        return Estimate(area.value, stderr, AUC, len(area.without))
    if metric == MEDIAN:
        return _median(labels, predictions, scale, weights, units)
    row_values, kind = _rows_of(metric, labels, predictions, scale)
    value, without = _of_means(row_values, kind.value, weights, units)
    stderr = jackknife(without)
    if kind.is_share:
        stderr = max(stderr, _share_stderr(float(value), _counted(row_values, weights)))
    ends = None
    if kind.from_squares is not None and np.isfinite(row_values).all():
        ends = kind.from_squares(_squares_interval(row_values[:, 0], weights, units), row_values)
    return Estimate(float(value), stderr, metric, len(without), ends)


def _squares_interval(squares: Floats, weights: Floats, units: Codes) -> tuple[float, float]:
    """The 95 % interval of a mean of squared errors, from those of units."""
    total, sums = (np.bincount(units, values) for values in (weights, weights * squares))
    return mean_interval(sums[total > 0] / total[total > 0].mean())


def _median(
    labels: Any, predictions: Floats, scale: OutputScale, weights: Floats, units: Codes
) -> Estimate:
    """The median absolute error; that of a row is a mean over its outputs."""
    if scale.classifies:
        raise ValueError(f"metric={MEDIAN!r} is for values; the outputs are classes' probabilities")
    errors = METRICS["mae"].rows(labels, predictions)[:, 0]
    value, ends = median(errors, weights, units)
    return Estimate(value, (ends[1] - ends[0]) / (2 * Z95), MEDIAN, int(units.max()) + 1, ends)


def _counted(rows: Floats, weights: Floats) -> float:
    """The number of rows that a share is of; unequal weights count as fewer (Kish)."""
    own = weights * (rows[:, 1] if rows.shape[1] > 1 else 1.0)
    return float(own.sum() ** 2 / max(np.square(own).sum(), 1e-300))


def _share_stderr(share: float, rows: float) -> float:
    """The standard error of a share by Agresti and Coull, which is not 0 if all rows agree."""
    towards = (rows * share + 2) / (rows + 4)
    return math.sqrt(max(0.0, towards * (1 - towards)) / (rows + 4))


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
        names = ", ".join([*METRICS, MEDIAN, AUC])
        raise ValueError(f"metric={metric!r} must be one of {names}, or a function")
    kind = METRICS[metric]
    if kind.classifies and not scale.classifies:
        raise ValueError(f"metric={metric!r} is for classes; the outputs are values")
    if not kind.classifies and scale.classifies:
        raise ValueError(f"metric={metric!r} is for values; the outputs are classes' probabilities")
    return kind.rows(labels, predictions), kind


def _of_function(
    metric: Callable[..., Any],
    labels: Any,
    predictions: Floats,
    scale: OutputScale,
    named: dict[str, Floats],
    units: Codes,
    blocks: int,
) -> Estimate:
    """Any function of labels and predictions, without each unit or each of some blocks."""
    function = metric.func if isinstance(metric, partial) else metric
    name = getattr(function, "__name__", type(function).__name__)
    own = getattr(function, "__module__", "") or ""
    if (foreign := as_function(metric)) is not None:
        name, metric = foreign
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
    result = np.asarray(y.detach().cpu())
    result = result[:, 0] if result.ndim == 2 and result.shape[1] == 1 else result
    whole = scale.classifies and np.array_equal(result, np.round(result))
    return result.astype(np.int64) if whole else result.astype(np.float64)
