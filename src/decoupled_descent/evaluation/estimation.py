r"""Any metric of predictions of rows as if they were new, with its standard error.

Nothing is trained again: predictions stay as they are, and units (rows, groups, or blocks of rows
where the metric is any function) are left out in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.checks import Z95, error_interval, interval, share_interval
from decoupled_descent.evaluation.auc import area_under_curve
from decoupled_descent.evaluation.means import jackknife, of_means, share_with_stderr
from decoupled_descent.evaluation.median import median
from decoupled_descent.evaluation.metric_objects import as_function
from decoupled_descent.evaluation.metrics import METRICS, MeanMetric, Takes

if TYPE_CHECKING:
    from decoupled_descent.evaluation.estimate import Metric
    from decoupled_descent.evaluation.evaluation import Evaluation

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

#: A metric that is any function is computed at most this often; of more rows, blocks are left out.
#: The relative error of a standard error from 200 blocks is about 1/√(2·200) = 5 %.
BLOCKS = 200
#: The area under the ROC curve, which is not a function of means over rows.
AUC = "auc"
#: With fewer rows, or groups, of a class, the area is a caution. On tables of 100 rows without a
#: signal, 8 of them of one class, areas of three models are too low by 0.02 to 0.04 ± 0.02 (40
#: draws), and by more than two standard errors in a tenth of the cases.
FEWEST_OF_A_CLASS = 10
#: The median of absolute errors, which is not one either; its interval is from order statistics.
MEDIAN = "median_absolute_error"
#: Functions of ``sklearn.metrics`` that take decisions. All others take probabilities.
OF_CLASSES = {
    "accuracy_score", "balanced_accuracy_score", "cohen_kappa_score", "f1_score", "fbeta_score",
    "hamming_loss", "jaccard_score", "matthews_corrcoef", "precision_score", "recall_score",
    "zero_one_loss",
}  # fmt: skip


class Metered(NamedTuple):
    """A metric, its standard error for given predictions, and its interval if that has its own."""

    value: float
    stderr: float
    units: int
    ends: tuple[float, float] | None = None
    interval: Callable[[float, float], tuple[float, float]] = interval
    without: Floats | None = None  # the metric without each unit, if that was computed
    doubt: str = ""  # why the metric is to be taken with caution, whatever the verdict is


def metered(evaluation: Evaluation, metric: Metric, blocks: int) -> tuple[str, Metered]:
    """The name of a metric, and its value with a standard error."""
    if not (isinstance(metric, str) or callable(metric)):
        raise ValueError(f"metric={metric!r} must be the name of a metric, or a function")
    if isinstance(metric, str) and (found := _of_losses(evaluation, metric)) is not None:
        return metric, found
    if evaluation.periods is not None:
        return _of_next_period(evaluation, metric, blocks)
    if isinstance(metric, str):
        name, found = metric, by_name(evaluation, metric)
    else:
        name, found = by_function(evaluation, metric, blocks)
    if evaluation.right is not None and name in ("accuracy", "error_rate"):
        correct = evaluation.decisions == evaluation.labels
        value, stderr = share_with_stderr(
            correct, evaluation.weights, evaluation.groups, evaluation.right
        )
        value = value if name == "accuracy" else 1 - value
        found = found._replace(value=value, stderr=stderr)
    return name, found._replace(stderr=evaluation.widening * found.stderr)


def _of_next_period(evaluation: Evaluation, metric: Metric, blocks: int) -> tuple[str, Metered]:
    """A metric of the next period, from those of the periods in which it is defined."""
    known, problem = [], None
    for one in evaluation.by_period:
        try:
            known.append(metered(one, metric, blocks))
        except ValueError as error:  # a period may have one class only
            problem = error
    if not known:
        raise problem or ValueError("there are no periods")
    value, stderr, _ = evaluation.next_of([(found.value, found.stderr) for _, found in known])
    name, first = known[0]
    if first.interval is share_interval:
        value = min(max(value, 0.0), 1.0)
    return name, Metered(value, stderr, len(evaluation.losses), None, first.interval)


def _of_losses(evaluation: Evaluation, metric: str) -> Metered | None:
    """A metric that is a function of the mean of our losses; else None."""
    kind = METRICS.get(metric)
    if kind is None or kind.of_mean is None or not evaluation.is_finite:
        return None
    loss, of_mean = kind.of_mean
    if loss != evaluation.loss or np.ndim(evaluation.labels) > 1:
        return None
    said = evaluation.kind.given(kind.takes, evaluation.predictions, evaluation.decisions)
    rows = kind.rows(evaluation.labels, said)
    given = rows, evaluation.row_weights
    step = 1e-6 * abs(evaluation.error) + 1e-300
    rise = of_mean(evaluation.error + step, *given) - of_mean(evaluation.error - step, *given)
    low, high = sorted(of_mean(end, *given) for end in evaluation.interval)
    stderr = abs(rise) / (2 * step) * evaluation.stderr
    return Metered(of_mean(evaluation.error, *given), stderr, len(evaluation.values), (low, high))


def by_name(evaluation: Evaluation, metric: str) -> Metered:
    """A metric that has a name."""
    if metric == AUC:
        return _area(evaluation)
    if metric == MEDIAN:
        return _median(evaluation)
    if metric not in METRICS:
        names = ", ".join([*METRICS, MEDIAN, AUC])
        raise ValueError(f"metric={metric!r} must be one of {names}, or a function")
    kind = METRICS[metric]
    rows = kind.rows(_labels(evaluation, kind), _given(evaluation, kind.takes, metric))
    if kind.is_share:
        return _share(evaluation, kind, rows)
    weights, units = evaluation.row_weights, evaluation.units
    value, without = of_means(rows, kind.value, weights, units)
    return Metered(float(value), jackknife(without), len(without), None, kind.interval, without)


def _labels(evaluation: Evaluation, metric: MeanMetric) -> Any:
    return evaluation.labels if metric.takes is Takes.NUMBERS else evaluation.positive_labels


def _given(evaluation: Evaluation, takes: Takes, metric: str) -> Any:
    """What the metric compares with labels, with the class to find as class 1."""
    found = evaluation.kind.given(
        takes, evaluation.positive_predictions, evaluation.positive_decisions
    )
    if found is None:
        has = "numbers" if not evaluation.kind.has_classes else "classes"
        raise ValueError(f"metric={metric!r} needs {takes.value}; these predictions are {has}")
    return found


def _share(evaluation: Evaluation, metric: MeanMetric, rows: Floats) -> Metered:
    """A share of the rows whose second number is 1, or of all."""
    counted = rows[:, 1] > 0 if rows.shape[1] > 1 else np.ones(len(rows), bool)
    weights = None if evaluation.weights is None else evaluation.weights[counted]
    if not counted.any() or (weights is not None and not weights.sum() > 0):
        return Metered(math.nan, math.nan, 0, (math.nan, math.nan))
    groups = None
    if evaluation.groups is not None:
        groups = np.unique(evaluation.groups[counted], return_inverse=True)[1].reshape(-1)
    value, stderr = share_with_stderr(rows[counted, 0], weights, groups)
    units = int(counted.sum()) if groups is None else int(groups.max()) + 1
    return Metered(value, stderr, units, None, metric.interval)


def _area(evaluation: Evaluation) -> Metered:
    """The area under the ROC curve."""
    if not evaluation.kind.has_classes or np.ndim(evaluation.predictions) != 2:
        raise ValueError("metric='auc' needs probabilities of two classes")
    scores = evaluation.positive_predictions
    if scores.shape[1] != 2:
        raise ValueError("metric='auc' is for two classes; for more, give a function")
    area = area_under_curve(
        evaluation.positive_labels, scores[:, 1], evaluation.row_weights, evaluation.units,
        evaluation.models,
    )  # fmt: skip
    stderr = max(jackknife(area.without), area.smallest_stderr)
    ones = np.asarray(evaluation.positive_labels) == 1
    least = min(len(np.unique(evaluation.units[kind])) for kind in (ones, ~ones))
    few = (
        f"One class has {least} {'row' if evaluation.groups is None else 'group'}"
        f"{'s' * (least > 1)}, too few for an area under the curve: it is often too low. To do: "
        f"get at least {FEWEST_OF_A_CLASS}."
    )
    doubt = few if least < FEWEST_OF_A_CLASS else ""
    return Metered(area.value, stderr, len(area.without), None, share_interval, area.without, doubt)


def _median(evaluation: Evaluation) -> Metered:
    """The median absolute error; that of a row is a mean over its outputs."""
    errors = METRICS["mae"].rows(evaluation.labels, _given(evaluation, Takes.NUMBERS, MEDIAN))
    units = evaluation.units
    value, ends = median(errors[:, 0], evaluation.row_weights, units)
    stderr = (ends[1] - ends[0]) / (2 * Z95)
    return Metered(value, stderr, int(units.max()) + 1, ends, error_interval)


def by_function(
    evaluation: Evaluation, metric: Callable[..., Any], blocks: int
) -> tuple[str, Metered]:
    """Any function of labels and predictions, without each unit or each of some blocks."""
    function = metric.func if isinstance(metric, partial) else metric
    name = getattr(function, "__name__", type(function).__name__)
    own = getattr(function, "__module__", "") or ""
    labels, predictions = evaluation.labels, evaluation.predictions
    if (foreign := as_function(metric)) is not None:
        name, metric = foreign
    elif own.startswith("sklearn.metrics") and name in OF_CLASSES:
        predictions = evaluation.decisions
        if predictions is None:
            raise ValueError(f"metric={name} is for classes; the predictions are numbers")
    elif evaluation.kind.has_classes and np.ndim(predictions) == 2 and np.ndim(labels) == 1:
        predictions = predictions[:, 1] if predictions.shape[1] == 2 else predictions
    named = {} if evaluation.weights is None else {"sample_weight": evaluation.weights}
    units, count = evaluation.units, int(evaluation.units.max()) + 1
    if count > blocks:
        units = _blocks(labels if evaluation.kind.has_classes else None, units, count, blocks)
        count = blocks
    value = float(metric(labels, predictions, **named))
    without = np.array([
        float(metric(labels[at], predictions[at], **{key: w[at] for key, w in named.items()}))
        for at in (units != unit for unit in range(count))
    ])  # fmt: skip
    return name, Metered(value, jackknife(without), count, without=without)


def _blocks(labels: Any, units: Codes, count: int, blocks: int) -> Codes:
    """Deal units to blocks, those of one class in turn, so that every block is like the others."""
    order = np.random.default_rng(0).permutation(count)
    if labels is not None and np.ndim(labels) == 1:
        first = np.unique(units, return_index=True)[1]
        order = order[np.argsort(labels[first][order], kind="stable")]
    block = np.empty(count, np.int64)
    block[order] = np.arange(count) % blocks
    return block[units]
