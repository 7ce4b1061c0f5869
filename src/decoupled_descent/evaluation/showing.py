"""Evaluations in notebooks: a table, and figures with intervals."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.checks import Z95, share_interval
from decoupled_descent.evaluation.kinds import NUMBERS
from decoupled_descent.evaluation.means import mean_with_stderr, share_with_stderr
from decoupled_descent.plotting.style import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from decoupled_descent.evaluation.estimate import Estimate
    from decoupled_descent.evaluation.evaluation import Evaluation

Floats = NDArray[np.float64]

#: As many parts of equal size of the predictions have a mean of their own.
PARTS = 10


def as_dict(evaluation: Evaluation) -> dict[str, Any]:
    """Error, score, how, and the verdict with its findings, for JSON."""
    score = evaluation.estimate(evaluation.kind.score) if np.ndim(evaluation.labels) == 1 else None
    low, high = evaluation.interval
    return {
        "metric": evaluation.loss or "loss",
        "error": evaluation.error,
        "stderr": evaluation.stderr,
        "interval": [low, high],
        "score": None if score is None else _described(score),
        "rows": len(evaluation.losses),
        "effective_rows": evaluation.count,
        "how": evaluation.how,
        "refits": evaluation.refits,
        "reason": evaluation.reason,
        "optimism": evaluation.optimism,
        "diagnosis": evaluation.diagnosis.to_dict(),
    }


def _described(estimate: Estimate) -> dict[str, Any]:
    names = ("metric", "value", "stderr", "interval")
    return {name: getattr(estimate, name) for name in names}


def as_html(evaluation: Evaluation) -> str:
    """The error and a score with intervals, how they were obtained, and the verdict."""
    rows = [_line(evaluation.error_name, evaluation.error, evaluation.interval)]
    if np.ndim(evaluation.labels) == 1:
        score = evaluation.estimate(evaluation.kind.score)
        rows.append(_line(score.metric.replace("_", " "), score.value, score.interval))
    how = f"{len(evaluation.losses):,} rows, {evaluation.how}"
    if evaluation.reason:
        how += f" ({evaluation.reason})"
    if evaluation.optimism:
        how += f"; {evaluation.optimism:.2g} of the error is the price of choosing"
    head = "<tr><th></th><th>on new rows</th><th>95 %</th></tr>"
    table = f"<table>{head}{''.join(rows)}</table><p>{html.escape(how)}</p>"
    return table + evaluation.diagnosis._repr_html_()


def _line(name: str, value: float, ends: tuple[float, float]) -> str:
    cells = (name, f"{value:.4g}", f"{ends[0]:.4g} to {ends[1]:.4g}")
    return f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"


def drawn(evaluation: Evaluation) -> Figure:
    """The figure of :meth:`Evaluation.plot`."""
    if not evaluation.kind.has_classes:
        return _numbers(evaluation)
    if np.ndim(evaluation.predictions) != 2 or np.ndim(evaluation.labels) != 1:
        return _classes(evaluation)
    area = _area(evaluation)
    figure, axes = new_figure(1 + (area is not None))
    _calibration(axes[0, 0], evaluation)
    if area is not None:
        _roc(axes[0, 1], evaluation, area)
    return figure


def _area(evaluation: Evaluation) -> Estimate | None:
    """The area under the ROC curve; None of many classes, or if a class has no rows or one row."""
    if evaluation.predictions.shape[1] != 2:
        return None
    try:
        return evaluation.estimate("auc")
    except ValueError:
        return None


def _parts(values: Floats) -> list[Any]:
    """Rows in the order of their values, in parts of equal size."""
    return [part for part in np.array_split(np.argsort(values, kind="stable"), PARTS) if len(part)]


def _some(values: Any, rows: Any) -> Any:
    return None if values is None else values[rows]


def _units(evaluation: Evaluation, rows: Any) -> Any:
    """The groups of some rows, counted from 0."""
    if evaluation.groups is None:
        return None
    return np.unique(evaluation.groups[rows], return_inverse=True)[1].reshape(-1)


def _calibration(ax: Axes, evaluation: Evaluation) -> None:
    """How often a class occurs where it is predicted; of many classes, the most probable one."""
    chances, labels = evaluation.positive_predictions, evaluation.positive_labels
    if chances.shape[1] == 2:
        said, true, name = chances[:, 1], labels == 1, "probability"
    else:
        said, true = chances.max(1), chances.argmax(1) == labels
        name = "probability of the most probable class"
    points = []
    for part in _parts(said):
        weights = _some(evaluation.weights, part)
        share, stderr = share_with_stderr(true[part], weights, _units(evaluation, part))
        points.append(
            (np.average(said[part], weights=weights), share, *share_interval(share, stderr))
        )
    x, y, low, high = np.array(points).T
    ax.plot([0, 1], [0, 1], color="grey", lw=0.8)
    errors = [np.maximum(y - low, 0), np.maximum(high - y, 0)]
    ax.errorbar(x, y, yerr=errors, fmt="o", ms=4, lw=1, color=COLOURS["test"])
    ax.set(xlabel=f"predicted {name}", ylabel="how often it is so", title="calibration")
    tidy(ax)


def _roc(ax: Axes, evaluation: Evaluation, area: Estimate) -> None:
    """The ROC curve, with the area and its interval."""
    order = np.argsort(-evaluation.positive_predictions[:, 1], kind="stable")
    true = (evaluation.positive_labels == 1)[order] * evaluation.row_weights[order]
    false = evaluation.row_weights[order] - true
    rates = [np.append(0, np.cumsum(one)) / max(one.sum(), 1e-300) for one in (false, true)]
    low, high = area.interval
    ax.plot([0, 1], [0, 1], color="grey", lw=0.8)
    ax.plot(*rates, color=COLOURS["test"])
    ax.set(xlabel="1 − specificity", ylabel="sensitivity")
    ax.set_title(f"ROC: area {area.value:.3f} ({low:.3f} to {high:.3f})")
    tidy(ax)


def _classes(evaluation: Evaluation) -> Figure:
    """The share of each class that is recognised."""
    figure, axes = new_figure()
    ax, said = axes[0, 0], evaluation.decisions
    assert said is not None
    for label in np.unique(evaluation.labels):
        rows = np.flatnonzero(evaluation.labels == label)
        weights = _some(evaluation.weights, rows)
        share, stderr = share_with_stderr(said[rows] == label, weights, _units(evaluation, rows))
        low, high = share_interval(share, stderr)
        errors = [[max(0.0, share - low)], [max(0.0, high - share)]]
        ax.errorbar([label], [share], yerr=errors, fmt="o", color=COLOURS["test"])
    if evaluation.classes is not None:
        ax.set_xticks(range(len(evaluation.classes)), [str(one) for one in evaluation.classes])
    ax.set(xlabel="class", ylabel="share that is recognised", ylim=(0, 1.02))
    tidy(ax)
    return figure


def _numbers(evaluation: Evaluation) -> Figure:
    """True and predicted numbers, and mean errors by the prediction."""
    figure, axes = new_figure(2)
    y, said = (
        np.asarray(one, np.float64).ravel() for one in (evaluation.labels, evaluation.predictions)
    )
    left, right = axes[0]
    ends = [min(y.min(), said.min()), max(y.max(), said.max())]
    left.plot(ends, ends, color="grey", lw=0.8)
    left.plot(said, y, ".", ms=3, color=COLOURS["test"], alpha=0.6)
    left.set(
        xlabel="predicted", ylabel="true", title=f"{NUMBERS.error_name} {evaluation.error:.3g}"
    )
    alone = np.ndim(evaluation.labels) == 1
    points = []
    for part in _parts(said):
        weights = _some(evaluation.weights, part) if alone else None
        groups = _units(evaluation, part) if alone else None
        mean = mean_with_stderr((y - said)[part], weights, groups)
        points.append((said[part].mean(), mean.value, Z95 * mean.stderr))
    x, middle, half = np.array(points).T
    right.axhline(0, color="grey", lw=0.8)
    right.errorbar(x, middle, yerr=half, fmt="o", ms=4, lw=1, color=COLOURS["test"])
    right.set(xlabel="predicted", ylabel="mean of true − predicted", title="residuals")
    for ax in (left, right):
        tidy(ax)
    return figure
