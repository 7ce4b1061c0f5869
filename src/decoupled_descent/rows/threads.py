r"""How many threads PyTorch uses: one for small matrices, the caller's number for large ones.

``torch.set_num_threads`` also sets what threads of Python that begin later start with, so two of
them could leave each other at one thread for good. The settings below it are per thread: OpenMP's
by its standard, and MKL's own. They are set here, and set back afterwards. ``threadpoolctl`` does
not reach them: under its limit of one thread, ``torch.get_num_threads()`` stays at two, because MKL
is a part of PyTorch's own library, which it does not list.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

#: Entries of X times (FETCHING + L) from which several threads are faster. Waking a thread costs
#: tens of microseconds, several times per step. On two cores, two threads break even at 3.0 million
#: entries for L = 2, 2.5 for L = 8 and 0.8 for L = 27, and at 4 million in the orthogonal and the
#: Newton method (studies/threads.py); small fits by Newton's method take twice as long with
#: two.
ENOUGH = 2**25
#: To fetch an entry of X from memory takes about as long as this many multiplications with it.
FETCHING = 8

#: The library of PyTorch that calls OpenMP and MKL, by the name of the system.
LIBRARIES = {"linux": "libtorch_cpu.so", "darwin": "libtorch_cpu.dylib"}


#: Whether this process was forked from one that may have used several threads.
_FORKED = threading.Event()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FORKED.set)


class _Setters(NamedTuple):
    """The functions that set numbers of threads for the thread that calls them."""

    openmp: Callable[[int], object]
    mkl: Callable[[int], int] | None  # returns what it was; None where MKL is not used


@contextmanager
def threads_for(entries: int, width: int) -> Iterator[None]:
    """Within this block, use one thread if X is small; else leave the number as it is.

    A forked process always uses one: the threads of its parent are gone, and OpenMP would wait for
    them for ever.

    Args:
        entries: The number of entries of X.
        width: L, the number of columns that X is multiplied by at once.

    Example:
        >>> with threads_for(1000 * 10, 3):
        ...     torch.get_num_threads()
        1
    """
    if entries * (FETCHING + width) >= ENOUGH and not _FORKED.is_set():
        yield
        return
    with one_thread():
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Within this block, the thread of Python that runs it computes on one thread."""
    before, setters = torch.get_num_threads(), _setters()  # the first call lets PyTorch set its own
    if before == 1 or setters is None:
        yield
        return
    setters.openmp(1)
    mkl = setters.mkl(1) if setters.mkl is not None else 0
    try:
        yield
    finally:
        if torch.get_num_threads() == 1:  # unless the caller's own code has set another number
            setters.openmp(before)
            if setters.mkl is not None:
                setters.mkl(mkl)


@cache
def _setters() -> _Setters | None:
    """Find the functions, and check that they do what they should; None where they do not."""
    before = torch.get_num_threads()
    try:
        path = Path(torch.__file__).parent / "lib" / LIBRARIES[sys.platform]
        library = ctypes.CDLL(str(path))  # loaded already; its own OpenMP is found through it
        openmp = library.omp_set_num_threads
    except (KeyError, OSError, AttributeError):
        return None
    openmp.argtypes, openmp.restype = [ctypes.c_int], None
    mkl = getattr(library, "MKL_Set_Num_Threads_Local", None)
    if mkl is not None:
        mkl.argtypes, mkl.restype = [ctypes.c_int], ctypes.c_int
    openmp(before + 1)
    works = torch.get_num_threads() == before + 1
    openmp(before)
    return _Setters(openmp, mkl) if works else None
