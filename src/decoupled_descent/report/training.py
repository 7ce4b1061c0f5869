"""The report's last section: how the model was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decoupled_descent.report.data import ReportData
from decoupled_descent.report.svg import MOST_POINTS, error_curve
from decoupled_descent.report.text import badge, column, number, read, show, table

#: The most candidates listed.
MOST_CANDIDATES = 100


def how_found(data: ReportData) -> str:
    """Details of the training, folded away."""
    newton = data.settings.get("method") == "newton"
    parts = {
        "The error for different ridges" if newton else "The error while training": _curve(data),
        "The candidates compared": _candidates(data.candidates),
        "Settings": _settings(data.settings),
    }
    return "".join(
        f"<details><summary>{name}</summary>{body}</details>"
        for name, body in parts.items()
        if body
    )


def _ridges(data: ReportData) -> str:
    """The error of the best features for several strengths of the penalty."""
    best, lowest = data.best_step, number(float(data.train_error[data.best_step]), 3)
    title = f"Error for {len(data.train_error)} ridges, lowest at number {best}: {lowest}"
    name = f"estimated error ({data.loss_name})"
    svg, log = error_curve(
        data.train_error, data.train_error_stderr, best, name, title, "ridge number"
    )
    axis = " The vertical axis is logarithmic." if log else ""
    return (
        f'<figure class="side">{svg}<figcaption>How to read it: the line estimates the error '
        "on new rows for several ridges, from strong to weak, and the band is its 95 % interval. "
        "On the left the model is too simple, on the right it fits noise. The dot marks the "
        f"lowest error ({lowest}). The model mixes this fit with others; the estimate at the top "
        f"is that of the mixture.{axis}</figcaption></figure>"
    )


def _curve(data: ReportData) -> str:
    if data.settings.get("method") == "newton":
        return _ridges(data)
    last, best = len(data.train_error) - 1, data.best_step
    lowest = number(float(data.train_error[best]), 3)
    title = f"Train error over {last + 1} steps, lowest at step {best}: {lowest}"
    name = f"train error ({data.loss_name})"
    svg, log = error_curve(data.train_error, data.train_error_stderr, best, name, title)
    line = "is the error on the training rows, not on new ones,"
    if data.corrected:
        line = "estimates the error on new rows"
    advice = "Steps after the dot did not lower the error, so the earlier model was kept."
    if last == 0:
        advice = "There is only the starting point: the bar is the interval, and no line is drawn."
    elif best == last and data.corrected:
        advice = "The last step is the best one: more steps may improve the model."
    elif best == last:
        advice = "This error falls while rows are memorised, even if that of new rows does not."
    if len(data.candidates) > 1 and data.estimated_error > data.train_error[best] * (1 + 1e-6):
        advice += " The estimate at the top also allows for the choice among candidates."
    axis = " The vertical axis is logarithmic." if log else ""
    drawn = MOST_POINTS // 2
    thinned = f" Drawn: about {drawn:,} of the {last + 1:,} steps." if last >= drawn else ""
    return (
        f'<figure class="side">{svg}<figcaption>How to read it: the line {line} after each step, '
        f"and the band is its 95 % interval. The dot marks step {best}, where the error was lowest "
        f"({lowest}). {advice} Training ended: {show(str(data.stop_reason).rstrip('.'))}."
        f"{axis}{thinned}</figcaption></figure>"
    )


def _candidates(candidates: Sequence[Mapping[str, Any]]) -> str:
    """A table of the candidates; values that all of them share are listed once, below it."""
    if not candidates:
        return ""
    several = len(candidates) > 1
    names = list(dict.fromkeys(name for one in candidates for name in one if name != "chosen"))
    columns = {name: [one.get(name) for one in candidates] for name in names}
    alike = [name for name in names if several and len(set(map(show, columns[name]))) == 1]
    varying = [name for name in names if name not in alike]
    written = {name: column(columns[name]) for name in varying}
    rows = []
    for k, one in enumerate(candidates):
        if k < MOST_CANDIDATES or one.get("chosen"):
            mark = " " + badge("ok", "chosen") if one.get("chosen") else ""
            rows.append([f"{k + 1}{mark}", *(written[name][k] for name in varying)])
    header = ["candidate", *map(_name, varying)]
    right = [k for k, name in enumerate(varying, 1) if any(map(_is_number, columns[name]))]
    same = ", ".join(f"{_name(name)} = {show(columns[name][0])}" for name in alike)
    left_out = len(candidates) - len(rows)
    remarks = [
        "How to read it: each candidate was trained on all rows. The marked one was chosen because "
        "of its error.",
        "All errors are from the same rows and therefore correlated. The differences between them "
        "are more certain than the standard errors suggest." if several else "",
        f"The same for all: {same}." if same else "",
        f"Not listed: {left_out:,} more candidates." if left_out else "",
    ]  # fmt: skip
    caption = "Candidates and their lowest train errors"
    return table(header, rows, caption, "candidates", right) + read(" ".join(filter(None, remarks)))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _name(key: Any) -> str:
    return show(str(key).replace("_", " "))


def _settings(settings: Mapping[str, Any]) -> str:
    pairs = "".join(
        f"<div><dt>{_name(name)}</dt><dd>{show(value)}</dd></div>"
        for name, value in settings.items()
    )
    return f"<dl>{pairs}</dl>" if settings else ""
