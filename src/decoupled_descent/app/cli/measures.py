"""Measures that have names in the literature, by leave-one-out predictions, with intervals."""

from __future__ import annotations

import math
from typing import NamedTuple

from decoupled_descent.app.report.data import Measure
from decoupled_descent.app.report.headline import MEDIAN
from decoupled_descent.evaluation.evaluation import Evaluation


class Named(NamedTuple):
    """A measure: its name here, its name for the estimator, and what it is."""

    name: str
    metric: str
    words: str
    is_share: bool = True


#: Measures of one of two classes, whose name is put for {}.
OF_TWO_CLASSES = (
    Named("AUC", "auc", "how often a row of {} is ranked above another row", False),
    Named("Brier score", "brier", "mean squared error of the probability of {}", False),
    Named("sensitivity", "sensitivity", "of the rows of {}, those predicted as {}"),
    Named("specificity", "specificity", "of the other rows, those predicted right"),
    Named("positive predictive value", "ppv", "of the rows predicted as {}, those of {}"),
    Named("negative predictive value", "npv", "of the other predictions, the right ones"),
)  # fmt: skip
#: Measures of grades in order.
OF_GRADES = (
    Named(
        "weighted kappa", "weighted_kappa", "agreement beyond chance; a miss counts squared", False
    ),
    Named("mean absolute error", "grade_error", "by how many grades rows are missed", False),
)


def of_classes(evaluation: Evaluation) -> list[Measure]:
    """The measures of the class to find, if there are two classes, or of grades."""
    classes = evaluation.classes
    listed = OF_GRADES if evaluation.rule.ordered else OF_TWO_CLASSES
    if classes is None or (len(classes) != 2 and listed is OF_TWO_CLASSES):
        return []
    name, measures = str(classes[evaluation.rule.positive]), []
    for one in listed:
        try:
            result = evaluation.estimate(one.metric)
        except ValueError:  # a class of one row, or of one group, has no area without it
            continue
        if math.isfinite(result.value):
            words = one.words.replace("{}", f"“{name}”")
            measures.append(Measure(one.name, words, result.value, result.interval, one.is_share))
    return measures


def of_numbers(evaluation: Evaluation) -> list[Measure]:
    """The typical error in the units of the target, the median error, and R²."""
    found = {name: evaluation.estimate(name) for name in ("rmse", "median_absolute_error", "r2")}
    words = (
        ("RMSE", "root of the mean squared error"),
        (MEDIAN, "half of the rows are missed by less"),
        ("R²", "the share of the variance of the target that is explained"),
    )
    return [
        Measure(*named, one.value, one.interval)
        for named, one in zip(words, found.values(), strict=True)
    ]
