"""Ridges on a grid, tried downhill."""

from __future__ import annotations

from collections.abc import Callable, Iterator

#: Ridges are powers of ten in steps of half a decade: λ = 10^(STEP k) for whole numbers k.
STEP = 0.5


def downhill(error: Callable[[int], float], start: int, low: int, high: int) -> Iterator[int]:
    """Walk along a grid downwards while the error falls; if it never did, walk upwards.

    The error is taken to have one minimum: where it falls to one side, the other is not tried.

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
        >>> list(downhill(lambda k: (k + 2) ** 2, 0, -5, 5))
        [0, -1, -2, -3]
    """
    error(start)
    yield start
    for step in (-1, 1):
        best = start
        while low <= best + step <= high:
            following = best + step
            falls = error(following) < error(best)
            yield following
            if not falls:
                break
            best = following
        if best != start:
            return
