"""Expected time of a search: operations in matrix products, over their measured speed.

Four parts are counted: the ranking of feature maps, the Newton fits, what each fit takes whatever
its size, and the other members, whose recipes say what they take. On simulated tables of 100 to
20,000 rows, 20 and 50 columns and 2 or 10 classes, forecasts were right to a factor of 2
(docs/results/tables.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from decoupled_descent.leave_one_out.linear_algebra import product_speed
from decoupled_descent.leave_one_out.minimum import DUAL, SQUARE
from decoupled_descent.leave_one_out.precondition import LEAD, SOFTMAX_LEAD
from decoupled_descent.tables.members.interface import Recipe, TableSize
from decoupled_descent.tables.search.ranking import NESTED, ranked_count

#: Newton steps per fit, fits per feature map, and rows that are refined: typical numbers.
STEPS, FITS, REFINED = 6, 3, 400
#: With more rows than this, ridges are chosen on this many rows, and all rows get one fit per map.
SAMPLED = 1000
#: Memory of Python, PyTorch and pandas alone, in bytes.
BASE = 4e8
#: A search that is expected to take more seconds than this is announced.
LONG = 30.0
#: A search takes about this many times as long as its matrix products alone.
OVERHEAD = 2.0
#: Operations for r³ of the ranking of a map on r rows; as many again if folds are left out.
RANKING = 10.0
#: Operations that take as long as a fit to very few rows.
SMALLEST = 1e9


def expected_seconds(
    n: int,
    widths: list[int],
    outputs: int,
    ranked: int = 0,
    members: float = 0.0,
    speed: float | None = None,
) -> float:
    """Seconds that a search takes, to a factor of about 2.

    Args:
        n: The number of rows.
        widths: The widths of the feature maps that are fitted.
        outputs: K.
        ranked: The number of feature maps that are ranked.
        members: Operations of the other members: see :func:`member_operations`.
        speed: Operations per second; measured by default.
    """
    fits, some = (FITS, 0) if n <= SAMPLED else (1, SAMPLED)
    work = sum(fits * fit_operations(n, width, outputs) for width in widths)
    if some:
        work += sum(FITS * fit_operations(some, width, outputs) for width in widths)
    work += ranked * RANKING * (1 + (n <= NESTED)) * ranked_count(n) ** 3
    return (work + members) / (speed or product_speed())


def member_operations(recipes: Iterable[Recipe], size: TableSize) -> float:
    """Operations of those recipes that suit a table."""
    return sum(one.operations(size) for one in recipes if one.suits(size))


def fit_operations(n: int, width: int, outputs: int) -> float:
    """Operations of a fit to n rows with a feature map of some width."""
    return OVERHEAD * outputs * _fit(n, min(n, width), outputs) + SMALLEST


def _fit(n: int, r: int, outputs: int = 1) -> float:
    """Operations of the matrix products of one fit, divided by the number of outputs."""
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
