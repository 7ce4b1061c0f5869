"""The report's section on predictions: confusion matrix, or predicted against true values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn import metrics

from decoupled_descent.app.report.data import ReportData, names_of
from decoupled_descent.app.report.figures import MOST_POINTS, bin_means, scatter
from decoupled_descent.app.report.tables import Column, Table, numbers
from decoupled_descent.checks import percent

#: More classes than this are summarised instead of drawn as a matrix.
MOST_CLASSES = 12
#: The most pairs of classes, and the most classes, that such a summary lists.
MOST_PAIRS, MOST_WEAK = 15, 10
#: The text beside the matrix needs this few classes, and this few letters in their names.
NARROW_CLASSES, NARROW_LETTERS = 5, 50
#: With fewer rows, no trend of the residuals is drawn.
TREND_ROWS = 50


def predictions(data: ReportData) -> dict[str, Any] | None:
    """Two figures for numbers; a matrix or its main entries for classes."""
    rows = data.rows
    if not len(rows.labels):
        return None
    if not data.has_classes and not rows.in_files:
        return None
    if not data.has_classes:
        return _regression(rows.labels, rows.predictions)
    counts, names = confusion_matrix(rows.labels, rows.predictions, rows.classes)
    missed = {"missed": names_of(rows.mostly_missed), "count": len(names)}
    if len(names) <= MOST_CLASSES:
        return missed | {"matrix": _matrix(counts, names)}
    return missed | {"pairs": _confused_pairs(counts, names), "weakest": _weakest(counts, names)}


def confusion_matrix(
    labels: Sequence[Any], predictions: Sequence[Any], classes: Sequence[str] | None = None
) -> tuple[np.ndarray, list[str]]:
    """Count how often each class (row) was predicted as each (column), and name the classes.

    The names are those given, in that order, or those that occur, sorted.

    Example:
        >>> confusion_matrix(["a", "b", "b"], ["a", "b", "a"])
        (array([[1, 0],
               [1, 1]]), ['a', 'b'])
    """
    true, predicted = [str(one) for one in labels], [str(one) for one in predictions]
    occurring = {*true, *predicted}
    names = [str(one) for one in classes] if classes is not None else sorted(occurring)
    unknown = sorted(occurring - set(names))
    if unknown:
        raise ValueError(
            f"classes={names[:20]!r} does not hold the label {unknown[0]!r}; list every class that "
            "occurs among labels and predictions"
        )
    return metrics.confusion_matrix(true, predicted, labels=names), names


def _matrix(counts: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """The cells with their shares of the line, and recall and precision of each class."""
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    lines = [
        {
            "name": name,
            "cells": [
                {"count": f"{counts[k, j]:,}", "share": f"{shares[k, j]:.3f}", "hit": j == k}
                for j in range(len(names))
            ],
            "recall": _rate(counts[k, k], counts[k].sum()),
        }
        for k, name in enumerate(names)
    ]
    precisions = [_rate(counts[k, k], counts[:, k].sum()) for k in range(len(names))]
    narrow = len(names) <= NARROW_CLASSES and sum(map(len, names)) <= NARROW_LETTERS
    return {"names": names, "lines": lines, "precisions": precisions, "narrow": narrow}


def _rate(part: Any, total: Any) -> str:
    return percent(part, total).removesuffix("%").strip()


def _confused_pairs(counts: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """The pairs of classes that are confused most often."""
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_PAIRS]
    pairs = [(int(p) // len(names), int(p) % len(names)) for p in order if wrong.flat[p] > 0]
    rows = [
        [names[i], names[j], f"{wrong[i, j]:,}", percent(wrong[i, j], counts[i].sum())]
        for i, j in pairs
    ]
    columns = [Column("true class"), Column("predicted as"), *numbers("rows", "share of the class")]
    return {
        "table": Table(columns, rows) if rows else None,
        "rows": f"{counts.sum():,}",
        "listed": len(rows),
        "share": percent(sum(wrong[pair] for pair in pairs), wrong.sum()),
        "wrong": f"{wrong.sum():,}",
    }


def _weakest(counts: np.ndarray, names: Sequence[str]) -> Table:
    """The classes with the lowest recall."""
    totals, predicted, hits = counts.sum(1), counts.sum(0), np.diag(counts)
    recall = np.where(totals > 0, hits / np.maximum(totals, 1), np.inf)
    rows = [
        [names[k], f"{totals[k]:,}", percent(hits[k], totals[k]), percent(hits[k], predicted[k])]
        for k in map(int, np.argsort(recall, kind="stable")[:MOST_WEAK])
        if totals[k] > 0
    ]
    return Table([Column("class"), *numbers("rows", "recall", "precision")], rows)


def _regression(labels: Sequence[Any], predictions: Sequence[Any]) -> dict[str, Any]:
    """Predicted against true values, and the residuals."""
    true, predicted = np.asarray(labels, dtype=float), np.asarray(predictions, dtype=float)
    finite = np.isfinite(true) & np.isfinite(predicted)
    not_finite = int((~finite).sum())
    true, predicted = true[finite], predicted[finite]
    if not len(true):
        return {"nothing": True}
    chosen, remark = np.arange(len(true)), ""
    if len(true) > MOST_POINTS:
        chosen = np.sort(np.random.default_rng(0).choice(len(true), MOST_POINTS, replace=False))
        remark = f" Drawn: {len(chosen):,} of the {len(true):,} rows, picked at random."
    remark += f" Left out: {not_finite:,} rows whose values are not finite." if not_finite else ""
    residual = true - predicted
    trend = bin_means(predicted, residual) if len(true) >= TREND_ROWS else None
    agreement = scatter(
        true[chosen], predicted[chosen], ("true value", "predicted value"),
        f"Predicted against true values of {len(chosen)} rows, with the line where they agree",
        "agreement", same=True,
    )  # fmt: skip
    residuals = scatter(
        predicted[chosen], residual[chosen], ("predicted value", "true − predicted"),
        f"Residuals of {len(chosen)} rows over their predictions, with the line of no error",
        "residuals", trend=trend,
    )  # fmt: skip
    return {
        "agreement": agreement,
        "residuals": residuals,
        "has_trend": trend is not None,
        "remark": remark,
    }
