"""``decoupled train``: a model and an honest estimate of its test error from one table."""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import decoupled_descent as dd
from decoupled_descent.app.cli.destination import check_folder
from decoupled_descent.app.cli.importing import imports
from decoupled_descent.app.cli.options import must_exist, takes
from decoupled_descent.app.cli.resume import clear, kept, nothing_written, written_to
from decoupled_descent.app.cli.training_options import TrainOptions
from decoupled_descent.checks import percent
from decoupled_descent.files import write_text
from decoupled_descent.progress import stages

if TYPE_CHECKING:
    from decoupled_descent.app.cli.tables import TrainingTable

SEARCHING, CHECKING, WRITING = "comparing models", "checking the best one", "writing the report"
#: The stages of a training, and the share of the time that each takes, roughly.
STAGES = {SEARCHING: 10.0, CHECKING: 8.0, WRITING: 1.0}
#: The number of kernels that are compared with the linear model.
KERNELS = 2


@takes(TrainOptions)
def train(options: TrainOptions) -> None:
    """Train on all rows of a table, and estimate the error on new rows without a test set.

    Text, dates and missing values are turned into numbers. Settings left at "auto" are chosen by
    the estimated error. DIR gets model.safetensors, report.html, model-card.md and left_out.csv.
    """
    arguments = options.for_estimator()
    must_exist(options.data)
    check_folder(options.out, options.data)
    from decoupled_descent.app.cli.origin import command_of
    from decoupled_descent.app.files.standard_input import table_path

    command = command_of(options)
    with table_path(options.data) as data:
        _train(replace(options, data=data), arguments, command)


def _train(options: TrainOptions, arguments: dict[str, Any], command: str) -> None:
    """Prepare the table, and train."""
    with imports():
        from decoupled_descent.app.cli.tables import prepare

    with nothing_written():  # before PyTorch, which takes seconds to import
        prepared = prepare(options.data, options.target, options.task, options.wishes)
    train_and_report(options, prepared, arguments, command)


def train_and_report(
    options: TrainOptions, prepared: TrainingTable, arguments: dict[str, Any], command: str
) -> None:
    """Train on a table that is prepared, write the results to a folder, and print them.

    ``arguments`` are those of the estimator, ``command`` is for the report.
    """
    with nothing_written(), imports():  # PyTorch takes seconds to import
        from decoupled_descent.app.cli import findings, folder, privacy, results
        from decoupled_descent.app.cli.origin import origin
        from decoupled_descent.app.cli.output import console, echo_json

    data, target, out, resume = options.data, options.target, options.out, options.resume
    replaced = check_folder(out, data)
    announce(prepared, arguments["features"])
    with nothing_written(), stages(STAGES) as enter:
        enter(SEARCHING)
        start = time.monotonic()
        with kept(out, resume):
            estimator, warned = fit(prepared, arguments)
        seconds = time.monotonic() - start
        interrupted = findings.is_interrupted(estimator)
        findings.add(estimator, prepared, interrupted)
        made_from = origin(data, command)
        estimator.metadata_ = {**estimator.metadata_, "data": made_from.fingerprint}
        if interrupted and replaced:  # a half-trained model does not replace a good one
            out = Path(f"{out.resolve()}-interrupted")
            replaced = check_folder(out, data)
        if estimator.threshold_ is not None:
            note = about_threshold(prepared.positive, estimator.threshold_, options.cost_ratio)
            prepared = prepared._replace(notes=[*prepared.notes, note])
        if options.no_rows:
            estimator._jackknife = estimator._jackknife.of_one_width()
        enter(CHECKING)
        report = results.report_data(
            data, target, out, prepared, estimator, warned, seconds, options.fast
        )
        report = replace(report, origin=made_from)
        enter(WRITING)
    with nothing_written():
        stored, columns = report, prepared.columns
        if options.no_rows:
            stored = privacy.for_files(report, estimator)
            columns = privacy.columns_for_file(columns)
        out, files = folder.write_somewhere(out, estimator, columns, target, stored)
    if prepared.skipped and not options.no_rows:
        from decoupled_descent.app.cli.tables import SKIPPED
        from decoupled_descent.app.files.repairs import as_table

        write_text(out / SKIPPED, as_table(prepared.skipped))
    with written_to(out, interrupted, report.analyses.missing):
        if resume and not interrupted:
            clear(options.out)
        if options.as_json:
            echo_json(results.to_dict(report, target, files))
        else:
            results.show(console(), report, out, replaced, files)


def fit(prepared: TrainingTable, options: dict[str, Any]) -> tuple[Any, list[str]]:
    """Train an estimator; return it with the warnings that concern the user."""
    classes = prepared.task.has_classes
    kind: Any = dd.DecoupledClassifier if classes else dd.DecoupledRegressor
    known = {"verbose": sys.stderr.isatty(), "time_columns": prepared.time_columns}
    known |= prepared.task.options
    if prepared.positive:
        labels = set(prepared.y.tolist())
        known["positive"] = next(one for one in labels if str(one) == prepared.positive)
    elif "cost_ratio" in options:
        raise ValueError("--cost-ratio is for two classes; leave it out")
    estimator = kind(**known | options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(**prepared.given)
    lines = [" ".join(str(one.message).split()) for one in caught if _for_users(one.category)]
    return estimator, list(dict.fromkeys(lines))


def about_threshold(positive: str, chosen: Any, ratio: float | None) -> str:
    """A note on the threshold that a ratio of costs has chosen, and on its price."""
    found, right, cost = chosen.sensitivity, chosen.specificity, chosen.cost
    return (
        f"rows are predicted as {positive!r} from a probability of {chosen.value:.3g} on, where a "
        f"missed one costs {ratio:g} false alarms. On new rows, expect a cost of {cost.value:.3g} "
        f"false alarms per row ({cost.interval[0]:.3g} to {cost.interval[1]:.3g}), "
        f"{percent(found.value)} of the rows of {positive!r} found, and {percent(right.value)} of "
        "the others predicted right; the choice of the threshold is allowed for"
    )


def announce(prepared: TrainingTable, features: str = "auto") -> None:
    """Say how long training will take, and what memory, if that is more than half a minute."""
    from decoupled_descent.tables.features.candidates import AUTO as MAPS
    from decoupled_descent.tables.members.catalogue import AUTO
    from decoupled_descent.tables.members.interface import TableSize
    from decoupled_descent.tables.search.cost import (
        LONG,
        expected_bytes,
        expected_seconds,
        in_words,
        member_operations,
    )
    from decoupled_descent.tables.search.search import landmarks_of

    n, d, classes = len(prepared.y), prepared.X.shape[1], prepared.task.has_classes
    outputs = len(set(prepared.y.tolist())) if classes else 1
    kernels, default = 0 if features == "linear" else KERNELS, features == "auto"
    widths, outputs = [d, *[landmarks_of(n)] * kernels], 1 if outputs == 2 else outputs
    recipes = AUTO if default else ()
    others = member_operations(recipes, TableSize(n, d, outputs, classes))
    seconds = expected_seconds(n, widths, outputs, len(MAPS) if default else 1, others)
    if seconds > LONG:
        size = expected_bytes(n, widths, outputs) / 1e9
        typer.echo(
            f"training on {n:,} rows takes about {in_words(seconds)} and {size:.1f} GB of memory",
            err=True,
        )


def _for_users(category: type[Warning]) -> bool:
    """Leave out warnings for programmers, and those that the diagnosis repeats."""
    repeated = (dd.objective.KinkWarning, dd.DivergenceWarning)
    return issubclass(category, UserWarning | RuntimeWarning) and not issubclass(category, repeated)
