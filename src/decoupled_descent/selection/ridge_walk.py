"""Ridges on a grid, tried downhill: for the search of the estimators and for ``tune``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

#: Ridges are powers of ten in steps of half a decade: λ = 10^(STEP k) for whole numbers k.
STEP = 0.5


def downhill(error: Callable[[int], float], start: int, low: int, high: int) -> Iterator[int]:
    """Walk along a grid from a start to the lower neighbour, until both neighbours are worse.

    Args:
        error: The error at a point of the grid; called again for points that were visited.
        start: The first point.
        low: The lowest point of the grid.
        high: The highest point of the grid.

    Yields:
        Every point that was tried, once, after its error was computed.

    Example:
        >>> list(downhill(lambda k: (k - 2) ** 2, 0, -5, 5))
        [0, -1, 1, 2, 3]
    """
    best, tried = start, set()
    while True:
        near = [point for point in (best, best - 1, best + 1) if low <= point <= high]
        for point in near:
            if point not in tried:
                tried.add(point)
                error(point)
                yield point
        following = min(near, key=error)
        if following == best:
            return
        best = following
