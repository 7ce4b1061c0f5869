"""A progress bar on a terminal, silence in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)


def show_progress(wanted: bool | None) -> bool:
    """Decide whether to draw: as asked, or only when standard error is a terminal."""
    return sys.stderr.isatty() if wanted is None else wanted


def _ignore(done: int, note: str) -> None:
    """Take a report of progress and draw nothing."""


@contextmanager
def progress_bar(
    total: int, description: str, wanted: bool | None = None
) -> Iterator[Callable[[int, str], None]]:
    """Draw a progress bar on standard error while the body runs.

    Args:
        total: How many units of work there are.
        description: What is being done.
        wanted: True or False to force; None draws on a terminal and stays quiet in a pipe.

    Yields:
        ``advance(done, note)``: sets how many units are done and a short note beside the bar.
    """
    if not show_progress(wanted):
        yield _ignore
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(description, total=total, note="")

        def advance(done: int, note: str) -> None:
            progress.update(task, completed=done, note=note)

        yield advance
