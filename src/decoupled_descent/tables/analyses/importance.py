"""How much the error rises when the values of one column are shuffled among the rows.

Every row is predicted by the model that was fitted without it (or without its group), once with its
own values and once with shuffled ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from decoupled_descent.tables.analyses.left_out_models import LeftOutModels
from decoupled_descent.tables.analyses.table import AnalysedTable
from decoupled_descent.tables.columns.rules import Columns

Floats = NDArray[np.float64]

#: The most rows that are predicted with shuffled values, and the most columns that are shuffled.
MOST_ROWS, MOST_COLUMNS = 300, 60
#: Of more columns, those are shuffled that change the predictions of this many rows the most …
SCREENED_ROWS = 20
#: … unless there are more than this, because the time grows with the square of the columns.
MOST_SCREENED = 1000


class Importance(NamedTuple):
    """How much the error rises without the information of a column."""

    column: str
    rise: float  # relative to the error
    stderr: float
    #: The rank correlation of the column with predictions, of the class to find if there are two;
    #: 0 for columns and targets without an order.
    direction: float = 0.0


def importance(model: Any, X: Any, columns: Columns | None = None) -> list[Importance]:
    """Which columns matter for the predictions of a fitted estimator, the largest rise first.

    All features that were made from one column are shuffled together. The rows are the same for
    every column, so that the rises can be compared. Of wide tables only the columns that change
    predictions the most are shuffled. The list is empty for a single column.

    Args:
        model: A fitted :class:`DecoupledClassifier` or :class:`DecoupledRegressor`.
        X: The rows of ``fit``.
        columns: Rules that made a matrix X of a table before ``fit``, if that was done.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> import decoupled_descent as dd
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(X, y)
        >>> sorted(one.column for one in importance(model, X)[:2])
        ['bmi', 's5']
    """
    table = AnalysedTable.of(model, X, columns)
    if len(table.spans) < 2:
        return []
    if len(table.spans) > MOST_SCREENED:
        raise ValueError(
            f"X has {len(table.spans):,} columns; importances are computed for at most "
            f"{MOST_SCREENED:,}"
        )
    rng = np.random.default_rng(0)
    n = len(table.X)
    chosen = np.sort(rng.permutation(n)[:MOST_ROWS])
    left_out = LeftOutModels(table, chosen)
    own, order, rises = table.X[chosen], rng.permutation(len(chosen)), []
    said = left_out.predict(own)
    before = table.losses(said, chosen)
    error = max(table.mean(before, chosen).value, 1e-300)
    for k in most_used(table, own, order):
        shuffled = own.copy()
        shuffled[:, table.spans[k]] = own[order, table.spans[k]]
        after = table.losses(left_out.predict(shuffled), chosen)
        rise, stderr = table.mean(after - before, chosen)
        scores = _direction(own[:, table.spans[k]], said, table)
        rises.append(Importance(table.names[k], rise / error, stderr / error, scores))
    return sorted(rises, key=lambda one: -one.rise)


def _direction(values: Floats, predictions: Floats, table: AnalysedTable) -> float:
    """The rank correlation of a column of numbers with predictions of one number or class."""
    if predictions.ndim == 2 and predictions.shape[1] == 2:
        predictions = predictions[:, table.evaluation.rule.positive]
    if values.shape[1] != 1 or predictions.ndim != 1:
        return 0.0
    if np.ptp(values) == 0 or np.ptp(predictions) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(values[:, 0]), rankdata(predictions))[0, 1])


def most_used(table: AnalysedTable, X: Floats, order: NDArray[np.intp]) -> list[int]:
    """The numbers of the columns that change the model's predictions the most, if shuffled."""
    if len(table.spans) <= MOST_COLUMNS:
        return list(range(len(table.spans)))
    some, model = X[:SCREENED_ROWS], table.model.model_
    before = model.predict(some)
    changes = []
    for span in table.spans:
        shuffled = some.copy()
        shuffled[:, span] = X[order[: len(some)], span]
        changes.append(float(np.abs(model.predict(shuffled) - before).mean()))
    largest = np.argsort(-np.array(changes), kind="stable")[:MOST_COLUMNS]
    return sorted(largest.tolist())
