"""The report's last section: how the model was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.svg import MOST_POINTS, error_curve
from decoupled_descent.app.report.text import badge, column, number, read, show, table

#: The most candidates listed.
MOST_CANDIDATES = 100


def how_found(data: ReportData) -> str:
    """Details of the training, folded away."""
    newton = data.settings.get("method") == "newton"
    parts = {
        "The error for different ridges" if newton else "The error while training": _curve(
            data, newton
        ),
        "The candidates compared": _candidates(data.candidates),
        "Settings": _settings(data.settings),
    }
    return "".join(
        f"<details><summary>{name}</summary>{body}</details>"
        for name, body in parts.items()
        if body
    )


def _curve(data: ReportData, newton: bool) -> str:
    """The error over the steps or, with the Newton method, over the ridges of the best features."""
    best, count = data.best_step, len(data.train_error)
    lowest = number(float(data.train_error[best]), 3)
    kind, over, many = "train", "step", "steps"
    if newton:
        kind, over, many = "estimated", "ridge number", "ridges"
    title = f"Error over {count} {many}, lowest at {over} {best}: {lowest}"
    name = f"{kind} error ({data.loss_name})"
    svg, log = error_curve(data.train_error, data.train_error_stderr, best, name, title, over)
    words = (
        "the line estimates the error on new rows for several ridges, from strong to weak, and the "
        "band is its 95 % interval. On the left the model is too simple, on the right it fits "
        f"noise. The dot marks the lowest error ({lowest}). The model mixes this fit with others; "
        "the estimate at the top is that of the mixture."
        if newton
        else _steps(data, lowest)
    )
    axis = " The vertical axis is logarithmic." if log else ""
    caption = f"<figcaption>How to read it: {words}{axis}</figcaption>"
    return f'<figure class="side">{svg}{caption}</figure>'


def _steps(data: ReportData, lowest: str) -> str:
    """How to read the error over the steps."""
    last, best = len(data.train_error) - 1, data.best_step
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
    drawn = MOST_POINTS // 2
    thinned = f" Drawn: about {drawn:,} of the {last + 1:,} steps." if last >= drawn else ""
    return (
        f"the line {line} after each step, and the band is its 95 % interval. The dot marks step "
        f"{best}, where the error was lowest ({lowest}). {advice} Training ended: "
        f"{show(str(data.stop_reason).rstrip('.'))}.{thinned}"
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
