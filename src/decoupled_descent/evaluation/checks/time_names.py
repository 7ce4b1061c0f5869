"""Which names of columns mean the time of a row."""

from __future__ import annotations

import re

#: Words of a name that mean the time of a row, and words with which it is another time.
TIMES = {"date", "datetime", "time", "timestamp", "year", "yearmonth"}
ORIGINS = {"birth", "born", "built", "dob", "founded", "remod"}
OTHERS = ORIGINS | {"of", "to", "until", "since", "per"}


def words_of(name: str) -> set[str]:
    """The words of a name, in small letters.

    Example:
        >>> sorted(words_of("saleDate_2"))
        ['date', 'sale']
    """
    return set(re.findall("[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))


def is_other_time(name: str) -> bool:
    """Whether a date with this name is probably not when the row was collected."""
    return bool(words_of(name) & ORIGINS)


def is_time(name: str) -> bool:
    """Whether a column has the name of the time of a row.

    Example:
        >>> [is_time(name) for name in ("Year_Sold", "saleDate", "Year Built", "update", "times")]
        [True, True, False, False, False]
    """
    words = words_of(name)
    return bool(words & TIMES) and not words & OTHERS
