"""A progress bar on a terminal, silence in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def _draw_nothing(done: int, note: str) -> None:
    """Take a report of progress."""


def show_progress(wanted: bool | None) -> bool:
    """Decide whether to draw: as asked, or only when standard error is a terminal."""
    return sys.stderr.isatty() if wanted is None else wanted


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
        yield _draw_nothing
        return
    from rich import progress as rich  # a tenth of PyTorch's import time
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeRemainingColumn(),
        rich.TextColumn("{task.fields[note]}"),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)
