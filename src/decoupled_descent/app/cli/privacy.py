"""What the files of a training tell about single rows, and files that hold none of them.

Kernels keep training rows as landmarks, trees keep values as thresholds and leaves, and intervals
that adapt to the row keep features of training rows. With ``--no-rows`` none of these are trained
or saved. What remains are coefficients and statistics of columns and of errors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decoupled_descent.app.report.data import ReportData
    from decoupled_descent.tables.columns.rules import Columns

#: The features that keep no rows.
FEATURES = "linear"
#: Printed at the end of a training.
HELD = (
    "Privacy: left_out.csv, report.html and the model hold values of training rows. Give them only "
    "to people who may see the table, or train with `--no-rows`."
)
#: What ``--no-rows`` costs, for the end of a training and for the report.
LOST = (
    "Trained with `--no-rows`: the files hold no rows of the table, only coefficients and "
    "statistics (for each column its median, mean and standard deviation, the first of its dates, "
    "and texts that occur in several rows).",
    "So the model is linear (kernels and trees keep rows), prediction intervals have the same "
    "width everywhere, the report lists no rows, `predict` does not recognise training rows, and "
    "`compare` is not possible.",
)


def linear_only(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of an estimator that keeps no rows, or ``ValueError`` for features that do."""
    if arguments["features"] not in ("auto", FEATURES):
        raise ValueError(
            f"--features {arguments['features']!r:.40} keeps training rows in the model; leave it "
            "out, or leave out --no-rows"
        )
    return arguments | {"features": FEATURES, "members": ()}


def for_files(report: ReportData, estimator: Any) -> ReportData:
    """The report without rows. The estimator's left-out errors lose the order of the rows."""
    estimator._jackknife = estimator._jackknife.in_order()
    rows = replace(report.rows, row_names=(), as_csv="", in_files=False)
    analyses = replace(report.analyses, sample=())
    return replace(report, rows=rows, notes=LOST, analyses=analyses)


def columns_for_file(columns: Columns) -> Columns:
    """The rules for columns without values of rows: notes with examples, smallest and largest.

    New numbers outside those of training are then not noted.
    """
    without = tuple(one.without_range() for one in columns.columns)
    return replace(columns, reasons=(), remarks=(), columns=without)
