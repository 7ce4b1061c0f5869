"""The report's section on predictions: confusion matrix, or predicted against true values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from decoupled_descent.app.report.data import Missed, ReportData, names_of
from decoupled_descent.app.report.svg import MOST_POINTS, bin_means, scatter
from decoupled_descent.app.report.text import read, scrolling, show, table
from decoupled_descent.checks import percent

#: More classes than this are summarised instead of drawn as a matrix.
MOST_CLASSES = 12
RECALL = (
    "Recall is the share of the rows of a class that were found. Precision is the share of the "
    "rows given a class that belong to it."
)


def predictions(data: ReportData) -> str:
    """Write the section: two figures for numbers, a matrix or its main entries for classes."""
    if not len(data.labels):
        return ""
    if data.task == "regression":
        return _regression(data.labels, data.predictions)
    counts, names = confusion_matrix(data.labels, data.predictions, data.classes)
    never = _never(data.mostly_missed, len(names))
    if len(names) <= MOST_CLASSES:
        return never + _matrix(counts, names)
    return never + _mixups(counts, names) + _weakest(counts, names)


def _never(rare: Sequence[Missed], classes: int) -> str:
    """Say which classes are mostly missed, and what can be done."""
    if not rare:
        return ""
    remedy = (
        "The table of thresholds below shows how "
        "many of its rows are found with a lower threshold for its probability."
        if classes == 2
        else "Their rows are taken for other classes. More rows of them may help, or joining them "
        "with similar classes."
    )
    return f'<p class="stopped">Mostly missed: {show(names_of(rare, 10))}. {remedy}</p>'


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
    names = [str(one) for one in classes] if classes is not None else sorted({*true, *predicted})
    place = {name: index for index, name in enumerate(names)}
    strange = sorted({*true, *predicted} - place.keys())
    if strange:
        raise ValueError(
            f"classes={names[:20]!r} does not hold the label {strange[0]!r}; list every class that "
            "occurs among labels and predictions"
        )
    counts = np.zeros((len(names), len(names)), dtype=int)
    np.add.at(counts, ([place[one] for one in true], [place[one] for one in predicted]), 1)
    return counts, names


def _matrix(counts: np.ndarray, names: Sequence[str]) -> str:
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    # a long name is cut, and its tool tip shows the whole name
    heads = [f'<div class="cut" title="{show(name)}">{show(name)}</div>' for name in names]
    lines = []
    for k, head in enumerate(heads):
        cells = [
            f'<td class="{"hit" if j == k else "miss"}" style="--share:{shares[k, j]:.3f}">'
            f"{counts[k, j]:,}</td>"
            for j in range(len(names))
        ]
        cells.append(_rate(counts[k, k], counts[k].sum()))
        lines.append(f'<tr><th scope="row">{head}</th>{"".join(cells)}</tr>')
    across = "".join(f'<th scope="col">{head}</th>' for head in heads)
    precisions = "".join(_rate(counts[k, k], counts[:, k].sum()) for k in range(len(names)))
    side = ' class="side"' if len(names) <= 5 and sum(map(len, names)) <= 50 else ""
    caption = "Confusion matrix: true classes down, predicted classes across"
    body = (
        f'<table class="confusion"><caption class="hidden">{caption}</caption><thead>'
        f'<tr><td></td><th scope="colgroup" colspan="{len(names)}">predicted</th><td></td></tr>'
        f'<tr><th scope="col">true</th>{across}<th scope="col" class="rate">recall, %</th></tr>'
        f'</thead><tbody>{"".join(lines)}</tbody><tfoot><tr><th scope="row">precision, %</th>'
        f"{precisions}<td></td></tr></tfoot></table>"
    )
    return (
        f"<figure{side}>{scrolling(caption, body)}<figcaption>How to "
        "read it: each line has the rows that truly belong to one class, by predicted class. Blue "
        "on the diagonal is right, orange is wrong. The stronger the colour, the larger the share "
        f"of the line. {RECALL}</figcaption></figure>"
    )


def _rate(part: Any, whole: Any) -> str:
    return f'<td class="rate">{percent(part, whole).removesuffix("%").strip()}</td>'


def _mixups(counts: np.ndarray, names: Sequence[str], most: int = 15) -> str:
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = [(int(p) // len(names), int(p) % len(names)) for p in order if wrong.flat[p] > 0]
    if not pairs:
        return f"<p>All {counts.sum():,} rows of the {len(names)} classes are predicted right.</p>"
    rows = [
        [show(names[i]), show(names[j]), f"{wrong[i, j]:,}", percent(wrong[i, j], counts[i].sum())]
        for i, j in pairs
    ]
    header = ["true class", "predicted as", "rows", "share of the class"]
    return table(
        header, rows, "The most frequent mix-ups", right=(2, 3), visible=True
    ) + read(
        f"How to read it: with {len(names)} classes a full matrix is too large, so these are its "
        f"{len(rows)} largest wrong entries, which hold "
        f"{percent(sum(wrong[p] for p in pairs), wrong.sum())} of all {wrong.sum():,} wrong "
        "predictions."
    )  # fmt: skip


def _weakest(counts: np.ndarray, names: Sequence[str], most: int = 10) -> str:
    totals, given, hits = counts.sum(1), counts.sum(0), np.diag(counts)
    recall = np.where(totals > 0, hits / np.maximum(totals, 1), np.inf)
    rows = [
        [show(names[k]), f"{totals[k]:,}", percent(hits[k], totals[k]), percent(hits[k], given[k])]
        for k in map(int, np.argsort(recall, kind="stable")[:most])
        if totals[k] > 0
    ]
    header, caption = ["class", "rows", "recall", "precision"], "The classes found least often"
    return table(header, rows, caption, right=(1, 2, 3), visible=True) + read(
        f"How to read it: {RECALL[:1].lower()}{RECALL[1:]}"
    )


def _regression(labels: Sequence[Any], predictions: Sequence[Any]) -> str:
    """Draw predicted against true values, and the residuals."""
    true, predicted = np.asarray(labels, dtype=float), np.asarray(predictions, dtype=float)
    finite = np.isfinite(true) & np.isfinite(predicted)
    left_out = int((~finite).sum())
    true, predicted = true[finite], predicted[finite]
    if not len(true):
        return "<p>No row has a finite label and a finite prediction: there is nothing to draw.</p>"
    chosen = np.arange(len(true))
    remark = ""
    if len(true) > MOST_POINTS:
        chosen = np.sort(np.random.default_rng(0).choice(len(true), MOST_POINTS, replace=False))
        remark = f" Drawn: {len(chosen):,} of the {len(true):,} rows, picked at random."
    remark += f" Left out: {left_out:,} rows whose values are not finite." if left_out else ""
    residual = true - predicted
    trend = bin_means(predicted, residual) if len(true) >= 50 else None
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
    guide = "" if trend is None else (
        " The orange line is the mean of each tenth of the rows. Above zero, predictions of that "
        "size are systematically too low; below zero, too high."
    )  # fmt: skip
    return (
        f'<div class="pair"><figure>{agreement}<figcaption>How to read it: each dot is a row. On '
        "the dashed line the prediction is exact; the distance from it is the error. If the cloud "
        "is flatter than the line, extreme values are predicted too close to the mean."
        f"{remark}</figcaption></figure>"
        f"<figure>{residuals}<figcaption>How to read it: dots should scatter evenly about the "
        f"dashed line, equally wide everywhere.{guide}{remark}</figcaption></figure></div>"
    )
