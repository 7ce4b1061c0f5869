"""Expected time of a search: operations in matrix products, over their measured speed."""

from __future__ import annotations

import time

import torch

from decoupled_descent.leave_one_out.minimum import DUAL, SQUARE
from decoupled_descent.leave_one_out.precondition import LEAD, SOFTMAX_LEAD

#: Newton steps per fit, fits per feature map, and rows that are refined: typical numbers.
STEPS, FITS, REFINED = 6, 3, 400
#: With more rows than this, ridges are chosen on this many rows, and all rows get one fit per map.
SAMPLED = 2000
#: Memory of Python, PyTorch and pandas alone, in bytes.
BASE = 4e8
#: A search that is expected to take more seconds than this is announced.
LONG = 30.0
#: A search takes about this many times as long as its matrix products alone.
OVERHEAD = 2.0


def expected_seconds(n: int, widths: list[int], outputs: int) -> float:
    """Seconds that a search takes with feature maps of the given widths, to a factor of about 2."""
    fits, some = (FITS, 0) if n <= SAMPLED else (1, SAMPLED)
    work = sum(fits * _fit(n, min(n, width), outputs) for width in widths)
    work += sum(FITS * _fit(some, min(some, width), outputs) for width in widths)
    return OVERHEAD * outputs * work / _speed()


def _fit(n: int, r: int, outputs: int = 1) -> float:
    """Operations of one fit, divided by the number of outputs; zero without rows."""
    refined = min(REFINED, n / 3)
    if DUAL * n < r and n <= SQUARE:  # a factor per step, and an inverse at the minimum
        return STEPS * n**3 / 3 + 4 * n**3 + 8 * n**2 * refined
    lead = min(r, LEAD if outputs == 1 else SOFTMAX_LEAD)
    return STEPS * 2 * n * r * lead + 80 * n * r + 3 * n * r**2 + 10 * n * r * refined


def expected_bytes(n: int, widths: list[int], outputs: int) -> float:
    """Bytes of memory that a search takes, to a factor of about 2: features, and V.

    Every map has its features in memory; one fit at a time has the matrices of the leave-one-out.
    """
    kept = sum(8.0 * n * min(n, width) for width in widths)
    largest = max(min(n, width) for width in widths)
    if n <= SQUARE and (outputs > 1 or DUAL * n < largest):
        return BASE + 2 * kept + 8.0 * n**2 * (4 + 2 * outputs)
    return BASE + 2 * kept + 8.0 * 3 * (outputs * largest) ** 2


def _speed(size: int = 400) -> float:
    """Operations per second of a product of matrices in float64, the best of a few tries.

    A single one may have waited for other processes.
    """
    square, taken = torch.ones(size, size, dtype=torch.float64), []
    for _ in range(5):
        start = time.perf_counter()
        square @ square
        taken.append(time.perf_counter() - start)
    return 2.0 * size**3 / max(min(taken), 1e-9)


def in_words(seconds: float) -> str:
    """A duration in words.

    Example:
        >>> in_words(95), in_words(9000)
        ('2 minutes', '2.5 hours')
    """
    if seconds < 5400:
        minutes = max(1, round(seconds / 60))
        return f"{minutes} minute{'s' * (minutes > 1)}"
    return f"{seconds / 3600:.1f} hours"
