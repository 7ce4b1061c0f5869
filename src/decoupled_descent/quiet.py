"""Warnings of one thread are left out, while other threads show theirs.

``warnings.catch_warnings`` changes the filters of all threads, so that fits in several threads
would have to wait for each other. Here one filter is installed for good. It asks which warnings the
current thread leaves out at the moment; usually none.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class _Current(threading.local):
    """What the current thread leaves out: categories with the start of their messages."""

    def __init__(self) -> None:
        self.left_out: list[tuple[type[Warning], str]] = []
        self.text = ""


_CURRENT = _Current()


class _Message:
    """Stands where a filter has a regular expression for the message."""

    def match(self, text: str) -> bool:
        """Remember the message; the category decides."""
        _CURRENT.text = text
        return True


class _LeftOut(type):
    """Stands where a filter has a category: those that the current thread leaves out."""

    def __subclasscheck__(cls, category: type) -> bool:
        return any(
            issubclass(category, one) and _CURRENT.text.startswith(start)
            for one, start in _CURRENT.left_out
        )


_FILTER = ("ignore", _Message(), _LeftOut("LeftOut", (Warning,), {}), None, 0)


def _install() -> None:
    """Put the filter before all others, some of which may be new."""
    filters: list[object] = warnings.filters  # type: ignore[assignment]
    if not filters or filters[0] is not _FILTER:
        filters.insert(0, _FILTER)


_install()


@contextmanager
def ignoring(category: type[Warning], message: str = "") -> Iterator[None]:
    """Leave out the warnings of this thread of a category, if their message starts with a text."""
    _install()
    _CURRENT.left_out.append((category, message))
    try:
        yield
    finally:
        _CURRENT.left_out.pop()
