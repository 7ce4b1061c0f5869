"""What is left after Ctrl-C: nothing, the progress (``--resume``), or a model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from decoupled_descent.app.cli.options import StoppedError
from decoupled_descent.checks import harmless

#: The name of the folder of checkpoints, inside the folder of the results.
FOLDER = "checkpoints"


@contextmanager
def nothing_written() -> Iterator[None]:
    """Say after Ctrl-C in this block that nothing was written: earlier results stay as they are."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise StoppedError("nothing was written") from error


@contextmanager
def written_to(folder: Path, interrupted: bool, missing: Sequence[str]) -> Iterator[None]:
    """Say after Ctrl-C in this block, or before it, where the results are, and if all are there."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise StoppedError(f"the results are in {folder}") from error
    if interrupted:
        raise StoppedError(f"the results so far are in {folder}")
    if missing:
        raise StoppedError(f"the model is complete, but not the report, in {folder}")


@contextmanager
def kept(out: Path, wanted: bool) -> Iterator[None]:
    """Save every run of this block in the folder of the results."""
    if not wanted:
        yield
        return
    from decoupled_descent.training.checkpoint import kept_in

    folder = out / FOLDER
    saved = f"the progress is saved in {folder}; the same command continues it"
    try:
        with kept_in(folder):
            yield
    except (KeyboardInterrupt, SystemExit) as error:  # Ctrl-C before there is a model; SIGTERM
        if folder.exists() and isinstance(error, KeyboardInterrupt):
            raise StoppedError(saved) from error
        if folder.exists():
            typer.echo(harmless(f"interrupted; {saved}"), err=True)
        raise


def clear(out: Path) -> None:
    """Remove the saved progress, once the results are written."""
    shutil.rmtree(out / FOLDER, ignore_errors=True)
