"""Sheets whose names are in two rows, as below merged cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from decoupled_descent.tables.columns.values import listed

Row = Sequence[Any]


def joined_names(rows: list[Row]) -> tuple[list[Row], list[str]]:
    """Make one row of two rows of names; other sheets stay as they are. Return sentences, too.

    Both rows have texts only, each column has a name in one of them, some names of the first row
    are missing, and the texts of the second one are above numbers. The second row names a column,
    or the first one where it is empty; names that would occur twice have both. Titles above are
    left out.

    Example:
        >>> sheet = [["blood", None, "ill"], ["hb", "crp", None], [13.1, 0.4, "no"]]
        >>> joined_names(sheet)[0]
        [['hb', 'crp', 'ill'], [13.1, 0.4, 'no']]
    """
    first = next((k for k, row in enumerate(rows) if sum(map(is_filled, row)) > 1), len(rows))
    if first + 2 >= len(rows):
        return rows, []
    columns = list(zip_longest(*rows[first : first + 3]))
    upper, lower, below = (list(row) for row in zip(*columns, strict=True))
    names = [one for one in (*upper, *lower) if is_filled(one)]
    gaps = [not is_filled(one) for one in upper]
    is_header = (
        all(isinstance(name, str) for name in names)
        and any(gaps)
        and all(is_filled(b) for b, gap in zip(lower, gaps, strict=True) if gap)
        and any(
            is_filled(b) and is_filled(c) and not isinstance(c, str)
            for b, c in zip(lower, below, strict=True)
        )
    )
    if not is_header:
        return rows, []
    above, carried = "", []
    for name in upper:
        above = name if is_filled(name) else above
        carried.append(above)
    pairs = list(zip(carried, lower, strict=True))
    short = [str(b if is_filled(b) else a).strip() for a, b in pairs]
    counts = Counter(short)
    made = [
        name if counts[name] == 1 or not is_filled(b) else f"{str(a).strip()} {name}".strip()
        for name, (a, b) in zip(short, pairs, strict=True)
    ]
    note = f"the names of the columns are from rows {first + 1} and {first + 2}: {listed(made)}"
    return [made, *rows[first + 2 :]], [note]


def is_filled(cell: Any) -> bool:
    """Whether a cell has a value."""
    return cell is not None and cell != ""
