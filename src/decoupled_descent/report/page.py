"""The page that ``decoupled train`` writes: the error of the model, and how reliable it is.

One file of HTML, CSS and SVG that loads nothing from elsewhere. It fits screens, phones and paper.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from decoupled_descent.checks import Z95
from decoupled_descent.files import write_text
from decoupled_descent.report.comparison import Contender, answers, comparison
from decoupled_descent.report.judged import (
    Width,
    calibration,
    importance,
    thresholds,
    widths,
    wrong_rows,
)
from decoupled_descent.report.learning import MoreRows, more_rows
from decoupled_descent.report.predictions import baseline, predictions
from decoupled_descent.report.svg import MOST_POINTS, error_curve
from decoupled_descent.report.text import (
    badge,
    column,
    interval,
    number,
    prose,
    read,
    show,
    table,
    written_interval,
)

#: The most candidates and findings listed.
MOST_ROWS = 100


@dataclass(frozen=True)
class ReportData:
    """What the report shows."""

    title: str  # such as "diabetes.csv: progression"
    task: str  # "classification" or "regression"
    n_rows: int  # rows trained on
    n_features: int  # columns after preprocessing
    train_error: Sequence[float]  # at every step
    train_error_stderr: Sequence[float]
    best_step: int  # the step whose model was kept
    stop_reason: str
    loss_name: str  # such as "log loss"
    estimated_error: float  # the estimate of the test error
    estimated_error_stderr: float
    score_name: str  # "accuracy" or "R²"
    estimated_score: float  # on new rows
    estimated_score_stderr: float | None
    labels: Sequence[Any]  # of the training rows
    predictions: Sequence[Any]  # out-of-sample, for the same rows
    classes: Sequence[str] | None  # in the order to show
    candidates: Sequence[Mapping[str, Any]]  # all that were tried; "chosen" marks the winner
    diagnosis: Mapping[str, Any] | None  # what Diagnosis.to_dict returns
    settings: Mapping[str, Any]  # how the model was trained
    notes: Sequence[str]  # what preprocessing did
    next_steps: Sequence[str]  # what to do now
    corrected: bool  # whether the train error estimates the test error
    interrupted: bool = False  # whether the user interrupted training
    contenders: Sequence[Contender] = ()  # the model, a linear model and guessing
    chances: Any = None  # out-of-sample probabilities of the training rows, (n, K)
    calibration: Mapping[str, Any] | None = None  # what Calibration.to_dict returns
    row_names: Sequence[Any] = ()  # numbers or identifiers of the rows
    importance: Sequence[tuple[str, float]] = ()  # columns, and how much the error rises
    widths: Sequence[Width] = ()  # of prediction intervals
    more: MoreRows | None = None  # the learning curve
    left_out: Iterable[str] = ""  # out-of-sample predictions of the training rows, as CSV
    made_with: Mapping[str, Any] = field(default_factory=dict)  # versions, threads, blocks

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for data that cannot be shown."""
        if self.task not in ("classification", "regression"):
            raise ValueError(f"task={self.task!r} must be 'classification' or 'regression'")
        steps = len(self.train_error)
        if steps == 0 or len(self.train_error_stderr) != steps:
            raise ValueError(
                f"train_error has {steps} steps and train_error_stderr "
                f"{len(self.train_error_stderr)}; pass one of each per step, and at least one"
            )
        if not 0 <= self.best_step < steps:
            raise ValueError(f"best_step={self.best_step} must be from 0 to {steps - 1}")
        if len(self.labels) != len(self.predictions):
            raise ValueError(
                f"labels has {len(self.labels)} rows and predictions {len(self.predictions)}; "
                "pass one prediction per label"
            )


def render_report(data: ReportData) -> str:
    """Return the page: a complete HTML document, with all text of ``data`` escaped.

    Example:
        >>> data = ReportData(
        ...     "cats.csv: tail", "regression", 3, 1, [0.5, 0.2], [0.1, 0.05], 1, "converged",
        ...     "squared error", 0.2, 0.05, "R²", 0.7, None, [1.0, 2.0, 3.0], [1.1, 1.8, 3.1],
        ...     None, [], None, {}, [], [], True,
        ... )
        >>> page = render_report(data)
        >>> page.splitlines()[0], "0.447" in page, "<script" in page
        ('<!doctype html>', True, False)
    """  # fmt: skip
    template = resources.files("decoupled_descent.report").joinpath("page.html")
    sections = {
        "What to do next": _list(data.next_steps),
        "Compared with simpler models": comparison(data.contenders, data.loss_name),
        "What the model gets right and wrong": predictions(
            data.task, data.labels, data.predictions, data.classes
        ),
        "How wide are prediction intervals?": widths(data.widths),
        "Thresholds: more cases found, or fewer false alarms": thresholds(
            data.labels, data.chances, data.classes
        ),
        "Are the probabilities calibrated?": calibration(data.calibration, data.classes),
        "Rows to check": wrong_rows(
            data.task, data.labels, data.predictions, data.chances, data.classes, data.row_names
        ),
        "Which columns matter?": importance(data.importance, data.loss_name),
        "Would more rows help?": more_rows(data.more),
        "Can the numbers be trusted?": _diagnosis(data.diagnosis),
        "What was done to the data": _list(data.notes),
        "How the model was found": _found(data),
    }
    written = [
        f"<section><h2>{name}</h2>{body}</section>" for name, body in sections.items() if body
    ]
    return Template(template.read_text(encoding="utf-8")).substitute(
        title=show(data.title),
        about=f"{show(data.task.capitalize())} · {data.n_rows:,} rows · {data.n_features:,} "
        f"features · {show(data.loss_name)}",
        sections="\n".join([_headline(data), *written]),
    )


def write_report(path: str | os.PathLike[str], data: ReportData) -> Path:
    """Write the page to a file, whole or not at all; its folder must exist."""
    path = Path(path)
    page = render_report(data).encode("utf-8", "replace").decode("utf-8")
    try:
        write_text(path, page)
    except OSError as error:
        raise OSError(
            f"cannot write the report {str(path)!r} ({error.strerror}); choose a file in a folder "
            "that exists and that you may write to"
        ) from None
    return path


def _found(data: ReportData) -> str:
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


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{prose(item)}</li>' for item in items)}</ul>" if items else ""


def _headline(data: ReportData) -> str:
    """Three cards (error, comparison, verdict), and what they mean."""
    stopped = ""
    if data.interrupted:
        words = "Interrupted: training was not complete. These are the results so far."
        stopped = f'<p class="stopped">{words}</p>'
    diagnosis = data.diagnosis or {"summary": "The data were not checked."}
    verdict = diagnosis.get("verdict")
    label = badge(verdict, str(verdict).capitalize()) if verdict else badge("Not checked")
    cards = [
        _goodness(data),
        *([_better(data)] if data.contenders else []),
        _card("Can this number be trusted?", label, "", prose(_summary(diagnosis, verdict))),
    ]
    return f'{stopped}<div class="cards">{"".join(cards)}</div>{read(_meaning(data))}'


def _summary(diagnosis: Mapping[str, Any], verdict: Any) -> str:
    """The summary as a sentence, without the verdict that stands above it."""
    text = str(diagnosis.get("summary") or "").removeprefix(f"{verdict}: ")
    text = text.replace("the train error", "it")
    return f"{text[:1].upper()}{text[1:]}".removesuffix(".") + "." if text else ""


def _goodness(data: ReportData) -> str:
    """The card with the accuracy, or with the typical error in the units of the target."""
    compared = baseline(data.task, data.labels, data.predictions)
    error = interval(data.estimated_error, data.estimated_error_stderr)
    where = "new rows" if data.corrected else "the training rows"
    if data.task == "classification":
        name = f"Right on {where} ({show(data.score_name)})"
        found = written_interval(score_interval(data), data.score_name == "accuracy")
        written, between = written_interval(error)
        between = between.removeprefix("95 % interval ")
        return _card(name, *found, f"{compared} {show(data.loss_name).capitalize()}: {written}"
                     f" ({between}).")  # fmt: skip
    value, between = written_interval(tuple(map(math.sqrt, error)))
    score, ends = written_interval(score_interval(data))
    ends = ends.removeprefix("95 % interval ")
    named = f"{show(data.score_name)}: {score} ({ends}). "
    return _card(f"Typical error on {where} (RMSE)", value, between, named + compared)


def _better(data: ReportData) -> str:
    """The card with the comparison."""
    found = answers(data.contenders)
    lines = "".join(
        f"<p>{show(one.question)} {badge(one.tone, one.word)}<br>{show(one.reason)}</p>"
        for one in found
    )
    return f'<div class="card better"><h3>Is it any good?</h3>{lines}</div>'


def _card(name: str, value: str, between: str, explanation: str) -> str:
    line = f'<p class="interval">{between}</p>' if between else ""
    return (
        f'<div class="card"><h3>{name}</h3><p class="value">{value}</p>{line}'
        f"<p>{explanation}</p></div>"
    )


def _meaning(data: ReportData) -> str:
    if not data.corrected:
        return (
            "These numbers do not estimate the error on new rows. With this method every row is "
            "predicted by a model that was fitted to it. The errors here are therefore usually too "
            "low, and the interval does not show by how much."
        )
    return (
        "How this is known without a test set: training removes the influence of each row on its "
        "own prediction, so every row is predicted as if it were new. The interval accounts for "
        f"the random choice of these {data.n_rows:,} rows. It does not account for changes of the "
        "data in the future."
    )


def score_interval(data: ReportData) -> tuple[float, ...]:
    """Return the score and its 95 % interval, or the score alone if there is no interval."""
    score, stderr = data.estimated_score, data.estimated_score_stderr
    if data.score_name != "accuracy":
        return interval(score, stderr, -math.inf, 1.0)
    if stderr == 0 and score in (0.0, 1.0) and data.n_rows > 0:
        # Wilson's interval: no mistake in n rows does not mean that there will never be one
        edge = data.n_rows / (data.n_rows + Z95**2)
        return (score, edge, 1.0) if score == 1 else (score, 0.0, 1 - edge)
    return interval(score, stderr, 0.0, 1.0)


def _diagnosis(diagnosis: Mapping[str, Any] | None) -> str:
    """The findings with advice; checks without a finding are folded away."""
    findings = list((diagnosis or {}).get("findings") or ())[:MOST_ROWS]
    if not findings:
        return ""
    rows: dict[bool, list[list[str]]] = {False: [], True: []}
    for one in findings:
        fine = one.get("status") == "ok"
        cells = [show(one.get("name")), badge(one.get("status")), show(one.get("value"))]
        cells.append(show(one.get("threshold")))
        if not fine:
            advice = f'<br><span class="advice">→ {prose(one.get("advice"))}</span>'
            cells.append(prose(one.get("reason") or "") + advice * bool(one.get("advice")))
        rows[fine].append(cells)
    header = ["check", "result", "value", "limit", "what it means, and what to do"]
    found = rest = ""
    if rows[False]:
        caption = "Checks that found a problem or have a note"
        found = table(header, rows[False], caption, "stack findings", right=(2,)) + read(
            f"How to read it: every check compares a value with its limits. {badge('note')} is for "
            f"information and does not change the verdict. {badge('caution')} means that the "
            f"estimate may be wrong by more than its interval. {badge('alarm')} means that it "
            "should not be used."
        )
    if rows[True]:
        count = f"{len(rows[True])} checks" if len(rows[True]) > 1 else "1 check"
        listed = table(header[:-1], rows[True], "Checks that found no problem", "stack", right=(2,))
        rest = f"<details><summary>{count} found no problem</summary>{listed}"
        rest += "</details>"
    return found + rest


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
        if k < MOST_ROWS or one.get("chosen"):
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
