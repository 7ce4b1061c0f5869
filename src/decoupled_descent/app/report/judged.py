"""The report's sections on single rows, from their out-of-sample predictions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.svg import chart
from decoupled_descent.app.report.text import number, read, show, table
from decoupled_descent.checks import percent

Floats = NDArray[np.float64]

#: The most rows listed as probably wrong, and the most columns listed by importance.
MOST_WRONG, MOST_COLUMNS = 10, 20
#: If an error rises by more than this factor, the rise is written as “times”, not in percent.
LARGE = 10
#: Of two classes the second (yes, true, 1) is the one to find, unless its share is above this.
COMMON = 0.6
#: Levels of the prediction intervals that are listed.
LEVELS = (0.5, 0.8, 0.9, 0.95)


class Curves(NamedTuple):
    """The number of rows flagged and found for every possible threshold, largest first."""

    thresholds: Floats
    flagged: Floats  # rows with at least that probability
    found: Floats  # rows of the sought class among them


def curves(chances: Any, positive: Any) -> Curves:
    """Count rows flagged and found for each threshold.

    Example:
        >>> curves([0.9, 0.2, 0.6, 0.6], [True, False, True, False])
        Curves(thresholds=array([0.9, 0.6, 0.2]), flagged=array([1., 3., 4.]),
               found=array([1., 2., 2.]))
    """
    chances, positive = np.asarray(chances, dtype=float), np.asarray(positive, dtype=float)
    order = np.argsort(-chances, kind="stable")
    last = np.flatnonzero(np.append(np.diff(chances[order]) != 0, True))
    found = np.cumsum(positive[order])[last]
    return Curves(chances[order][last], (last + 1).astype(np.float64), found)


def area(found: Curves, rows: int) -> float:
    """Area under the ROC curve: the chance that a row of the class gets the higher probability."""
    hits = np.append(0, found.found) / found.found[-1]
    alarms = np.append(0, found.flagged - found.found) / (rows - found.found[-1])
    return float(np.trapezoid(hits, alarms))


def thresholds(data: ReportData) -> str:
    """Draw ROC and precision-recall curves of one of two classes, with a table."""
    if data.classes is None or len(data.classes) != 2 or data.chances is None:
        return ""
    hits = np.array([str(one) == str(data.classes[1]) for one in data.labels])
    sought = 0 if hits.mean() > COMMON else 1
    hits = hits if sought else ~hits
    if not 0 < hits.sum() < len(hits):
        return ""
    found = curves(np.asarray(data.chances, dtype=float)[:, sought], hits)
    name = str(data.classes[sought])
    return (
        f'<div class="pair">{_roc(found, hits, name)}{_precision(found, hits, name)}</div>'
        + _threshold_table(found, hits, name)
        + read(
            "How to read it: predictions use the threshold 0.5. If missing a case costs more than "
            "a false alarm, use a lower threshold."
        )
    )


def _roc(found: Curves, hits: NDArray[np.bool_], name: str) -> str:
    """The ROC curve, with the area under it in words."""
    recall = np.append(0.0, found.found / hits.sum())
    alarms = np.append(0.0, (found.flagged - found.found) / (~hits).sum())
    axes = ("share of the others flagged", f"share of “{name}” found")
    svg = chart(alarms, recall, axes, "ROC curve", "roc", ends=((0, 0), (1, 1)))
    return (
        f"<figure>{svg}<figcaption>How to read it: the further the line is above the dashed one, "
        f"the better the two classes are separated. A row of “{show(name)}” gets a higher "
        f"probability than another row in {percent(area(found, len(hits)))} of all pairs (the area "
        "under the line); guessing gives 50 %.</figcaption></figure>"
    )


def _precision(found: Curves, hits: NDArray[np.bool_], name: str) -> str:
    """The precision-recall curve."""
    share = float(hits.mean())
    axes = (f"share of “{name}” found", "right among those flagged")
    svg = chart(
        found.found / hits.sum(), found.found / found.flagged, axes, "Precision and recall",
        "precise", ends=((0, share), (1, share)),
    )  # fmt: skip
    return (
        f"<figure>{svg}<figcaption>How to read it: further to the right, more rows of "
        f"“{show(name)}” are found, and more false alarms are raised. The dashed line is flagging "
        "at random.</figcaption></figure>"
    )


def _threshold_table(found: Curves, hits: NDArray[np.bool_], name: str) -> str:
    """What some thresholds flag and find."""
    rows, known = [], set()
    for limit in _limits(found, hits):
        place = int(np.searchsorted(-found.thresholds, -limit, "right")) - 1
        flagged, right = (int(one[place]) if place >= 0 else 0 for one in (found[1], found[2]))
        if flagged not in known:
            share = f"{right:,} of {int(hits.sum()):,} ({percent(right, hits.sum())})"
            rows.append([f"{limit:.3g}", f"{flagged:,}", share, percent(right, flagged)])
        known.add(flagged)
    header = ["threshold", "rows flagged", f"“{show(name)}” found", "right among flagged"]
    return table(header, rows, "What other thresholds would do", "stack", (0, 1, 2, 3), True)


def _limits(found: Curves, hits: NDArray[np.bool_]) -> list[float]:
    """Thresholds to list, largest first.

    These are 0.5, those that flag about ½, 1, 2 and 5 times the true share, and those that find
    90 and 99 % of the rows of the class.
    """
    share, n = float(hits.mean()), len(hits)
    wanted = [share * factor for factor in (0.5, 1, 2, 5) if share * factor < 0.9]
    places = [int(np.searchsorted(found.flagged, max(1.0, part * n))) for part in wanted]
    places += [int(np.searchsorted(found.found, part * hits.sum())) for part in (0.9, 0.99)]
    limits = {float(found.thresholds[min(k, len(found.thresholds) - 1)]) for k in places}
    apart = {limit for limit in limits if abs(limit - 0.5) > 0.02}
    return sorted(apart | {0.5}, reverse=True)


def calibration(data: ReportData) -> str:
    """Draw observed frequencies against predicted probabilities."""
    content, classes = data.calibration, data.classes
    if not content or len(content["stated"]) < 2 or classes is None:
        return ""
    what = f"“{show(classes[1])}”" if len(classes) == 2 else "the predicted class"
    top = min(1.0, 1.1 * max(*content["stated"], *content["seen"], 1e-6))
    svg = chart(
        content["stated"], content["seen"], ("predicted probability", "observed frequency"),
        "Predicted probabilities and observed frequencies", "calibration",
        ends=((0, 0), (top, top)), dots=True, top=top,
    )  # fmt: skip
    example = percent(
        0.3 if top > 0.3 else float(f"{top / 2:.0e}"), decimals=0 if top > 0.02 else 1
    )
    sound = content["error"] <= content["chance"] + 2 * content["stderr"]
    verdict = (
        "The probabilities are well calibrated."
        if sound
        else "The probabilities are not well calibrated: use them only to rank rows."
    )
    return (
        f'<figure class="side square">{svg}<figcaption>How to read it: each dot has about the '
        f"same number of rows. On the dashed line, of the rows with a probability of {example} for "
        f"{what}, {example} belong to it. On average the two differ by "
        f"{percent(content['error'])}; with perfect probabilities this would be "
        f"{percent(content['chance'])}, by chance. {verdict}</figcaption></figure>"
    )


def wrong_rows(data: ReportData) -> str:
    """List the rows with the largest errors: their labels may be wrong."""
    names, labels, predicted = data.row_names, data.labels, data.predictions
    if not len(names):
        return ""
    if data.task == "regression":
        true, said = np.asarray(labels, dtype=float), np.asarray(predicted, dtype=float)
        order = np.argsort(-np.abs(true - said), kind="stable")[:MOST_WRONG]
        header = ["row", "true value", "predicted", "error"]
        rows = [
            [show(names[k]), number(true[k]), number(said[k]), number(true[k] - said[k])]
            for k in map(int, order)
        ]
    elif data.chances is None or data.classes is None:
        return ""
    else:
        place = {str(name): k for k, name in enumerate(data.classes)}
        own = np.asarray(data.chances, dtype=float)
        own = own[np.arange(len(labels)), [place[str(one)] for one in labels]]
        order = np.argsort(own, kind="stable")[:MOST_WRONG]
        header = ["row", "label", "predicted", "probability of the label"]
        rows = [
            [show(names[k]), show(labels[k]), show(predicted[k]), percent(own[k])]
            for k in map(int, order)
            if str(labels[k]) != str(predicted[k])
        ]
    if not rows:
        return ""
    right = (1, 2, 3) if data.task == "regression" else (3,)
    return table(header, rows, "Rows with the largest errors", "", right) + read(
        "How to read it: each row was predicted by a model that was fitted without it. Check these "
        "rows: some of their labels may be wrong."
        + " Rows of a class that is mostly missed are here although their labels may be right."
        * bool(data.mostly_missed)
    )


def _rise(share: float) -> str:
    """The rise of an error in words: in percent, or how many times it is as large."""
    if share >= LARGE:
        return f"to {number(share + 1, 3)} times"
    return f"by {percent(share)}" if share > 0 else "not at all"


def importance(data: ReportData) -> str:
    """List columns by how much the error rises when one of them is shuffled."""
    found, name = data.importance, data.loss_name
    if not found:
        return ""
    if data.task == "regression":  # in the units of the target
        name = "typical error"
        found = [(column, math.sqrt(max(0.0, 1 + rise)) - 1) for column, rise in found]
    most = max(max(rise for _, rise in found), 1e-300)
    rows = [
        [show(name), f'<div class="bar" style="--share:{max(rise, 0) / most:.3f}"></div>',
         _rise(rise)]
        for name, rise in found[:MOST_COLUMNS]
    ]  # fmt: skip
    rest = len(found) - len(rows)
    more = f" Not listed: {rest} columns that matter less." if rest > 0 else ""
    header = ["column", "", f"{show(name)} rises"]
    return table(header, rows, "Columns by their importance", "bars", (2,)) + read(
        "How to read it: the values of one column were shuffled among the rows, and the error "
        "rose by this much. Each row was predicted by a model that was fitted without it. If two "
        "columns have the same information, both seem unimportant, because each can replace the "
        f"other. Importance is not cause and effect.{more}"
    )


def widths(data: ReportData) -> str:
    """List the widths of prediction intervals at several levels, and their coverage."""
    found = data.widths
    if not found:
        return ""
    rows = [
        [percent(one.level, decimals=0), f"± {number(one.half, 3)}", percent(one.held),
         *(f"{percent(share)} (± {number(half, 3)})"
           for share, half in zip(one.shares, one.halves, strict=True))]
        for one in found
    ]  # fmt: skip
    header = ["level", "half width", "covered", "low predictions", "middle", "high"]
    return table(header, rows, "How far off predictions are", "stack", (1, 2, 3, 4, 5)) + read(
        "How to read it: an interval of level 90 % should cover 90 % of new rows. “Covered” is the "
        "share of the training rows that were covered, each by an interval from models that were "
        "fitted without it (the jackknife+, <code>predict_interval</code> in Python). The last "
        "three columns are the lowest, middle and highest third of the predictions. If their "
        "shares differ much, the size of the errors depends on the prediction."
    )
