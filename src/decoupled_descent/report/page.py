"""The page that ``decoupled train`` leaves behind: how good is the model, and is that number sure?

One file of HTML, CSS and SVG that loads nothing from anywhere, for a desk, a phone and paper.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from decoupled_descent.report.predictions import (
    baseline,
    classification,
    confusion_matrix,
    regression,
)
from decoupled_descent.report.svg import MOST_POINTS, error_curve
from decoupled_descent.report.text import (
    badge,
    column,
    interval,
    is_number,
    number,
    prose,
    show,
    table,
    together,
)

#: The most candidates and findings listed.
MOST_ROWS = 100

COMPARED = (
    " All saw the same rows, so their errors rise and fall together and the differences between "
    "them are surer than each standard error suggests."
)


@dataclass(frozen=True)
class ReportData:
    """What the report shows.

    Attributes:
        title: Such as ``"diabetes.csv: progression"``.
        task: ``"classification"`` or ``"regression"``.
        n_rows: Rows trained on.
        n_features: Columns after preprocessing.
        train_error: The train error at every step.
        train_error_stderr: Its standard errors.
        best_step: The step whose model was kept.
        stop_reason: Why training ended.
        loss_name: Such as ``"log loss"``.
        estimated_error: The estimate of the test error.
        estimated_error_stderr: Its standard error.
        score_name: ``"accuracy"`` or ``"R²"``.
        estimated_score: The estimate of the score on new rows.
        estimated_score_stderr: Its standard error, or None.
        labels: Of the training rows.
        predictions: For the same rows, each judged as if it were new.
        classes: Names of the classes in the order wanted, or None.
        candidates: One dictionary per candidate tried; ``"chosen"`` marks the winner.
        diagnosis: ``"verdict"``, ``"summary"`` and ``"findings"``, or None.
        settings: How the model was trained; ``"method": "gradient"`` says that nothing was
            corrected, so that errors are those of rows already seen.
        notes: What preprocessing did.
        next_steps: What to do now.
    """

    title: str
    task: str
    n_rows: int
    n_features: int
    train_error: Sequence[float]
    train_error_stderr: Sequence[float]
    best_step: int
    stop_reason: str
    loss_name: str
    estimated_error: float
    estimated_error_stderr: float
    score_name: str
    estimated_score: float
    estimated_score_stderr: float | None
    labels: Sequence[Any]
    predictions: Sequence[Any]
    classes: Sequence[str] | None
    candidates: Sequence[Mapping[str, Any]]
    diagnosis: Mapping[str, Any] | None
    settings: Mapping[str, Any]
    notes: Sequence[str]
    next_steps: Sequence[str]

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
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

    @property
    def corrected(self) -> bool:
        """Whether rows are judged as if they were new; gradient descent judges what it has seen."""
        return self.settings.get("method") != "gradient"


def render_report(data: ReportData) -> str:
    """Write the page.

    Args:
        data: What to show. All text in it is escaped.

    Returns:
        A complete HTML document that refers to nothing outside itself.

    Example:
        >>> data = ReportData(
        ...     "cats.csv: tail", "regression", 3, 1, [0.5, 0.2], [0.1, 0.05], 1, "converged",
        ...     "squared error", 0.2, 0.05, "R²", 0.7, None, [1.0, 2.0, 3.0], [1.1, 1.8, 3.1],
        ...     None, [], None, {}, [], [],
        ... )
        >>> page = render_report(data)
        >>> page.splitlines()[0], "0.200" in page, "<script" in page
        ('<!doctype html>', True, False)
    """  # fmt: skip
    template = resources.files("decoupled_descent.report").joinpath("page.html")
    sections = [
        _headline(data),
        _section("Can the numbers be trusted?", _diagnosis(data.diagnosis)),
        _section("What to do next", _list(data.next_steps)),
        _section("The error while training", _curve(data)),
        _section("What the model gets right and wrong", _predictions(data)),
        _section("The candidates compared", _candidates(data.candidates)),
        _section("What was done to the data", _list(data.notes)),
        _section("Settings", _settings(data.settings)),
    ]
    return Template(template.read_text(encoding="utf-8")).substitute(
        title=show(data.title),
        about=f"{show(data.task.capitalize())} · {data.n_rows:,} rows · {data.n_features:,} "
        f"features · {show(data.loss_name)}",
        sections="\n".join(section for section in sections if section),
    )


def write_report(path: str | os.PathLike[str], data: ReportData) -> Path:
    """Write the page to a temporary file in the same folder and rename it.

    Args:
        path: Of the HTML file; its folder must exist.
        data: What to show.

    Returns:
        The path.

    Raises:
        OSError: The folder is missing or cannot be written to.
    """
    path = Path(path)
    page = render_report(data).encode("utf-8", "replace")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        try:
            partial.write_bytes(page)
            partial.replace(path)
        finally:
            if partial.exists():
                partial.unlink()
    except OSError as error:
        raise OSError(
            f"cannot write the report {str(path)!r} ({error.strerror}); choose a file in a folder "
            "that exists and that you may write to"
        ) from None
    return path


def _section(heading: str, body: str) -> str:
    return f"<section><h2>{heading}</h2>{body}</section>" if body else ""


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{prose(item)}</li>' for item in items)}</ul>" if items else ""


def _headline(data: ReportData) -> str:
    verdict = (data.diagnosis or {}).get("verdict")
    summary = (data.diagnosis or {"summary": "The data were not checked."}).get("summary") or ""
    label = badge(verdict, str(verdict).capitalize()) if verdict else badge("Not checked")
    error = interval(data.estimated_error, data.estimated_error_stderr)
    score = score_interval(data)
    share = data.score_name == "accuracy"
    loss = show(_mean_of(data.loss_name))
    names = ("Estimated test error", f"Estimated {show(data.score_name)}")
    meaning = f"{loss} to expect on new rows from the same source; lower is better."
    if not data.corrected:
        names = ("Train error", f"{_capital(show(data.score_name))} on the training rows")
        meaning = f"{loss} on the rows trained on; that of new rows is higher as a rule."
    cards = [
        _card(names[0], error, data.estimated_error_stderr, False, meaning),
        _card(names[1], score,
              data.estimated_score_stderr, share,
              baseline(data.task, data.labels, data.predictions)),
        f'<div class="card"><h3>Verdict</h3><p class="value">{label}</p>'
        f"<p>{prose(summary)}</p></div>",
    ]  # fmt: skip
    return f'<div class="cards">{"".join(cards)}</div>{_meaning(data)}'


def _mean_of(name: str) -> str:
    """Name the mean of a loss, whose name may say so already."""
    return _capital(name) if name.startswith("mean ") else f"Mean {name}"


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def score_interval(data: ReportData) -> tuple[float, ...]:
    """Return the score and its 95 % interval, or the score alone where no interval is known."""
    score, stderr = data.estimated_score, data.estimated_score_stderr
    if data.score_name != "accuracy":
        return interval(score, stderr, -math.inf, 1.0)
    if stderr == 0 and score in (0.0, 1.0) and data.n_rows > 0:
        # no mistake among n rows does not mean that there is none to come: Wilson's interval
        edge = data.n_rows / (data.n_rows + 1.96**2)
        return (score, edge, 1.0) if score == 1 else (score, 0.0, 1 - edge)
    return interval(score, stderr, 0.0, 1.0)


def _card(
    name: str, found: Sequence[float], stderr: float | None, percent: bool, explanation: str
) -> str:
    width = (found[2] - found[1]) / 3.92 if len(found) == 3 else (stderr or 0.0)
    texts = together(found, width, percent)
    between = (
        f"95 % interval: <strong>{texts[1]}</strong> to <strong>{texts[2]}</strong>"
        if len(texts) == 3
        else "no interval"
    )
    return (
        f'<div class="card"><h3>{name}</h3><p class="value">{texts[0]}</p>'
        f'<p class="interval">{between}</p><p>{explanation}</p></div>'
    )


def _meaning(data: ReportData) -> str:
    if not data.corrected:
        return (
            '<p class="read">What this is not: an estimate for new rows. Gradient descent takes '
            "nothing out: every row is judged by a model that it has shaped itself, so the errors "
            "here are too low as a rule, by an amount that neither they nor the interval "
            "show.</p>"
        )
    return (
        '<p class="read">How this is known without a test set: while training, the influence of '
        "each row on its own prediction is taken out, so every row is judged as if it were new. "
        f"The interval covers the chance of having drawn these {data.n_rows:,} rows; it knows "
        "nothing of data that change after today.</p>"
    )


def _diagnosis(diagnosis: Mapping[str, Any] | None) -> str:
    findings = list((diagnosis or {}).get("findings") or ())
    if not findings:
        return ""
    rows = []
    for one in findings[:MOST_ROWS]:
        advice = (
            f'<br><span class="advice">{prose(one["advice"])}</span>' if one.get("advice") else ""
        )
        rows.append([
            show(one.get("name")), badge(one.get("status")), show(one.get("value")),
            show(one.get("threshold")), f"{prose(one.get('reason') or '')}{advice}",
        ])  # fmt: skip
    header = ["check", "result", "value", "limit", "what it means"]
    return (
        table(header, rows, "Checks of the data and of the run", "stack findings", right=(2,))
        + '<p class="read">How to read it: every check compares a value with its limit. ✓ ok needs '
        "nothing; ! caution means that the estimate may be off by more than its interval; ✕ alarm "
        "means not to rely on it.</p>"
    )


def _curve(data: ReportData) -> str:
    last, best = len(data.train_error) - 1, data.best_step
    lowest = number(float(data.train_error[best]), 3)
    title = f"Train error over {last + 1} steps, lowest at step {best}: {lowest}"
    name = f"train error ({data.loss_name})"
    svg, log = error_curve(data.train_error, data.train_error_stderr, best, name, title)
    advice = "Steps after the dot did not lower the error, so the earlier model was kept."
    if best == last:
        advice = "The last step is the best one: more steps may improve the model."
    if last == 0:
        advice = "There is only the starting point: the bar is the interval, and no line is drawn."
    if len(data.candidates) > 1 and data.estimated_error > data.train_error[best] * (1 + 1e-6):
        advice += " The estimate at the top also allows for the choice among candidates."
    line = "estimates the error on new rows"
    if not data.corrected:
        line = "is the error on the rows trained on, not on new ones,"
        if best == last > 0:
            advice = "It falls as long as rows can be memorised, whatever becomes of new ones."
    axis = " The vertical axis is logarithmic." if log else ""
    drawn = MOST_POINTS // 2
    thinned = f" Drawn: about {drawn:,} of the {last + 1:,} steps." if last >= drawn else ""
    return (
        f'<figure class="side">{svg}<figcaption>How to read it: the line {line} after each step, '
        "the band is its 95 % interval (±1.96 standard errors). The dot "
        f"marks step {best}, where the error was lowest ({lowest}). {advice} Training ended: "
        f"{show(str(data.stop_reason).rstrip('.'))}.{axis}{thinned}</figcaption></figure>"
    )


def _predictions(data: ReportData) -> str:
    if not len(data.labels):
        return ""
    if data.task == "regression":
        return regression(data.labels, data.predictions)
    return classification(*confusion_matrix(data.labels, data.predictions, data.classes))


def _candidates(candidates: Sequence[Mapping[str, Any]]) -> str:
    """The sweep as a table; what all candidates share is said once, below."""
    if not candidates:
        return ""
    names = list(dict.fromkeys(name for one in candidates for name in one if name != "chosen"))
    columns = {name: [one.get(name) for one in candidates] for name in names}
    alike = [n for n in names if len(candidates) > 1 and len(set(map(show, columns[n]))) == 1]
    varying = [name for name in names if name not in alike]
    written = {name: column(columns[name]) for name in varying}
    rows = []
    for k, one in enumerate(candidates):
        if k < MOST_ROWS or one.get("chosen"):
            mark = " " + badge("ok", "chosen") if one.get("chosen") else ""
            rows.append([f"{k + 1}{mark}", *(written[name][k] for name in varying)])
    header = ["candidate", *(_name(name) for name in varying)]
    right = [k + 1 for k, n in enumerate(varying) if any(map(is_number, columns[n]))]
    same = ", ".join(f"{_name(n)} = {show(columns[n][0])}" for n in alike)
    left_out = len(candidates) - len(rows)
    return (
        table(header, rows, "Candidates and their lowest train errors", "candidates", right)
        + '<p class="read">How to read it: each candidate was trained on all rows, and the one '
        "marked was chosen for its error."
        + (COMPARED if len(candidates) > 1 else "")
        + (f" The same for all: {same}." if same else "")
        + (f" Not listed: {left_out:,} more candidates." if left_out else "")
        + "</p>"
    )


def _name(key: Any) -> str:
    return show(str(key).replace("_", " "))


def _settings(settings: Mapping[str, Any]) -> str:
    pairs = "".join(
        f"<div><dt>{_name(name)}</dt><dd>{show(value)}</dd></div>"
        for name, value in settings.items()
    )
    return f"<dl>{pairs}</dl>" if settings else ""
