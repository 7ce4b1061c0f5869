"""Coefficients of the linear members of a mixture, and columns that sparse members select."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.features.scaling import ColumnScales

#: The most features that are listed.
MOST = 20
#: The unit of coefficients with many classes.
MANY = "log-odds of the class that a feature changes most"


class LinearPart(NamedTuple):
    """The linear models of a mixture, averaged."""

    share: float  # of the mixture
    unit: str  # of the coefficients
    #: Name of a feature, its coefficient, and the effect of one standard deviation.
    effects: Sequence[tuple[str, float, float]]
    #: Name, coefficient, and how often it stays selected without a part of the rows.
    selected: Sequence[tuple[str, float, float]] = ()


def coefficients(model: Any, columns: Columns | None = None) -> LinearPart | None:
    """The average of the linear members by their shares, and the columns of a sparse member.

    None without any. With many classes there is no average, and a column has the largest of its
    coefficients.

    Args:
        model: A fitted :class:`DecoupledClassifier` or :class:`DecoupledRegressor`.
        columns: Rules that made a matrix X of a table before ``fit``, if that was done.
    """
    mixture, rules = model.mixture_, columns or model.columns_
    names = model._matrix_names if rules is None else rules.names
    names = names or [f"column {k}" for k in range(model._width)]
    single = len(mixture.members[0].theta) == 1
    linear = [one for one in mixture.members if single and _of_columns(one.features)]
    share = sum(one.share for one in linear)
    factor, unit = model._unit_of_outputs
    effects: list[tuple[str, float, float]] = []
    if share > 0:
        per_unit, per_deviation = averaged(linear, len(names))
        order = np.argsort(-np.abs(per_deviation), kind="stable")[:MOST]
        effects = [
            (str(names[k]), factor * float(per_unit[k]), factor * float(per_deviation[k]))
            for k in order
            if per_deviation[k]
        ]
    selected = [
        (str(names[one.column]), factor * max(one.coefficients, key=abs), one.stays_selected)
        for one in mixture.selected_columns()[:MOST]
    ]
    if not effects and not selected:
        return None
    return LinearPart(float(share), unit if single else MANY, effects, selected)


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
