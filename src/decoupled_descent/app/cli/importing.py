"""Quicker imports for a process that runs one command.

Python's garbage collector would search the modules again and again while they are imported, and
once more at the end.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def imports() -> Iterator[None]:
    """In this block, modules are imported. They are no garbage, so nothing looks for some.

    Afterwards garbage is collected as before, but not among the modules.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
