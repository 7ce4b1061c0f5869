"""``decoupled train --resume``: what is trained is kept until all of it is done."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from decoupled_descent.cli.options import harmless
from decoupled_descent.training.folders import kept_in

#: The name of the folder in the folder of the results.
FOLDER = "checkpoints"


@contextmanager
def kept(out: Path, wanted: bool) -> Iterator[None]:
    """Keep every run that is made in this block in the folder of the results."""
    if not wanted:
        yield
        return
    folder = out / FOLDER
    try:
        with kept_in(folder):
            yield
    except (KeyboardInterrupt, SystemExit):  # Ctrl-C before there is a model; SIGTERM
        if folder.exists():
            said = f"cut short; what is done is kept in {folder}, and the same command continues "
            typer.echo(harmless(said) + "from there", err=True)
        raise


def clear(out: Path) -> None:
    """Remove what was kept, once the results are written."""
    shutil.rmtree(out / FOLDER, ignore_errors=True)
