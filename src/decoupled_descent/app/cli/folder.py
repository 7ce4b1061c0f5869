"""The folder of a training: all of its files are written, or none."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from decoupled_descent.app.cli.destination import CARD, FILES, LEFT_OUT, failure
from decoupled_descent.app.cli.left_out import checksum
from decoupled_descent.app.cli.options import cannot_write
from decoupled_descent.app.cli.signals import Postponed
from decoupled_descent.app.report import ReportData, write_report
from decoupled_descent.app.report.card import model_card
from decoupled_descent.checks import harmless
from decoupled_descent.files import locked, permissions, sync, temporary_folder, write_text
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.estimators.saving import save_model
from decoupled_descent.tensor_file import MODEL_FILE


def write(
    out: Path, estimator: Any, columns: Columns, target: str, report: ReportData
) -> dict[str, Path]:
    """Write all files to a temporary folder, and move them to ``out`` when they are complete.

    Returns the files by name.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(out if out.exists() else out.parent) as partial:
            left_out = None
            if report.rows.in_files:
                write_text(partial / LEFT_OUT, report.rows.as_csv)
                left_out = checksum(partial / LEFT_OUT)
            save_model(estimator, partial / MODEL_FILE, columns, target, left_out=left_out)
            for name, write_page in PAGES.items():
                _attempt(partial / name, write_page, report)
            os.chmod(partial, permissions(0o777))
            written = [name for name in FILES if (partial / name).exists()]
            _move(partial, out, written)
            sync(out)
            sync(out.parent)
    except OSError as error:
        raise cannot_write(out, error) from error
    return {name: out / name for name in written}


#: The pages about a model, which need not be written for it to be saved.
PAGES: dict[str, Callable[[Path, ReportData], object]] = {
    "report.html": write_report,
    CARD: lambda path, report: write_text(path, model_card(report)),
}


def _attempt(
    path: Path, write_page: Callable[[Path, ReportData], object], report: ReportData
) -> None:
    """Write a page; if it cannot be made, say so and go on: the model must not be lost."""
    try:
        write_page(path, report)
    except OSError:
        raise
    except Exception as error:
        path.unlink(missing_ok=True)
        typer.echo(harmless(f"warning: {path.name} was not written ({failure(error)})"), err=True)


def _move(partial: Path, out: Path, written: list[str]) -> None:
    """Give the folder its name, or move its files to the folder that has it.

    Files of an earlier training that this one has not written are removed.
    """
    try:
        partial.rename(out)
    except OSError:  # the folder exists
        with locked(out, wait=True), Postponed():
            for name in FILES:
                if name in written:
                    (partial / name).replace(out / name)
                else:
                    (out / name).unlink(missing_ok=True)


def write_somewhere(
    out: Path, estimator: Any, columns: Columns, target: str, report: ReportData
) -> tuple[Path, dict[str, Path]]:
    """Write the results; if that fails, ask on the terminal for another folder, and try again.

    Without a terminal, the results go to the system's temporary folder, and the error says where.
    Returns the folder and the files by name.
    """
    while True:
        try:
            return out, write(out, estimator, columns, target, report)
        except OSError as error:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                rescued = _rescued(estimator, columns, target, report)
                raise OSError(f"{error}{rescued}") from error
            typer.echo(harmless(f"{error}. The model is trained and in memory."), err=True)
            answer = typer.prompt("Another folder (empty to give up)", default="", err=True)
            if not answer.strip():
                raise
            out = Path(answer.strip()).expanduser()


def _rescued(estimator: Any, columns: Columns, target: str, report: ReportData) -> str:
    """Write the results to a temporary folder; return where, or an empty text if that fails too."""
    folder: Path | None = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="decoupled-"))
        write(folder, estimator, columns, target, report)
    except OSError:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        return ""
    return f"; the results are in {folder}: move them to a disk with free space"
