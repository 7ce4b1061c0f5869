"""Freed memory goes back to the system before large matrices are made."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

#: Matrices of at least this size in bytes are large.
LARGE = 8 * 2**20
#: While rows are read, freed memory goes back after this number of bytes.
READ = 32 * 2**20


def return_freed_memory(size: int) -> None:
    """Return freed memory to the system before a large matrix of ``size`` bytes is made.

    The C library of Linux keeps freed matrices of up to 32 MB for later use, in a heap with holes.
    In a search on 20,000 × 2,000 rows these were a quarter of all memory.
    """
    trim = _trim()
    if trim is not None and size >= LARGE:
        trim(0)


def return_freed_memory_after(passed: int) -> int:
    """Return freed memory after every ``READ`` bytes; return the bytes read since the last time.

    The matrices that are made from pieces move through the holes of the heap and fill them.
    """
    if passed < READ:
        return passed
    return_freed_memory(passed)
    return 0


@cache
def _trim() -> Callable[[int], int] | None:
    """``malloc_trim`` of glibc; None on systems that do not have it."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim
