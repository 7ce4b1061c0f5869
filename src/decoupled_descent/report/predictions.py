"""The report's section on predictions: confusion matrix, or predicted against true values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from decoupled_descent.report.svg import MOST_POINTS, bin_means, scatter
from decoupled_descent.report.text import number, show, table

#: More classes than this are summarised instead of drawn as a matrix.
MOST_CLASSES = 12


def confusion_matrix(
    labels: Sequence[Any], predictions: Sequence[Any], classes: Sequence[str] | None = None
) -> tuple[np.ndarray, list[str]]:
    """Count how often each class was predicted as each.

    Args:
        labels: True classes; what ``str`` makes of each must be in ``classes``.
        predictions: Predicted classes, as many.
        classes: Names in the order wanted; by default those that occur, sorted.

    Returns:
        Counts (K, K), row = true class, column = predicted class, and the K names.

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


def classification(counts: np.ndarray, names: Sequence[str]) -> str:
    """Write the section for classes: the matrix, or what stands out in a large one."""
    if len(names) <= MOST_CLASSES:
        return _matrix(counts, names)
    return _mixups(counts, names) + _weakest(counts, names)


def _matrix(counts: np.ndarray, names: Sequence[str]) -> str:
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    heads = "".join(f'<th scope="col">{_class(name)}</th>' for name in names)
    rows = []
    for k, name in enumerate(names):
        cells = "".join(
            f'<td class="{"hit" if j == k else "miss"}" style="--share:{shares[k, j]:.3f}">'
            f"{counts[k, j]:,}</td>"
            for j in range(len(names))
        )
        recall = _percent(counts[k, k], counts[k].sum(), unit="")
        rows.append(
            f'<tr><th scope="row">{_class(name)}</th>{cells}<td class="rate">{recall}</td></tr>'
        )
    precisions = "".join(
        f'<td class="rate">{_percent(counts[k, k], counts[:, k].sum(), unit="")}</td>'
        for k in range(len(names))
    )
    narrow = len(names) <= 5 and sum(map(len, names)) <= 50
    side = ' class="side"' if narrow else ""
    caption = "Confusion matrix: true classes down, predicted classes across"
    return (
        f'<figure{side}><div class="scroll" role="region" aria-label="{caption}" tabindex="0">'
        f'<table class="confusion"><caption class="hidden">{caption}</caption><thead>'
        f'<tr><td></td><th scope="colgroup" colspan="{len(names)}">predicted</th><td></td></tr>'
        f'<tr><th scope="col">true</th>{heads}<th scope="col" class="rate">recall, %</th></tr>'
        f'</thead><tbody>{"".join(rows)}</tbody><tfoot><tr><th scope="row">precision, %</th>'
        f"{precisions}"
        "<td></td></tr></tfoot></table></div><figcaption>How to read it: each line holds the rows "
        "that truly belong to one class, spread over what the model said. Blue on the "
        "diagonal is right, orange beside it is wrong; the stronger the colour, the larger the "
        "share of the line. Recall: of the rows truly of a class, the share found. Precision: of "
        "the rows given a class, the share that belongs to it.</figcaption></figure>"
    )


def _class(name: str) -> str:
    """A class's name that is cut where it is too long to head a column, whole in its tool tip."""
    return f'<div class="cut" title="{show(name)}">{show(name)}</div>'


def _mixups(counts: np.ndarray, names: Sequence[str], most: int = 15) -> str:
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = [(int(p) // len(names), int(p) % len(names)) for p in order if wrong.flat[p] > 0]
    if not pairs:
        return f"<p>All {counts.sum():,} rows of the {len(names)} classes are predicted right.</p>"
    rows = [
        [show(names[i]), show(names[j]), f"{wrong[i, j]:,}", _percent(wrong[i, j], counts[i].sum())]
        for i, j in pairs
    ]
    header = ["true class", "predicted as", "rows", "share of the class"]
    return (
        table(header, rows, "The most frequent mix-ups", right=(2, 3), visible=True)
        + f'<p class="read">How to read it: with {len(names)} classes a full matrix is too large, '
        f"so these are its {len(rows)} largest wrong entries, which hold "
        f"{_percent(sum(wrong[p] for p in pairs), wrong.sum())} of all "
        f"{wrong.sum():,} wrong predictions.</p>"
    )


def _weakest(counts: np.ndarray, names: Sequence[str], most: int = 10) -> str:
    totals, hits = counts.sum(1), np.diag(counts)
    recall = np.where(totals > 0, hits / np.maximum(totals, 1), np.inf)
    order = [int(k) for k in np.argsort(recall, kind="stable")[:most] if totals[k] > 0]
    rows = [
        [show(names[k]), f"{totals[k]:,}", _percent(hits[k], totals[k]),
         _percent(hits[k], counts[:, k].sum())]
        for k in order
    ]  # fmt: skip
    return (
        table(["class", "rows", "recall", "precision"], rows,
              "The classes found least often", right=(1, 2, 3), visible=True)
        + '<p class="read">How to read it: recall is the share of a class\'s rows that were found, '
        "precision the share of the rows given that class which belong to it.</p>"
    )  # fmt: skip


def _percent(part: Any, whole: Any, unit: str = "\N{NO-BREAK SPACE}%") -> str:
    return f"{100 * part / whole:.1f}{unit}" if whole else "–"


def regression(labels: Sequence[Any], predictions: Sequence[Any]) -> str:
    """Write the section for numbers: predicted against true, and the residuals."""
    true, predicted = np.asarray(labels, dtype=float), np.asarray(predictions, dtype=float)
    finite = np.isfinite(true) & np.isfinite(predicted)
    left_out = int((~finite).sum())
    true, predicted = true[finite], predicted[finite]
    if not len(true):
        return "<p>No row has a finite label and a finite prediction: there is nothing to draw.</p>"
    chosen = np.arange(len(true))
    if len(true) > MOST_POINTS:
        chosen = np.sort(np.random.default_rng(0).choice(len(true), MOST_POINTS, replace=False))
    remark = "" if len(chosen) == len(true) else (
        f" Drawn: {len(chosen):,} of the {len(true):,} rows, picked at random."
    )  # fmt: skip
    remark += f" Left out: {left_out:,} rows whose values are not finite." if left_out else ""
    residual = true - predicted
    trend = bin_means(predicted, residual) if len(true) >= 50 else None
    one = scatter(
        true[chosen], predicted[chosen], ("true value", "predicted value"),
        f"Predicted against true values of {len(chosen)} rows, with the line where they agree",
        "agreement", same=True,
    )  # fmt: skip
    other = scatter(
        predicted[chosen], residual[chosen], ("predicted value", "true − predicted"),
        f"Residuals of {len(chosen)} rows over their predictions, with the line of no error",
        "residuals", trend=trend,
    )  # fmt: skip
    guide = (
        " The orange line is the mean of each tenth of the rows: where it leaves zero, predictions "
        "of that size are systematically too low (above) or too high (below)."
        if trend is not None
        else ""
    )
    return (
        f'<div class="pair"><figure>{one}<figcaption>How to read it: each dot is a row; on the '
        "dashed line the prediction is exact, and the distance from it is the miss. A flatter "
        f"cloud means that extremes are pulled towards the mean.{remark}</figcaption>"
        f"</figure><figure>{other}<figcaption>How to read it: dots should scatter evenly about the "
        f"dashed line, equally wide everywhere.{guide}{remark}</figcaption></figure></div>"
    )


def baseline(task: str, labels: Sequence[Any], predictions: Sequence[Any]) -> str:
    """Say in a sentence what the score is to be compared with; empty when nothing can be said."""
    if not len(labels):
        return ""
    if task == "classification":
        names, counts = np.unique([str(one) for one in labels], return_counts=True)
        most = int(counts.argmax())
        return (
            f"Always answering with the commonest class, {show(names[most])}, would be right in "
            f"{_percent(counts[most], counts.sum())} of the rows."
        )
    miss = np.abs(np.asarray(labels, dtype=float) - np.asarray(predictions, dtype=float))
    miss = miss[np.isfinite(miss)]
    half = (
        f" Half of the rows are missed by less than {number(np.median(miss), 3)}."
        if len(miss)
        else ""
    )
    return f"1 is perfect, 0 no better than always answering with the mean.{half}"
