"""Numbers that are no numbers: codes for missing values such as -999, zip codes, and pairs.

A code for a missing value is an isolated extreme value that is repeated: it consists of the same
digit (-9, 99, 999, 8888), it is the lowest or highest number of the column, it occurs in several
rows, and it is further from all other numbers than these are from each other; or it is the only
negative number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Codes for missing values that are in use.
CODE = re.compile(r"-?(9{2,}|8{2,}|7{2,})|-[1789]")
#: The fewest rows with a code, and the fewest other rows.
REPEATED, OTHERS = 3, 10
#: Numbers with leading zeros, all of the same length, are names: 01067. 07 may be a number.
PADDED = re.compile(r"0\d{2,}")
#: Two numbers in one cell, such as a blood pressure.
PAIR = re.compile(r"(\d{1,4}(?:\.\d+)?) ?/ ?(\d{1,4}(?:\.\d+)?)")


def missing_codes(values: Floats) -> tuple[float, ...]:
    """Return the codes for missing values among numbers; nan is missing already.

    Example:
        >>> missing_codes(np.array([*range(20, 60), -999, -999, -999.0]))
        (-999.0,)
        >>> missing_codes(np.array([*range(20, 90), 99, 99, 99.0]))  # may be an age
        ()
    """
    numbers, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    alike = np.array([CODE.fullmatch(f"{one:.15g}") is not None for one in numbers], dtype=bool)
    candidate = alike & (counts >= REPEATED)
    others = numbers[~candidate]
    if not candidate.any() or counts[~candidate].sum() < OTHERS or len(others) < 2:
        return ()
    low, high = others.min(), others.max()
    codes = (one for one in numbers[candidate] if _is_isolated(float(one), low, high))
    return tuple(map(float, codes))


def _is_isolated(value: float, low: float, high: float) -> bool:
    """Whether a number is further from a range than the range is wide, or alone negative."""
    gap = max(low - value, value - high)
    return bool(gap > high - low or (value <= -99 and low >= 0))


def are_names(texts: Sequence[str]) -> bool:
    """Whether digits are names, not numbers: some have leading zeros, and all the same length.

    Example:
        >>> are_names(["01067", "80331"]), are_names(["01", "12"]), are_names(["007", "12"])
        (True, False, False)
    """
    padded = any(PADDED.fullmatch(text) for text in texts)
    return padded and all(text.isdecimal() and len(text) == len(texts[0]) for text in texts)


def pair_of(text: str) -> tuple[float, float]:
    """The two numbers of a pair; nan for other text.

    Example:
        >>> pair_of("120/80"), pair_of("high")
        ((120.0, 80.0), (nan, nan))
    """
    match = PAIR.fullmatch(text)
    return (float(match[1]), float(match[2])) if match else (np.nan, np.nan)
