"""The time limit of a search: when it stops to add candidates, and which were left out."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from decoupled_descent.checks import is_finite_number

#: The most candidates that a sentence names.
NAMED = 6


class Deadline:
    """The end of the time for candidates of a search.

    The clock is read between candidates only, so that a search may take longer: by the candidate
    that is trained when the time ends, and by the mixture of all.

    Args:
        seconds: The time, from now on; None for no limit.
        clock: Returns the present time in seconds.
        speed: Returns how many operations of matrix products take a second. With it, candidates
            that are expected to take more than the remaining time are left out as well.
        agree: Turns the answer of this process into that of all processes, which must leave out
            the same candidates.

    Example:
        >>> times = iter([0.0, 3.0, 6.0])
        >>> deadline = Deadline(5.0, clock=lambda: next(times))
        >>> deadline.leaves_out("rbf(1)"), deadline.leaves_out("random forest")
        (False, True)
        >>> deadline.left_out
        ['random forest']
    """

    def __init__(
        self,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        speed: Callable[[], float] = lambda: math.inf,
        agree: Callable[[bool], bool] = bool,
    ) -> None:
        self._clock, self._agree = clock, agree
        self._speed = functools.cache(speed)
        self._end = math.inf if seconds is None else clock() + seconds
        self._left_out: dict[str, None] = {}

    def leaves_out(self, candidate: str, operations: float = 0.0) -> bool:
        """Whether there is no time for a candidate, which is then listed as left out.

        ``operations`` are those that it is expected to take.
        """
        if math.isinf(self._end):
            return False
        late = self._clock() + operations / self._speed() >= self._end
        if not self._agree(late):
            return False
        self._left_out[candidate] = None
        return True

    @property
    def left_out(self) -> list[str]:
        """The candidates that were left out, each once, in the order of the search."""
        return list(self._left_out)


def check_time_limit(value: Any) -> None:
    """Raise ``ValueError`` unless the value is a positive number of seconds, or None.

    Example:
        >>> check_time_limit(0)
        Traceback (most recent call last):
        ValueError: time_limit=0 must be a positive number of seconds, or None
    """
    if value is not None and not (is_finite_number(value) and value > 0):
        raise ValueError(f"time_limit={value!r:.40} must be a positive number of seconds, or None")


def left_out_in_words(limit: float, candidates: Sequence[str]) -> str:
    """A sentence about the candidates that a time limit left out.

    Example:
        >>> left_out_in_words(5, ["rbf(1)", "random forest"])
        'the time limit of 5 s left out: rbf(1), random forest'
    """
    more = len(candidates) - NAMED
    names = ", ".join(candidates[:NAMED]) + f" and {more} more" * (more > 0)
    return f"the time limit of {limit:g} s left out: {names}"
