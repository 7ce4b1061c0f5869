"""``decoupled predict``: apply a saved model to a table."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from decoupled_descent.app.cli.column_names import renamed
from decoupled_descent.app.cli.options import (
    Data,
    Json,
    Sheet,
    argument,
    cannot_write,
    must_exist,
    option,
)
from decoupled_descent.app.cli.training_options import check_ratio
from decoupled_descent.checks import harmless
from decoupled_descent.files import written_whole
from decoupled_descent.tensor_file import MODEL_FILE, model_file, read_header

if TYPE_CHECKING:
    import pandas as pd

    from decoupled_descent.app.cli.predictions import Predictions
    from decoupled_descent.tables.columns.rules import Columns
    from decoupled_descent.tables.prediction.saved import PredictionModel

#: Endings of a file of predictions. All of them are written as CSV.
SUFFIXES = (".csv", ".txt", "")


Model = Annotated[
    Path, argument(metavar="MODEL", help="Folder that train wrote, or the model file in it.")
]
Out = Annotated[
    Path | None,
    option(metavar="FILE", help="CSV file to write or overwrite; by default, print."),
]


Threshold = Annotated[
    float | None,
    option(
        metavar="NUMBER",
        help="Predict the class to find from this probability on; by default that chosen in "
        "training, or the more probable class.",
    ),
]
CostRatio = Annotated[
    float | None,
    option(metavar="NUMBER", help="Cost of a missed case in units of a false alarm."),
]


def predict(
    model: Model,
    data: Data,
    out: Out = None,
    sheet: Sheet = None,
    threshold: Threshold = None,
    cost_ratio: CostRatio = None,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table with a saved model.

    Columns may be in any order, and columns that the model does not know are ignored. If the table
    has the target, the actual error is compared with the estimate made at training.
    """
    must_exist(model, data)
    if out is not None:
        check_file(out, (data, model, model / MODEL_FILE))
    from decoupled_descent.app.files.standard_input import table_path

    with table_path(data) as path:
        _predict(model, path, out, sheet, as_json, limit_of(threshold, cost_ratio))


def limit_of(threshold: float | None, cost_ratio: float | None) -> float | None:
    """The threshold that was asked for: itself, or that of the lowest cost.

    With right probabilities, a row whose case costs r false alarms if missed should be flagged from
    a probability of 1 / (1 + r) on.
    """
    if threshold is not None and cost_ratio is not None:
        raise ValueError("--threshold and --cost-ratio cannot be given together; leave out one")
    if threshold is not None and not 0 < threshold < 1:
        raise ValueError(f"--threshold {threshold:g} must be between 0 and 1")
    check_ratio(cost_ratio)
    return threshold if cost_ratio is None else 1 / (1 + cost_ratio)


def _predict(
    model: Path, data: Path, out: Path | None, sheet: str | None, as_json: bool,
    threshold: float | None = None,
) -> None:  # fmt: skip
    """Predict a table in a file, and write or print the result."""
    about, _ = read_header(model_file(model))
    from decoupled_descent.app.files.opening import open_table

    columns = _columns(about)
    reader = open_table(data, usual="" if columns is None else columns.mark, sheet=sheet)
    if out is None and not reader.in_memory:
        raise ValueError(
            f"{data}: it has {reader.size / 1e6:,.0f} MB and is read in pieces; use --out FILE for "
            "its predictions"
        )
    if reader.in_memory and columns is not None:
        _check_columns(columns, reader.first_pass().sample, data)
    from decoupled_descent.app.cli import predictions
    from decoupled_descent.app.cli.left_out import (
        FOREIGN,
        NOT_RECOGNISED,
        is_foreign,
        left_out_file,
        predictions_of_training_rows,
    )
    from decoupled_descent.app.cli.output import echo_json
    from decoupled_descent.tables.prediction.saved import read_model

    saved, text = predictions.with_threshold(read_model(model), threshold), StringIO()
    before = partial(predictions_of_training_rows, model)
    try:
        with nullcontext(text) if out is None else _to_file(out) as file:
            predicted = predictions.predict(saved, reader, file, before)
    except ValueError as error:
        raise ValueError(f"{data}: {error}") from error
    if not reader.in_memory and left_out_file(model).exists():
        predicted.notes.append(NOT_RECOGNISED)
    elif is_foreign(model):
        predicted.notes.append(FOREIGN)
    if as_json:
        echo_json(predictions.to_dict(saved, predicted) | {"file": out})
    else:
        _show(saved, predicted, text.getvalue(), out)


def _columns(about: str) -> Columns | None:
    """The rules for columns in a model's description, or None: the model itself is read later."""
    from decoupled_descent.tables.columns.rules import Columns

    try:
        return Columns.from_dict(json.loads(about)["columns"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _check_columns(columns: Columns, frame: pd.DataFrame, data: Path) -> None:
    """Raise ``ValueError`` if a table lacks columns of a model, before PyTorch is imported."""
    wanted = [column.name for column in columns.columns]
    try:
        columns.table(frame.rename(columns=renamed(wanted, map(str, frame.columns))))
    except ValueError as error:
        raise ValueError(f"{data}: {error}") from error


@contextmanager
def _to_file(out: Path) -> Iterator[TextIO]:
    """A file that is written whole or not at all."""
    try:
        with written_whole(out) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise cannot_write(out, error) from error


def _show(saved: PredictionModel, predicted: Predictions, text: str, out: Path | None) -> None:
    """Print the notes, the predictions or the name of their file, and the actual error."""
    from decoupled_descent.app.cli import actual_error
    from decoupled_descent.app.cli.output import console, few

    if out is None:
        _check_printable(text)
    screen = console(stderr=True)
    for note in few(predicted.notes, "--json"):
        screen.print(f"note: {note}", soft_wrap=True)
    if out is None:
        typer.echo(harmless(text) if sys.stdout.isatty() else text, nl=False)
    else:
        screen = console()
        screen.print(f"{predicted.rows:,} predictions: {out}", soft_wrap=True)
    if predicted.actual is not None:
        actual_error.show(screen, saved, predicted.actual)


def check_file(out: Path, inputs: tuple[Path, ...]) -> None:
    """Raise ``OSError`` if a file cannot be written, or is one of those that are read."""
    if out.is_dir():
        raise OSError(f"--out {out}: is a folder; name a file")
    if out.exists() and any(one.exists() and out.samefile(one) for one in inputs):
        raise OSError(f"--out {out}: is read by this command; name another file")
    if out.suffix.lower() not in SUFFIXES:
        raise OSError(f"--out {out}: predictions are written as CSV; name a file ending in .csv")
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise OSError(f"--out {out}: cannot write there; name a file in a folder that exists")


def _check_printable(text: str) -> None:
    """Raise ``ValueError`` if the encoding of standard output lacks a character of the text."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"standard output has the encoding {error.encoding}, which lacks "
            f"{text[error.start]!r}; use --out FILE"
        ) from error
