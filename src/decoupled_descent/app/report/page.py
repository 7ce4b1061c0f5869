"""The page that ``decoupled train`` writes: the error of the model, and how reliable it is.

One file of HTML, CSS and SVG that loads nothing from elsewhere. It fits screens, phones and paper.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from decoupled_descent.app.report.comparison import comparison
from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.headline import headline
from decoupled_descent.app.report.judged import (
    calibration,
    importance,
    thresholds,
    widths,
    wrong_rows,
)
from decoupled_descent.app.report.learning import more_rows
from decoupled_descent.app.report.predictions import predictions
from decoupled_descent.app.report.text import badge, number, prose, read, show, table
from decoupled_descent.app.report.training import how_found
from decoupled_descent.checks import unbroken
from decoupled_descent.diagnostics.catalogue import CHECKS
from decoupled_descent.files import write_text

#: The most findings listed.
MOST_ROWS = 100
#: What checks ask, by name.
QUESTIONS = {check.name: check.question for check in CHECKS} | {
    "rows with the same identifier": "Do rows with the same identifier have similar targets?"
}


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
    template = resources.files("decoupled_descent.app.report").joinpath("page.html")
    written = [
        f"<section><h2>{name}</h2>{body}</section>"
        for name, section in SECTIONS.items()
        if (body := section(data))
    ]
    page = Template(template.read_text(encoding="utf-8")).substitute(
        title=show(data.title),
        about=f"{show(data.task.capitalize())} · {data.n_rows:,} rows · {data.n_features:,} "
        "features",
        sections="\n".join([headline(data), *written]),
    )
    return unbroken(page)


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


def _list(items: Sequence[str]) -> str:
    """Write sentences as a list."""
    return f"<ul>{''.join(f'<li>{prose(item)}</li>' for item in items)}</ul>" if items else ""


def _diagnosis(data: ReportData) -> str:
    """The findings with advice; checks without a finding are folded away."""
    findings = list((data.diagnosis or {}).get("findings") or ())[:MOST_ROWS]
    if not findings:
        return ""
    rows: dict[bool, list[list[str]]] = {False: [], True: []}
    for one in findings:
        fine = one.get("status") == "ok"
        cells = [show(one.get("name")), badge(one.get("status")), _short(one.get("value"))]
        cells.append(show(one.get("threshold")))
        if fine:
            cells.append(show(QUESTIONS.get(str(one.get("name")), "")))
        else:
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
        count = f"{len(rows[True])} other checks" if len(rows[True]) > 1 else "1 other check"
        count = count if rows[False] else count.replace(" other", "")
        header[-1] = "what is asked"
        listed = table(header, rows[True], "Checks that found no problem", "stack", right=(2,))
        rest = f"<details><summary>{count} found no problem</summary>{listed}"
        rest += "</details>"
    return found + rest


def _short(value: Any) -> str:
    return number(value, 3) if isinstance(value, float) else show(value)


#: The sections below the headline, in their order; empty ones are left out.
SECTIONS: dict[str, Callable[[ReportData], str]] = {
    "What to do next": lambda data: _list(data.next_steps),
    "Compared with simpler models": comparison,
    "What the model gets right and wrong": predictions,
    "How wide are prediction intervals?": widths,
    "Thresholds: more cases found, or fewer false alarms": thresholds,
    "Are the probabilities calibrated?": calibration,
    "Rows to check": wrong_rows,
    "Which columns matter?": importance,
    "Would more rows help?": more_rows,
    "Can the numbers be trusted?": _diagnosis,
    "What was done to the data": lambda data: _list(data.notes),
    "How the model was found": how_found,
}
