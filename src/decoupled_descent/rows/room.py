"""Room for large matrices: memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

#: Bytes from which a matrix is large enough to make room for it.
ROOM = 8 * 2**20
#: Bytes of pieces after which room is made again.
PASSED = 32 * 2**20


def make_room(size: int) -> None:
    """Return freed memory to the system before a large matrix of ``size`` bytes is made.

    The C library of Linux keeps freed matrices of up to 32 MB for later use, in a heap with holes.
    In a search on 20,000 × 2,000 rows these were a quarter of all memory.
    """
    trim = _trim()
    if trim is not None and size >= ROOM:
        trim(0)


def make_room_after(passed: int) -> int:
    """Make room once pieces of so many bytes were read; return the bytes read since then.

    The matrices that are made from pieces move through the holes of the heap and fill them.
    """
    if passed < PASSED:
        return passed
    make_room(passed)
    return 0


@cache
def _trim() -> Callable[[int], int] | None:
    """``malloc_trim`` of glibc; None on systems that do not have it."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found
