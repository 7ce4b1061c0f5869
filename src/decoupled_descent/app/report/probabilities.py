"""The report's sections on probabilities: thresholds for one of two classes, and calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import precision_recall_curve, roc_auc_score, roc_curve

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.figures import Drawing, chart
from decoupled_descent.app.report.tables import Table, numbers
from decoupled_descent.app.report.text import INTERVAL, together, written_interval
from decoupled_descent.checks import Z95, interval, percent

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

#: Bins of the distribution of probabilities.
BINS = 20


class ClassCounts(NamedTuple):
    """Rows with at least the probability of a threshold, for every threshold, largest first."""

    thresholds: Floats
    flagged: NDArray[np.int64]  # all such rows
    hits: NDArray[np.int64]  # those of the class


def counts(probabilities: Any, positive: Any) -> ClassCounts:
    """Count the rows that each threshold flags, and those of the class among them.

    Example:
        >>> counts([0.9, 0.2, 0.6, 0.6], [True, False, True, False])
        ClassCounts(thresholds=array([0.9, 0.6, 0.2]), flagged=array([1, 3, 4]),
            hits=array([1, 2, 2]))
    """
    positive = np.asarray(positive, dtype=bool)
    others, own, limits = roc_curve(positive, probabilities, drop_intermediate=False)
    hits = np.rint(own[1:] * positive.sum()).astype(np.int64)
    false_alarms = np.rint(others[1:] * (~positive).sum()).astype(np.int64)
    return ClassCounts(limits[1:], hits + false_alarms, hits)


def thresholds(data: ReportData) -> dict[str, Any] | None:
    """ROC and precision-recall curves of one of two classes, with a table of thresholds."""
    rows = data.rows
    if rows.classes is None or len(rows.classes) != 2 or rows.probabilities is None:
        return None
    column = rows.class_to_find
    positive = np.array([str(one) == str(rows.classes[column]) for one in rows.labels])
    if not 0 < positive.sum() < len(positive):
        return None
    probabilities = np.asarray(rows.probabilities, dtype=float)[:, column]
    name, share = str(rows.classes[column]), float(positive.mean())
    others, own, _ = roc_curve(positive, probabilities, drop_intermediate=False)
    precision, recall, _ = precision_recall_curve(positive, probabilities)
    axes = ("share of the others flagged", f"share of “{name}” found")
    return {
        "name": name,
        "threshold": data.written_threshold,
        "area": _area(data, positive, probabilities),
        "roc": chart(
            others, own, axes, "ROC curve", "roc", ends=((0, 0), (1, 1)),
            band=((), ()) if data.estimate.is_grouped else wilson(own, int(positive.sum())),
        ),
        "has_band": not data.estimate.is_grouped,
        "risks": _risks(probabilities, positive, name),
        "precision": chart(
            recall[-2::-1], precision[-2::-1], (axes[1], "right among those flagged"),
            "Precision and recall", "precise", ends=((0, share), (1, share)),
        ),
        "benefit": _net_benefit(counts(probabilities, positive), share, name),
        "table": _threshold_table(counts(probabilities, positive), positive, name),
    }  # fmt: skip


def wilson(shares: Floats, n: int) -> tuple[Floats, Floats]:
    """The ends of 95 % intervals of shares of n rows (Wilson).

    Example:
        >>> [end.round(3).tolist() for end in wilson(np.array([0.5, 1.0]), 20)]
        [[0.299, 0.839], [0.701, 1.0]]
    """
    slack = Z95**2 / n
    centre = (shares + slack / 2) / (1 + slack)
    half = np.sqrt(Z95**2 * (shares * (1 - shares) + slack / 4) / n) / (1 + slack)
    return centre - half, centre + half


def _risks(probabilities: Floats, positive: Booleans, name: str) -> Drawing:
    """How probabilities are distributed in the class, and in the other one."""
    edges = np.linspace(0, 1, BINS + 1)
    outline = []
    for rows in (probabilities[positive], probabilities[~positive]):
        share = np.histogram(rows, edges)[0] / len(rows)
        outline.append(np.append(0.0, np.append(np.repeat(share, 2), 0.0)))
    x = np.repeat(edges, 2)
    axes = ("predicted probability", f"share of the rows: “{name}”, and others (dashed)")
    top = 1.05 * float(max(one.max() for one in outline))
    ends = list(zip(x.tolist(), outline[1].tolist(), strict=True))
    title = f"Predicted probabilities of “{name}” and of the other rows"
    return chart(x, outline[0], axes, title, "risks", ends=ends, high=top)


def net_benefit(at: ClassCounts, n: int, limits: Floats) -> Floats:
    r"""The net benefit of each threshold t, (hits − false alarms · t/(1 − t))/n.

    Example:
        >>> at = counts([0.9, 0.2, 0.6, 0.6], [True, False, True, False])
        >>> net_benefit(at, 4, np.array([0.5, 0.1])).round(3)
        array([0.25 , 0.444])
    """
    last = np.searchsorted(-at.thresholds, -limits, "right") - 1
    flagged, hits = (np.where(last >= 0, one[last], 0) for one in (at.flagged, at.hits))
    benefit: Floats = (hits - (flagged - hits) * limits / (1 - limits)) / n
    return benefit


def _net_benefit(at: ClassCounts, share: float, name: str) -> Drawing:
    """The decision curve, in units of what perfect predictions would bring."""
    limits = np.linspace(0, 0.99, 100)
    every = np.linspace(0, share, 40)  # where flagging all rows brings anything
    all_flagged = 1 - (1 - share) / share * every / (1 - every)
    axes = ("threshold", "net benefit, as a share of that of perfect predictions")
    benefit = net_benefit(at, int(at.flagged[-1]), limits) / share
    ends = list(zip(every.tolist(), all_flagged.tolist(), strict=True))
    return chart(limits, benefit, axes, f"Decision curve for “{name}”", "benefit", ends=ends)


def _area(data: ReportData, positive: Booleans, probabilities: Floats) -> str:
    """The area under the ROC curve with its interval; that of the drawn line if there is none."""
    result = data.estimate.measure("AUC")
    if result is None:
        return percent(roc_auc_score(positive, probabilities))
    value, between = written_interval(result.with_interval, percent=True)
    return f"{value} ({between})"


def _threshold_table(at: ClassCounts, positive: Booleans, name: str) -> Table:
    """What some thresholds flag and find; a row for each different number of flagged rows."""
    total = int(positive.sum())
    rows: dict[int, list[str]] = {}
    for limit in _listed_thresholds(at, positive):
        last = int(np.searchsorted(-at.thresholds, -limit, "right")) - 1
        flagged, hits = (int(one[last]) if last >= 0 else 0 for one in (at.flagged, at.hits))
        result = f"{hits:,} of {total:,} ({percent(hits, total)})"
        rows.setdefault(flagged, [f"{limit:.3g}", f"{flagged:,}", result, percent(hits, flagged)])
    names = numbers("threshold", "rows flagged", f"“{name}” found", "right among flagged")
    return Table(names, list(rows.values()))


def _listed_thresholds(at: ClassCounts, positive: Booleans) -> list[float]:
    """Thresholds to list, largest first.

    These are 0.5, those that flag about ½, 1, 2 and 5 times the true share, and those that find
    90 and 99 % of the rows of the class.
    """
    share, n = float(positive.mean()), len(positive)
    flagged = [share * factor for factor in (0.5, 1, 2, 5) if share * factor < 0.9]
    indices = [int(np.searchsorted(at.flagged, max(1.0, part * n))) for part in flagged]
    indices += [int(np.searchsorted(at.hits, part * positive.sum())) for part in (0.9, 0.99)]
    limits = {float(at.thresholds[min(k, len(at.thresholds) - 1)]) for k in indices}
    return sorted({one for one in limits if abs(one - 0.5) > 0.02} | {0.5}, reverse=True)


def calibration(data: ReportData) -> dict[str, Any] | None:
    """Observed frequencies against predicted probabilities."""
    content, classes = data.rows.calibration, data.rows.classes
    if not content or len(content["stated"]) < 2 or classes is None:
        return None
    top = min(1.0, 1.1 * max(*content["stated"], *content["seen"], 1e-6))
    drawing = chart(
        content["stated"], content["seen"], ("predicted probability", "observed frequency"),
        "Predicted probabilities and observed frequencies", "calibration",
        ends=((0, 0), (top, top)), dots=True, top=top,
    )  # fmt: skip
    example = 0.3 if top > 0.3 else float(f"{top / 2:.0e}")
    return {
        "drawing": drawing,
        "class_name": f"“{classes[1]}”" if len(classes) == 2 else "the predicted class",
        "example": percent(example, decimals=0 if top > 0.02 else 1),
        "error": percent(content["error"]),
        "by_chance": percent(content["chance"]),
        "is_calibrated": content["error"] <= content["chance"] + 2 * content["stderr"],
        "line": _line(content.get("line")),
    }


def _line(line: Mapping[str, float] | None) -> list[str]:
    """Slope and intercept of the calibration with their intervals; nothing if there is none."""
    if line is None:
        return []
    written = []
    for name in ("slope", "intercept"):
        centre, stderr = line[name], line[f"{name}_stderr"]
        ends = [centre, *interval(centre, stderr)]
        value, low, high = together(ends, stderr)
        written.append(f"{name} {value} ({INTERVAL} {low} to {high})")
    return written
