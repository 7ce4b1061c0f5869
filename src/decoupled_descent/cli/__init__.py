"""The command ``decoupled``.

A command's module imports only what its options need. PyTorch, pandas and matplotlib are imported
when the command runs, so that ``--help`` and mistyped options are answered at once.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from typing import Annotated

import typer

import decoupled_descent as dd
from decoupled_descent.cli import demo, diagnose, evolve, predict, probe, reproduce, train
from decoupled_descent.cli.options import StoppedError, harmless

#: The exit status after Ctrl-C, as shells define it: 128 plus the number of the signal.
INTERRUPTED = 130

app = typer.Typer(
    help="Training whose train error is an honest estimate of the test error.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (
    train.train,
    predict.predict,
    diagnose.diagnose,
    probe.probe,
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


def main() -> None:
    """Run the command; bad input gives one line on standard error and exit status 2."""
    arguments = sys.argv[1:] or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not every encoding has → and ✓
            stream.reconfigure(errors="replace")
    if threading.current_thread() is threading.main_thread():
        # an exit instead of a kill, so that temporary files are removed
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        status = app(arguments, standalone_mode=False) or 0
        if status == INTERRUPTED:
            _print_error("interrupted")
        sys.exit(status)
    except StoppedError as error:
        _print_error(harmless(f"interrupted; {error}"))
        sys.exit(INTERRUPTED)
    except KeyboardInterrupt:  # not handled by typer, for example while options are read
        _print_error("interrupted")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # typer's own errors: wrong options
        if usage is None and not isinstance(error, ValueError | OSError | MemoryError):
            raise
        text = usage() if usage is not None else str(error) or "there is not enough memory"
        text = harmless(" ".join(text.split()))
        if "--json" in arguments:
            typer.echo(json.dumps({"error": text}))
        _print_error(f"error: {text}")
        sys.exit(2)


def _print_error(text: str) -> None:
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False)
    console.print(text, style="red", soft_wrap=True)
