"""How the numbers and dates of a column are written: $1,234.50, 12 %, 1.234,50 €, 31/05/2024.

One style is learnt for each column from the training rows and kept, so that 1,234 has the same
meaning in every later table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SIGNS = "$€£¥₹%"
#: Names of styles: plain numbers and ISO dates have none.
ENGLISH, EUROPEAN = "1,234.5", "1.234,5"
DAY, MONTH, YEAR = "31/12/2024", "12/31/2024", "2024/12/31"
NUMBER_STYLES, DATE_STYLES = ("", ENGLISH, EUROPEAN), ("", DAY, MONTH, YEAR)

_BEFORE, _AFTER = rf"\(?[+−-]? ?[{SIGNS}]? ?[+−-]?", rf" ?[{SIGNS}]?\)?"
_GAPS = "' \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
PATTERNS = {
    ENGLISH: re.compile(rf"{_BEFORE}(\d{{1,3}}([,{_GAPS}]\d{{3}})+|\d+)?(\.\d*)?{_AFTER}"),
    EUROPEAN: re.compile(rf"{_BEFORE}(\d{{1,3}}([.{_GAPS}]\d{{3}})+|\d+)(,\d*)?{_AFTER}"),
}
#: What every number has: a digit, or the word infinity.
NUMERIC = re.compile(r"\d|inf", re.IGNORECASE)
ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
CALENDAR = re.compile(r"(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})((?:[ T]\d{2}:\d{2}.*)?)")


def plain_numbers(texts: Sequence[str]) -> Floats:
    """Read numbers such as 1234.5 or 1e-3, nan for other text."""
    if not any(NUMERIC.search(text) for text in texts):  # as in most columns of words
        return np.full(len(texts), np.nan)
    numbers = pd.to_numeric(pd.Series(list(texts), dtype=object), errors="coerce")
    found: Floats = numbers.to_numpy(dtype=np.float64)
    return found


def number_style(texts: Sequence[str]) -> str:
    """Recognise how numbers are written, from the texts that only one style can read.

    Example:
        >>> number_style(["$1,234.50", "17"]), number_style(["1,5", "2.000"]), number_style(["1.5"])
        ('1,234.5', '1.234,5', '')
    """
    plain = plain_numbers(texts)
    odd = [text for text, value in zip(texts, plain, strict=True) if np.isnan(value)]
    english = [PATTERNS[ENGLISH].fullmatch(text) is not None for text in odd]
    european = [PATTERNS[EUROPEAN].fullmatch(text) is not None for text in odd]
    only = sum(two and not one for one, two in zip(english, european, strict=True))
    if not only and not any(english):
        return ""
    return EUROPEAN if only > sum(english) else ENGLISH  # 1,234 is more likely 1234 than 1.234


def read_numbers(texts: Sequence[str], style: str = "") -> Floats:
    """Read numbers in a style, nan for other text; (5) is −5 and 12 % is 12.

    Example:
        >>> read_numbers(["$1,234.50", "(17)", "12 %", "x"], "1,234.5").tolist()
        [1234.5, -17.0, 12.0, nan]
    """
    if not style:
        return plain_numbers(texts)
    pattern, found = PATTERNS[style], []
    for text in texts:
        fits = pattern.fullmatch(text) and re.search(r"\d", text)
        bare = re.sub(rf"[{SIGNS}{_GAPS}()+−-]", "", text)
        point, comma = (".", ",") if style == ENGLISH else (",", ".")
        negative = "(" in text or "-" in text or "−" in text
        value = bare.replace(comma, "").replace(point, ".")
        found.append(("-" if negative else "") + value if fits else text)
    return plain_numbers(found)


def date_style(texts: Sequence[str]) -> str:
    """Recognise the order of day, month and year; empty if the texts do not show it.

    Example:
        >>> date_style(["31/05/2024", "01/02/2024"]), date_style(["01/02/2024"])
        ('31/12/2024', '')
    """
    parts = [found.groups() for text in texts if (found := CALENDAR.fullmatch(text))]
    if not parts or len(parts) < 0.5 * len(texts):
        return ""
    if all(len(year) == 4 for year, _, _, _ in parts):
        return "" if any(ISO.match(text) for text in texts) else YEAR
    if not all(len(first) <= 2 and len(last) == 4 for first, _, last, _ in parts):
        return ""
    first, second = (max(int(part[k]) for part in parts) for k in (0, 1))
    dots = all(text.count(".") >= 2 for text in texts if CALENDAR.fullmatch(text))
    if second <= 12 and (first > 12 or dots):
        return DAY
    return MONTH if second > 12 and first <= 12 else ""


def iso_dates(texts: Sequence[str], style: str = "") -> list[str]:
    """Rewrite dates of a style as 2024-05-31; leave other text alone.

    Example:
        >>> iso_dates(["31/05/2024 17:45", "?"], "31/12/2024")
        ['2024-05-31 17:45', '?']
    """
    order = {DAY: (2, 1, 0), MONTH: (2, 0, 1), YEAR: (0, 1, 2)}.get(style)
    if order is None:
        return list(texts)
    found = []
    for text in texts:
        match = CALENDAR.fullmatch(text)
        if match:
            year, month, day = (match.groups()[k] for k in order)
            text = f"{year}-{int(month):02}-{int(day):02}{match[4]}" if len(year) == 4 else text
        found.append(text)
    return found
