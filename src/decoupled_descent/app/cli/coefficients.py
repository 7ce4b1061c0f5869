"""Coefficients of the linear members of a mixture, and columns that sparse members select."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.app.cli.baselines import is_log
from decoupled_descent.app.cli.tables import Prepared
from decoupled_descent.app.report.data import LinearPart
from decoupled_descent.tables.features.scaling import ColumnScales

#: The most features that are listed.
MOST = 20
#: The unit of coefficients with many classes.
MANY = "log-odds of the class that a feature changes most"


def coefficients(prepared: Prepared, estimator: Any) -> LinearPart | None:
    """The average of the linear members by their shares, and the columns of a sparse member.

    None without any. With many classes there is no average, and a column has the largest of its
    coefficients.
    """
    mixture = estimator.model_.mixture
    if not mixture.members:
        return None
    single = len(mixture.members[0].theta) == 1
    linear = [one for one in mixture.members if single and _of_columns(one.features)]
    names, share = prepared.columns.names, sum(one.share for one in linear)
    factor = 1.0 if prepared.task == "classification" else float(estimator.target_scale_)
    effects: list[tuple[str, float, float]] = []
    if linear:
        per_unit, per_deviation = averaged(linear, len(names))
        order = np.argsort(-np.abs(per_deviation), kind="stable")[:MOST]
        effects = [
            (names[k], factor * float(per_unit[k]), factor * float(per_deviation[k]))
            for k in order
            if per_deviation[k]
        ]
    selected = [
        (names[one.column], factor * max(one.coefficients, key=abs), one.stays_selected)
        for one in mixture.selected_columns()[:MOST]
    ]
    if not effects and not selected:
        return None
    unit = _unit(prepared, estimator) if single else MANY
    return LinearPart(float(share), unit, effects, selected)


def averaged(linear: list[Any], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients per unit and per standard deviation of each column, of members of one output."""
    total = sum(one.share for one in linear)
    per_unit, per_deviation = np.zeros(count), np.zeros(count)
    for one in linear:
        columns = one.features.columns_
        scaled = (one.features.map_.projection @ one.theta[0]).numpy() * (one.share / total)
        keep = columns.keep.numpy().astype(int)
        per_deviation[keep] += scaled
        per_unit[keep] += scaled / columns.scale.numpy()
    return per_unit, per_deviation


def _of_columns(features: Any) -> bool:
    """Whether features are the scaled columns themselves, without columns for levels."""
    return bool(features.is_linear) and isinstance(features.columns_, ColumnScales)


def _unit(prepared: Prepared, estimator: Any) -> str:
    """What coefficients are measured in."""
    if prepared.task == "classification":
        return f"log-odds of “{estimator.classes_[1]}”"
    return "logarithm of the target" if is_log(estimator) else "units of the target"
