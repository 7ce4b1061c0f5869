"""The page that ``decoupled train`` writes: the error of the model, and how reliable it is.

One file of HTML, CSS and SVG that loads nothing from elsewhere. It fits screens, phones and paper.
Functions of this package prepare plain data, and the templates turn them into HTML. All values are
written by :func:`~decoupled_descent.app.report.text.plain` and escaped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from decoupled_descent.app.report import text
from decoupled_descent.app.report.coefficients import coefficients
from decoupled_descent.app.report.comparison import comparison
from decoupled_descent.app.report.data import Origin, ReportData
from decoupled_descent.app.report.diagnosis import diagnosis
from decoupled_descent.app.report.headline import headline
from decoupled_descent.app.report.learning import more_rows
from decoupled_descent.app.report.measures import measures
from decoupled_descent.app.report.methods import methods
from decoupled_descent.app.report.over_time import over_time
from decoupled_descent.app.report.predictions import predictions
from decoupled_descent.app.report.probabilities import calibration, thresholds
from decoupled_descent.app.report.row_errors import importance, intervals, largest_errors
from decoupled_descent.app.report.sample import sample
from decoupled_descent.app.report.subgroups import subgroups
from decoupled_descent.app.report.training import training
from decoupled_descent.checks import counted, unbroken
from decoupled_descent.files import write_text

#: Items of a list that are not folded.
MOST_ITEMS = 12


class Section(NamedTuple):
    """A section: its heading, and the function that prepares it; None leaves it out."""

    heading: str
    prepare: Callable[[ReportData], dict[str, Any] | None]
    is_open: bool = False  # others are unfolded by a click on the heading
    has_estimates: bool = True  # which nobody should quote if they are not trusted


#: The sections below the headline by the names of their templates, in their order.
SECTIONS = {
    "next_steps": Section("What to do next", lambda data: _list(data.next_steps), True, False),
    "over_time": Section("How does the error change with time?", over_time),
    "comparison": Section("Compared with simpler models", comparison),
    "predictions": Section("What the model gets right and wrong", predictions),
    "measures": Section("The result in the usual measures", measures),
    "intervals": Section("How wide are prediction intervals?", intervals),
    "thresholds": Section("Thresholds: more cases found, or fewer false alarms", thresholds),
    "calibration": Section("Are the probabilities calibrated?", calibration),
    "subgroups": Section("Are some categories predicted worse?", subgroups),
    "largest_errors": Section("Rows to check", largest_errors),
    "importance": Section("Which columns matter?", importance),
    "coefficients": Section("The coefficients of the linear part", coefficients),
    "more_rows": Section("Would more rows help?", more_rows),
    "sample": Section("The rows by class", sample, has_estimates=False),
    "diagnosis": Section("Can the numbers be trusted?", diagnosis, has_estimates=False),
    "notes": Section("What was done to the data", lambda d: _list(d.notes), has_estimates=False),
    "training": Section("How the model was found", training),
    "methods": Section("For a paper", methods, has_estimates=False),
    "origin": Section(
        "What this was made from", lambda data: _origin(data.origin), has_estimates=False
    ),
}


def render_report(data: ReportData) -> str:
    """Return the page: a complete HTML document, with all text of ``data`` escaped.

    Example:
        >>> from decoupled_descent.checks import Target
        >>> from decoupled_descent.app.report.data import Estimates, RowPredictions, Training
        >>> data = ReportData(
        ...     title="cats.csv: tail",
        ...     task=Target.NUMBERS,
        ...     n_rows=3,
        ...     n_features=1,
        ...     training=Training([0.5, 0.2], [0.1, 0.05], 1, "converged"),
        ...     estimate=Estimates("squared error", 0.2, 0.05, "R²", 0.7, None),
        ...     rows=RowPredictions([1.0, 2.0, 3.0], [1.1, 1.8, 3.1]),
        ... )
        >>> page = render_report(data)
        >>> page.splitlines()[0], "0.447" in page, "<script" in page
        ('<!doctype html>', True, False)
    """
    written = {name: render_section(name, data) for name in SECTIONS}
    page = _environment().get_template("page.html").render(
        title=data.title,
        about=f"{data.task.capitalize()} · {counted(data.n_rows, 'row')} · "
        f"{counted(data.n_features, 'feature')}",
        headline=Markup(_environment().get_template("headline.html").render(headline(data))),
        sections=[
            {
                "name": name,
                "heading": SECTIONS[name].heading,
                "body": Markup(body),
                "is_open": SECTIONS[name].is_open,
                "is_doubted": SECTIONS[name].has_estimates and not data.is_trusted,
            }
            for name, body in written.items()
            if body
        ],
    )  # fmt: skip
    return unbroken(page)


def render_section(name: str, data: ReportData) -> str:
    """Return the HTML of one section without its heading; empty if there is nothing to show."""
    content = SECTIONS[name].prepare(data)
    if content is None:
        return ""
    return _environment().get_template(f"{name}.html").render(content)


@cache
def _environment() -> Environment:
    """The templates; all values are made harmless, cut if they are long, and escaped."""
    environment = Environment(
        loader=PackageLoader("decoupled_descent.app.report"),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else text.as_text(value),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "code_pieces": text.code_pieces,
        "option_pieces": text.option_pieces,
        "tone": text.tone,
    }
    environment.globals["interval_name"] = text.INTERVAL
    return environment


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


def _list(items: Sequence[str]) -> dict[str, Any] | None:
    """Sentences of a list, if there are any; long lists are folded after the first ones."""
    return {"items": items[:MOST_ITEMS], "more": items[MOST_ITEMS:]} if items else None


def _origin(origin: Origin | None) -> dict[str, Any] | None:
    """When, with what and from which data the page was made."""
    if origin is None:
        return None
    facts = {"date": origin.date, "decoupled-descent": origin.version}
    facts["fingerprint of the data"] = origin.fingerprint
    return {"facts": list(facts.items()), "command": origin.command}
