"""The command ``decoupled``."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer
from rich.console import Console

import decoupled_descent as dd
from decoupled_descent.cli.diagnosis import diagnose
from decoupled_descent.cli.examples import demo, evolve, train_replications
from decoupled_descent.cli.figures import reproduce
from decoupled_descent.cli.output import output_folder
from decoupled_descent.cli.prediction import predict
from decoupled_descent.cli.training import train

__all__ = ["app", "main", "output_folder", "train_replications"]

app = typer.Typer(
    help="Training whose train error is an honest estimate of the test error.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (train, predict, diagnose, demo, evolve, reproduce):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(dd.__version__)
        raise typer.Exit


@app.callback()
def _decoupled(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Take the options that come before a command."""


def main() -> None:
    """Run the command; bad input gets one line on standard error and exit status 2."""
    arguments = sys.argv[1:] or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not every encoding has → and ✓
            stream.reconfigure(errors="replace")
    try:
        sys.exit(app(arguments, standalone_mode=False) or 0)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # typer's own errors: wrong options
        if usage is None and not isinstance(error, ValueError | OSError | MemoryError):
            raise
        console = Console(stderr=True, highlight=False, markup=False)
        text = usage() if usage is not None else str(error) or "there is not enough memory"
        console.print(f"error: {' '.join(text.split())}", style="red", soft_wrap=True)
        sys.exit(2)
