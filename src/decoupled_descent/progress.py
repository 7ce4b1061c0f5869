"""A progress bar on a terminal, silence in a pipe; one bar for work in several stages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

#: How far the present stage of some larger work is, as a share, and a note beside it.
_STAGE: ContextVar[Callable[[float, str], None] | None] = ContextVar("stage", default=None)


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
    outer = _STAGE.get()
    if not show_progress(wanted) or outer is not None:
        yield _draw_nothing if outer is None else lambda done, note: outer(done / total, note)
        return
    from rich import progress as rich  # a tenth of PyTorch's import time
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TaskProgressColumn() if total == 1000 else rich.MofNCompleteColumn(),
        rich.TimeRemainingColumn(),
        rich.TextColumn("{task.fields[note]}"),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)


def in_stages() -> bool:
    """Whether work is part of some larger work, which shows its progress."""
    return _STAGE.get() is not None


@contextmanager
def stages(shares: Mapping[str, float]) -> Iterator[Callable[[str], None]]:
    """Show work in several stages: one bar on a terminal, a line per stage in a pipe.

    Args:
        shares: The name of each stage, and about how much of the time it takes.

    Yields:
        ``enter(name)``: says that a stage begins. A :func:`progress_bar` within it moves the bar.
    """
    ends, total, drawn = {}, sum(shares.values()), sys.stderr.isatty()
    start = 0.0
    for name, share in shares.items():
        ends[name] = (start / total, (start + share) / total)
        start += share
    with progress_bar(1000, "training", drawn) as advance:

        def enter(name: str) -> None:
            first, last = ends[name]

            def move(done: float, note: str) -> None:
                at = first + (last - first) * min(1.0, done)
                advance(round(1000 * at), f"{name}: {note}" if note else name)

            _STAGE.set(move)
            move(0.0, "")
            if not drawn:
                print(name, file=sys.stderr, flush=True)

        token = _STAGE.set(None)
        try:
            yield enter
        finally:
            _STAGE.reset(token)
