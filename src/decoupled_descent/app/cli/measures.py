"""Measures that have names in the literature, by leave-one-out predictions, with intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

from decoupled_descent.app.cli.tables import Prepared
from decoupled_descent.app.report.data import Measure, RowPredictions
from decoupled_descent.app.report.headline import MEDIAN
from decoupled_descent.app.report.text import roots


class Named(NamedTuple):
    """A measure: its name here, its name for the estimator, and what it is."""

    name: str
    metric: str
    opposite: str  # the same measure of the other class
    words: str
    is_share: bool = True


#: Measures of one of two classes, whose name is put for {}.
OF_TWO_CLASSES = (
    Named("AUC", "auc", "auc", "how often a row of {} is ranked above another row", False),
    Named("Brier score", "brier", "brier", "mean squared error of the probability of {}", False),
    Named("sensitivity", "sensitivity", "specificity", "of the rows of {}, those predicted as {}"),
    Named("specificity", "specificity", "sensitivity", "of the other rows, those predicted right"),
    Named("positive predictive value", "ppv", "npv", "of the rows predicted as {}, those of {}"),
    Named("negative predictive value", "npv", "ppv", "of the other predictions, the right ones"),
)  # fmt: skip


def of_classes(prepared: Prepared, estimator: Any, rows: RowPredictions) -> list[Measure]:
    """The measures of the class to find, if there are two classes."""
    if rows.classes is None or len(rows.classes) != 2:
        return []
    second = rows.class_to_find == 1
    measures = []
    for one in OF_TWO_CLASSES:
        metric = one.metric if second else one.opposite
        try:
            result = estimator.estimate(metric, prepared.y, groups=prepared.groups)
        except ValueError:  # a class of one row, or of one group, has no area without it
            continue
        words = one.words.replace("{}", f"“{rows.classes[rows.class_to_find]}”")
        measures.append(Measure(one.name, words, result.value, result.interval, one.is_share))
    return measures


def of_numbers(prepared: Prepared, estimator: Any) -> list[Measure]:
    """The typical error in the units of the target, the median error, and R²."""
    half = estimator.estimate("median_absolute_error", prepared.y, groups=prepared.groups)
    error = roots([estimator.estimated_test_error_, *estimator.estimated_test_error_interval_])
    score = estimator.estimated_r2_, estimator.estimated_r2_interval_
    words = "the share of the variance of the target that is explained"
    return [
        Measure("RMSE", "root of the mean squared error", error[0], error[1:]),
        Measure(MEDIAN, "half of the rows are missed by less", half.value, half.interval),
        Measure("R²", words, *score),
    ]
