"""The report's sections on single rows, all of them judged as if they were new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.report.svg import chart
from decoupled_descent.report.text import number, percent, read, show, table

Floats = NDArray[np.float64]

#: The most rows listed as probably wrong, and the most columns by their importance.
MOST_WRONG, MOST_COLUMNS = 10, 20
#: An error that rises by more than this share is said to be so many times as large.
LARGE = 10
#: Of two classes the second is looked for (yes, true, 1), unless it has a larger share than this.
COMMON = 0.6
#: Levels of confidence whose widths are listed.
LEVELS = (0.5, 0.8, 0.9, 0.95)


class Curves(NamedTuple):
    """What follows from every possible threshold on a probability, largest first."""

    thresholds: Floats
    flagged: Floats  # rows with at least that probability
    found: Floats  # rows of the class among them


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


def thresholds(labels: Sequence[Any], chances: Any, classes: Sequence[str] | None) -> str:
    """Draw ROC and precision-recall curves of one of two classes, with a table."""
    if classes is None or len(classes) != 2 or chances is None:
        return ""
    chances = np.asarray(chances, dtype=float)
    hits = np.array([str(one) == str(classes[1]) for one in labels])
    rare = 0 if hits.mean() > COMMON else 1
    hits, name, n = hits if rare else ~hits, show(classes[rare]), len(hits)
    if not 0 < hits.sum() < n:
        return ""
    all_ = curves(chances[:, rare], hits)
    recall = np.append(0.0, all_.found / hits.sum())
    alarms = np.append(0.0, (all_.flagged - all_.found) / (n - hits.sum()))
    precision = all_.found / all_.flagged
    axes = ("share of the others flagged", f"share of “{classes[rare]}” found")
    roc = chart(alarms, recall, axes, "ROC curve", "roc", ends=((0, 0), (1, 1)))
    share = float(hits.mean())
    precise = chart(
        recall[1:], precision, (axes[1], "right among those flagged"), "Precision and recall",
        "precise", ends=((0, share), (1, share)),
    )  # fmt: skip
    rows = []
    sought = -np.array(_limits(all_, share, n))
    for place in dict.fromkeys((np.searchsorted(-all_.thresholds, sought, "right") - 1).tolist()):
        if place < 0:
            continue
        rows.append([
            f"{all_.thresholds[place]:.3g}", f"{int(all_.flagged[place]):,}",
            f"{int(all_.found[place]):,} of {int(hits.sum()):,} ({percent(recall[place + 1])})",
            percent(precision[place]),
        ])  # fmt: skip
    header = ["flag from probability", "rows flagged", f"“{name}” found", "right among flagged"]
    listed = table(header, rows, "What other thresholds would do", "stack", (0, 1, 2, 3), True)
    return (
        f'<div class="pair"><figure>{roc}<figcaption>How to read it: the further the line is above '
        "the dashed one, the better the two classes are told apart. A row of "
        f"“{name}” gets a higher probability than another row in {percent(area(all_, n))} of all "
        "pairs (the area under the line); guessing gives 50 %.</figcaption></figure>"
        f"<figure>{precise}<figcaption>How to read it: to the right more rows of “{name}” are "
        "found, and more others with them. The dashed line is flagging at random."
        f"</figcaption></figure></div>{listed}"
    ) + read(
        "How to read it: predictions use 0.5. Where missing a case costs more than a false alarm, "
        "flag from a lower probability."
    )


def _limits(found: Curves, share: float, n: int) -> list[float]:
    """Thresholds of interest: 0.5, and those that flag about ½, 1, 2 and 5 times the true share."""
    wanted = [share * factor for factor in (0.5, 1, 2, 5) if share * factor < 0.9]
    places = [int(np.searchsorted(found.flagged, max(1.0, part * n))) for part in wanted]
    limits = {float(found.thresholds[min(k, len(found.thresholds) - 1)]) for k in places}
    apart = {limit for limit in limits if abs(limit - 0.5) > 0.02}
    return sorted(apart | {0.5}, reverse=True)


def calibration(content: Mapping[str, Any] | None, classes: Sequence[str] | None) -> str:
    """Draw stated probabilities against how often they came true."""
    if not content or len(content["stated"]) < 2 or classes is None:
        return ""
    what = f"“{show(classes[1])}”" if len(classes) == 2 else "the predicted class"
    top = min(1.0, 1.1 * max(*content["stated"], *content["seen"], 1e-6))
    svg = chart(
        content["stated"], content["seen"], ("stated probability", "how often it came true"),
        "Stated probabilities and what was seen", "calibration", ends=((0, 0), (top, top)),
        dots=True, top=top,
    )  # fmt: skip
    sound = content["error"] <= content["chance"] + 2 * content["stderr"]
    verdict = (
        "They can be taken at their word."
        if sound
        else "They are off by more than chance explains: treat them as a ranking."
    )
    return (
        f'<figure class="side square">{svg}<figcaption>How to read it: each dot holds about as '
        f"many rows as the others. On the dashed line, of the rows with a stated probability of "
        f"30 % for {what}, 30 % are so. On average the two differ by "
        f"{percent(content['error'])}; chance alone makes {percent(content['chance'])}. "
        f"{verdict}</figcaption></figure>"
    )


def wrong_rows(
    task: str, labels: Sequence[Any], predicted: Sequence[Any], chances: Any,
    classes: Sequence[str] | None, names: Sequence[Any],
) -> str:  # fmt: skip
    """List the rows that the model contradicts most: candidates for wrong labels."""
    if not len(names):
        return ""
    if task == "regression":
        true, said = np.asarray(labels, dtype=float), np.asarray(predicted, dtype=float)
        order = np.argsort(-np.abs(true - said), kind="stable")[:MOST_WRONG]
        header = ["row", "true value", "predicted", "error"]
        rows = [
            [show(names[k]), number(true[k]), number(said[k]), number(true[k] - said[k])]
            for k in map(int, order)
        ]
    elif chances is None or classes is None:
        return ""
    else:
        place = {str(name): k for k, name in enumerate(classes)}
        own = np.asarray(chances, dtype=float)
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
    right = (1, 2, 3) if task == "regression" else (3,)
    return table(header, rows, "Rows that the model contradicts", "", right) + read(
        "How to read it: each row was judged by a model that had not seen it. Look these up: some "
        "of them may be wrong in the table."
    )


def _rise(share: float) -> str:
    """How much an error rises: by a share, or many times."""
    if share >= LARGE:
        return f"{number(share + 1, 3)} times"
    return percent(share) if share > 0 else "not at all"


def importance(found: Sequence[tuple[str, float]], loss: str) -> str:
    """List columns by how much the error rises when one of them is shuffled."""
    if not found:
        return ""
    most = max(max(rise for _, rise in found), 1e-300)
    rows = [
        [show(name), f'<div class="bar" style="--share:{max(rise, 0) / most:.3f}"></div>',
         _rise(rise)]
        for name, rise in found[:MOST_COLUMNS]
    ]  # fmt: skip
    rest = len(found) - len(rows)
    more = f" Not listed: {rest} columns that matter less." if rest > 0 else ""
    header = ["column", "", f"{show(loss)} rises by"]
    return table(header, rows, "Columns by their importance", "bars", (2,)) + read(
        "How to read it: the values of one column were shuffled among the rows, and this is how "
        "much the error rose, each row being judged by a model that had not seen it. Of columns "
        "that say the same, each seems "
        f"unimportant, because the other stands in for it. This is no cause and effect.{more}"
    )


class Width(NamedTuple):
    """Prediction intervals of one level, and how often they hold for rows left out."""

    level: float
    half: float  # half the width of a typical interval
    held: float  # the share of rows whose target is inside
    halves: tuple[float, ...]  # the same for low, middle and high predictions
    shares: tuple[float, ...]


def widths(found: Sequence[Width]) -> str:
    """List how wide prediction intervals are, at several levels, and whether they hold."""
    if not found:
        return ""
    rows = [
        [f"{100 * one.level:g} %", f"± {number(one.half, 3)}", percent(one.held),
         *(f"{percent(share)} (± {number(half, 3)})"
           for share, half in zip(one.shares, one.halves, strict=True))]
        for one in found
    ]  # fmt: skip
    header = ["of new rows", "are within", "held here", "low predictions", "middle", "high"]
    return table(header, rows, "How far off predictions are", "stack", (1, 2, 3, 4, 5)) + read(
        "How to read it: intervals about the prediction are made from models that have not seen a "
        "row (the jackknife+, which `predict_interval` uses in Python), and the target of that "
        "row is inside or not. The last three columns are the lowest, middle and highest third of "
        "the predictions. Where the shares differ much, errors grow with the size of the "
        "prediction.".replace("`predict_interval`", "<code>predict_interval</code>")
    )
