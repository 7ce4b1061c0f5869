"""All commands together, and what is printed when one of them fails or is interrupted.

A command's module imports only what its options need. PyTorch, pandas and matplotlib are imported
when the command runs, so that ``--help`` and mistyped options are answered at once.
"""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Annotated

import typer

import decoupled_descent as dd
from decoupled_descent.app.cli import (
    compare,
    demo,
    diagnose,
    evaluate,
    evolve,
    export,
    predict,
    reproduce,
    train,
)
from decoupled_descent.app.cli.options import StoppedError
from decoupled_descent.app.cli.signals import INTERRUPTED, interrupted
from decoupled_descent.app.cli.streams import output_error
from decoupled_descent.checks import harmless

#: What is said if results cannot be printed: they are printed last.
COMPLETE = "files that the command writes are complete"

app = typer.Typer(
    help="Training whose train error is an honest estimate of the test error.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (
    train.train,
    predict.predict,
    compare.compare,
    evaluate.evaluate,
    export.export,
    diagnose.diagnose,
    demo.demo,
    evolve.evolve,
    reproduce.reproduce,
):
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


def answer(arguments: list[str]) -> int:
    """Run a command; return its exit status: 0, 2 for bad input, 130 after Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not every encoding has → and ✓
            stream.reconfigure(errors="replace")
    try:
        status = app(arguments or ["--help"], standalone_mode=False) or 0
        if status == INTERRUPTED:
            _print_error("interrupted")
        sys.stdout.flush()
        return int(status)
    except StoppedError as error:
        _print_error(harmless(f"interrupted; {error}"))
        return INTERRUPTED
    except KeyboardInterrupt:  # not handled by typer, for example while options are read
        _print_error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        reason = output_error() if isinstance(error, OSError) else ""
        if reason:
            _print_error(f"error: standard output cannot be written ({reason}); {COMPLETE}")
            return 1
        usage = getattr(error, "format_message", None)  # typer's own errors: wrong options
        if usage is None and not isinstance(error, ValueError | OSError | MemoryError):
            if not interrupted():
                raise
            # what Ctrl-C in the middle of an import can become
            _print_error(harmless(f"interrupted ({type(error).__name__}: {error})"))
            return INTERRUPTED
        text = usage() if usage is not None else str(error) or "there is not enough memory"
        text = harmless(" ".join(text.split()))
        if "--json" in arguments:
            try:
                typer.echo(json.dumps({"error": text}))
            except OSError:  # the line below says what is wrong with the input
                output_error()
        _print_error(f"error: {text}")
        return 2


def _print_error(text: str) -> None:
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False)
    console.print(text, style="red", soft_wrap=True)
