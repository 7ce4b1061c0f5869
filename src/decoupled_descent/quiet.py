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
    """The categories that the current thread leaves out."""

    def __init__(self) -> None:
        self.left_out: list[type[Warning]] = []


_CURRENT = _Current()


class _Asked(type):
    """A filter asks whether the category of a warning is derived from its own."""

    def __subclasscheck__(cls, category: type) -> bool:
        return any(issubclass(category, one) for one in _CURRENT.left_out)


class IgnoredWarning(Warning, metaclass=_Asked):
    """All categories that the current thread leaves out."""


_FILTER = ("ignore", None, IgnoredWarning, None, 0)


def _install() -> None:
    """Put the filter before all others, some of which may be new."""
    filters: list[object] = warnings.filters  # type: ignore[assignment]
    if not filters or filters[0] != _FILTER:
        filters.insert(0, _FILTER)


_install()


@contextmanager
def ignoring(category: type[Warning]) -> Iterator[None]:
    """Leave out warnings of a category in this thread."""
    _install()
    _CURRENT.left_out.append(category)
    try:
        yield
    finally:
        _CURRENT.left_out.pop()
