"""``model-card.md``: what others must know about the model, from the data of the report."""

from __future__ import annotations

import re
from collections.abc import Sequence

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.headline import in_short, interruption
from decoupled_descent.app.report.subgroups import worst
from decoupled_descent.app.report.text import INTERVAL, as_text, code_pieces, written_interval
from decoupled_descent.checks import counted

#: Signs that Markdown or HTML would act on.
SIGNS = re.compile(r"([\\`*_\[\]<>|#~&])")


def model_card(data: ReportData) -> str:
    """Return the card as Markdown, with all text of the data escaped.

    Example:
        >>> from decoupled_descent.checks import Target
        >>> from decoupled_descent.app.report.data import Estimates, RowPredictions, Training
        >>> card = model_card(
        ...     ReportData(
        ...         "cats.csv: tail",
        ...         Target.NUMBERS,
        ...         3,
        ...         1,
        ...         Training([0.5, 0.2], [0.1, 0.05], 1, "converged"),
        ...         Estimates("squared error", 0.2, 0.05, "R²", 0.7, None),
        ...         RowPredictions([1.0, 2.0, 3.0], [1.1, 1.8, 3.1]),
        ...     )
        ... )
        >>> card.splitlines()[0]
        '# Model card: cats.csv: tail'
    """
    diagnosis = data.diagnosis or {}
    origin = data.origin
    made = [] if origin is None else [
        f"Made on {origin.date} with decoupled-descent {origin.version}",
        f"Fingerprint of the data: {origin.fingerprint}",
    ]  # fmt: skip
    about = f"{data.task.capitalize()}, {data.n_rows:,} rows, {counted(data.n_features, 'feature')}"
    command = [] if origin is None else ["", *_code(origin.command)]
    findings = [one for one in diagnosis.get("findings", ()) if one["status"] != "ok"]
    parts = {
        "In short": _points([one for one in (interruption(data), *in_short(data)) if one]),
        "Expected errors on new rows": _measures(data),
        "Can the numbers be trusted?": [
            f"Verdict: **{escaped(diagnosis.get('verdict', 'not checked'))}**",
            "",
            *_points([f"{one['name']} ({one['status']}): {one['reason']}" for one in findings]),
        ],
        "Categories": _points([worst(data)] if worst(data) else []),
        "What to do next": _points(data.next_steps),
        "What was done to the data": _points(data.notes),
    }
    lines = [f"# Model card: {escaped(data.title)}", "", *_points([about, *made]), *command]
    for heading, content in parts.items():
        lines += ["", f"## {heading}", "", *content] if any(content) else []
    return "\n".join(lines) + "\n"


def escaped(value: object) -> str:
    r"""Text on one line without signs that Markdown acts on.

    Example:
        >>> escaped("a|b <c>")
        'a\\|b \\<c\\>'
    """
    return SIGNS.sub(r"\\\1", " ".join(as_text(value).split()))


def _points(sentences: Sequence[str]) -> list[str]:
    """A list, one sentence each; code keeps its backticks."""
    lines = []
    for one in sentences:
        pieces = enumerate(code_pieces(one))
        written = [f"`{text}`" if k % 2 else SIGNS.sub(r"\\\1", text) for k, text in pieces]
        lines.append(f"- {' '.join(''.join(written).split())}")
    return lines


def _code(command: str) -> list[str]:
    """A block of code; its fence is longer than any in the text."""
    longest = max((len(one) for one in re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}sh", " ".join(as_text(command).split()), fence]


def _measures(data: ReportData) -> list[str]:
    """All estimates with their intervals, as a table; a warning if they are not to be trusted."""
    estimate = data.estimate
    rows = [(estimate.score_name, estimate.score_with_interval, data.has_classes)]
    rows += [(estimate.loss_name, estimate.error_with_interval, False)]
    names = {name for name, _, _ in rows}
    rows += [
        (one.name, one.with_interval, one.is_share)
        for one in estimate.measures
        if one.name not in names
    ]
    lines = [] if data.is_trusted else ["Do not quote these numbers.", ""]
    lines += [f"| measure | estimate | {INTERVAL} |", "|---|---|---|"]
    for name, values, share in rows:
        value, between = written_interval(values, percent=share)
        lines.append(f"| {escaped(name)} | {value} | {between.removeprefix(INTERVAL).strip()} |")
    return lines
