"""The names of the columns of a table, as a file has them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from decoupled_descent.tables.columns.values import listed

UNNAMED = re.compile(r"Unnamed: \d+|")


def check_names(names: Sequence[str]) -> None:
    """Raise ``ValueError`` for numbers instead of names, and for names that occur twice.

    Example:
        >>> check_names(["age", "town", "", ""])
        >>> check_names(["age", "age"])
        Traceback (most recent call last):
        ValueError: more than one column is called 'age'; rename all but one
    """
    twice = [n for n, count in Counter(names).items() if count > 1 and not UNNAMED.fullmatch(n)]
    plain = pd.to_numeric(pd.Series(names, dtype=object), errors="coerce")
    if plain.notna().all() and ((plain % 1 != 0).any() or twice):
        raise ValueError("the first line has numbers; add a line with the names of the columns")
    if twice:
        raise ValueError(f"more than one column is called {listed(twice)}; rename all but one")
