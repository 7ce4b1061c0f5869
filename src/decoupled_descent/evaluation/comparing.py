"""How much better one model is than another, on the same rows."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from decoupled_descent.checks import interval
from decoupled_descent.evaluation.estimation import BLOCKS, Metered, by_function, by_name
from decoupled_descent.evaluation.means import jackknife, mean_with_stderr, of_means
from decoupled_descent.evaluation.metrics import METRICS

if TYPE_CHECKING:
    from decoupled_descent.evaluation.estimate import Metric
    from decoupled_descent.evaluation.evaluation import Evaluation


class Comparison(NamedTuple):
    """How much larger a metric is than that of another model, on the same rows."""

    metric: str
    difference: float  # of this model minus the other
    stderr: float
    interval: tuple[float, float]  # 95 %

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        if self.stderr > 0:
            return self.difference / self.stderr
        return math.copysign(math.inf, self.difference) if self.difference else 0.0


def compared(one: Evaluation, other: Evaluation, metric: Metric | None = None) -> Comparison:
    """Compare two evaluations of the same rows, by their loss or by another metric."""
    if len(one.losses) != len(other.losses) or not np.array_equal(one.labels, other.labels):
        raise ValueError(
            f"other has {len(other.losses)} rows and this evaluation {len(one.losses)}, or "
            "their labels differ; evaluate both on the same rows, in the same order"
        )
    wider = max(one.widening, other.widening)
    if metric is not None:
        name, mean, stderr = _difference(one, other, metric)
        return Comparison(name, mean, wider * stderr, interval(mean, wider * stderr))
    if one.loss != other.loss:
        raise ValueError(
            f"other has the loss {other.loss or 'of its own'!r} and this evaluation "
            f"{one.loss or 'of its own'!r}; pass a metric that both have"
        )
    mean, stderr = mean_with_stderr(one.losses - other.losses, one.weights, one.groups)
    return Comparison(one.loss or "loss", mean, wider * stderr, interval(mean, wider * stderr))


def all_pairs(candidates: Any) -> dict[tuple[str, str], Comparison]:
    """Compare each pair of evaluations that have names."""
    pairs = combinations(candidates, 2)
    return {pair: compared(*(candidates[name] for name in pair)) for pair in pairs}


def _difference(one: Evaluation, other: Evaluation, metric: Metric) -> tuple[str, float, float]:
    """The difference of a metric, with a jackknife standard error."""
    if isinstance(metric, str):
        name, found = metric, [by_name(each, metric) for each in (one, other)]
        if found[0].without is None:  # shares: a function that is a mean of rows
            found = [_share_without(each, METRICS[metric]) for each in (one, other)]
    else:
        both = [by_function(each, metric, BLOCKS) for each in (one, other)]
        name, found = both[0][0], [each[1] for each in both]
    first, second = found
    if first.without is None or second.without is None:
        raise ValueError(f"metric={name!r} cannot be compared; give another one")
    return name, first.value - second.value, jackknife(first.without - second.without)


def _share_without(evaluation: Evaluation, kind: Any) -> Metered:
    rows = kind.rows(evaluation.positive_labels, evaluation.positive_decisions)
    value, without = of_means(rows, kind.value, evaluation.row_weights, evaluation.units)
    return Metered(float(value), jackknife(without), len(without), without=without)
