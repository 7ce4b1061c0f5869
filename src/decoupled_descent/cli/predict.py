"""``decoupled predict``: apply a saved model to a table."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from decoupled_descent.cli.options import Data, Json, cannot_write, harmless, must_exist
from decoupled_descent.files import write_text, written_whole

if TYPE_CHECKING:
    from decoupled_descent.tables.pieces import Pieces

if TYPE_CHECKING:
    from decoupled_descent.cli.predictions import Predictions
    from decoupled_descent.estimators.saving import SavedModel

#: Endings of a file of predictions. All of them are written as CSV.
SUFFIXES = (".csv", ".txt", "")


Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="Folder that train wrote, or the model file in it.",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="CSV file to write or overwrite; by default, print."),
]


def predict(model: Model, data: Data, out: Out = None, as_json: Json = False) -> None:
    """Predict the rows of a table with a saved model.

    Columns may be in any order, and columns that the model does not know are ignored. If the table
    has the target, the actual error is compared with the estimate made at training.
    """
    must_exist(model, data)
    from decoupled_descent.cli import predictions
    from decoupled_descent.cli.left_out import seen_before
    from decoupled_descent.cli.output import echo_json
    from decoupled_descent.estimators.saving import MODEL_FILE, load_model
    from decoupled_descent.tables.pieces import pieces_of
    from decoupled_descent.tables.reading import read_table

    if out is not None:
        check_file(out, (data, model, model / MODEL_FILE))
    pieces = pieces_of(data)
    if pieces is not None:
        predict_pieces(model, pieces, out, as_json)
        return
    saved, frame = load_model(model), read_table(data)
    try:
        found = predictions.predict(saved, frame, partial(seen_before, model))
    except ValueError as error:
        raise ValueError(f"{data}: {error}") from error
    table, shielded = predictions.without_formulas(found.table)
    if shielded:
        found.notes.append(predictions.FORMULAS.format(shielded))
    text = table.to_csv(index=False, lineterminator="\n")
    if out is not None:
        _write(out, text)
    if as_json:
        echo_json(predictions.to_dict(saved, found) | {"file": out})
    else:
        _show(saved, found, text, out)


def _write(out: Path, text: str) -> None:
    try:
        write_text(out, text)
    except OSError as error:
        raise cannot_write(out, error) from error


def _show(saved: SavedModel, found: Predictions, text: str, out: Path | None) -> None:
    """Print the notes, the predictions or the name of their file, and the actual error."""
    from decoupled_descent.cli import predictions
    from decoupled_descent.cli.output import console, few

    if out is None:
        _check_printable(text)
    screen = console(stderr=True)
    for note in few(found.notes, "--json"):
        screen.print(f"note: {note}", soft_wrap=True)
    if out is None:
        typer.echo(harmless(text) if sys.stdout.isatty() else text, nl=False)
    else:
        screen = console()
        screen.print(f"{len(found.table):,} predictions: {out}", soft_wrap=True)
    if found.actual is not None:
        predictions.show(screen, saved, found.actual)


def predict_pieces(model: Path, pieces: Pieces, out: Path | None, as_json: bool) -> None:
    """Predict a table that is read in pieces, and say what was noticed."""
    from decoupled_descent.cli import large_predictions, predictions
    from decoupled_descent.cli.output import console, echo_json, few
    from decoupled_descent.estimators.saving import load_model

    if out is None:
        raise ValueError(
            f"{pieces.path}: it has {pieces.size / 1e6:,.0f} MB and is read in pieces; use --out "
            "FILE for its predictions"
        )
    saved = load_model(model)
    try:
        with written_whole(out) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            written = large_predictions.predict(saved, model, pieces, file)
    except ValueError as error:
        raise ValueError(f"{pieces.path}: {error}") from error
    except OSError as error:
        raise cannot_write(out, error) from error
    if as_json:
        echo_json(large_predictions.to_dict(saved, written) | {"file": out})
        return
    for note in few(written.notes, "--json"):
        console(stderr=True).print(f"note: {note}", soft_wrap=True)
    console().print(f"{written.rows:,} predictions: {out}", soft_wrap=True)
    if written.actual is not None:
        predictions.show(console(), saved, written.actual)


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
