"""``decoupled train --resume``: the progress is saved until the training is complete."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from decoupled_descent.cli.options import harmless
from decoupled_descent.training.folders import kept_in

#: The name of the folder of checkpoints, inside the folder of the results.
FOLDER = "checkpoints"


@contextmanager
def kept(out: Path, wanted: bool, part: str = "") -> Iterator[None]:
    """Save every run of this block in the folder of the results, or in a part of it."""
    if not wanted:
        yield
        return
    folder = out / FOLDER
    try:
        with kept_in(folder / part):
            yield
    except (KeyboardInterrupt, SystemExit):  # Ctrl-C before there is a model; SIGTERM
        if folder.exists():
            said = f"interrupted; the progress is saved in {folder}; the same command continues it"
            typer.echo(harmless(said), err=True)
        raise


def clear(out: Path) -> None:
    """Remove the saved progress, once the results are written."""
    shutil.rmtree(out / FOLDER, ignore_errors=True)
