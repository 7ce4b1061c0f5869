"""How the dates of a column are written: 2024-05-31, 31/05/2024, 5/31/2024 1:05 PM, 5 Jan 2024.

One style is learnt for each column from the training rows. Later tables are read in this style.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

#: Names of styles: the order of day, month and year. ISO dates have none.
DAY, MONTH, YEAR, MONTHLY = "31/12/2024", "12/31/2024", "2024/12/31", "2024-12"
DATE_STYLES = ("", DAY, MONTH, YEAR, MONTHLY)
#: A month of a year. In 2023-24, 2024-25 the second number is that of the next year.
OF_MONTH = re.compile(r"(19|20)\d{2}-(0[1-9]|1[0-2])")
ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
CALENDAR = re.compile(r"(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})((?:[ T]\d{2}:\d{2}.*)?)")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
#: 5 Jan 2024, 05-Jan-2024; January 5, 2024.
NAMED_MONTH = re.compile(
    r"(?:(?P<day>\d{1,2})[ ./-]{1,2}(?P<month>[a-z]{3,9})[ .,/-]{1,3}"
    r"|(?P<name>[a-z]{3,9})\.? (?P<date>\d{1,2}),? )(?P<year>\d{4})(?P<rest>(?:[ T].*)?)",
    re.IGNORECASE,
)
HALF_DAYS = re.compile(r"(.*[ T])(\d{1,2})(:\d{2}(?::\d{2})?) ?([ap])\.?m\.?", re.IGNORECASE)


def date_style(texts: Sequence[str]) -> str:
    """Recognise the order of day, month and year; empty if the texts do not show it.

    Example:
        >>> date_style(["31/05/2024", "01/02/2024"]), date_style(["01/02/2024"])
        ('31/12/2024', '')
        >>> date_style(["2024-05", "2024-11"]), date_style(["2010-11", "2011-12"])
        ('2024-12', '')
    """
    months = [text for text in texts if OF_MONTH.fullmatch(text)]
    if months and len(months) > 0.5 * len(texts):
        seasons = all(int(text[5:]) == (int(text[:4]) + 1) % 100 for text in months)
        return "" if seasons else MONTHLY
    clear = [ISO.match(text) or NAMED_MONTH.fullmatch(text) for text in texts]
    texts = [text for text, is_clear in zip(_spelt_out(texts), clear, strict=True) if not is_clear]
    parts = [match.groups() for text in texts if (match := CALENDAR.fullmatch(text))]
    if not parts or len(parts) < 0.5 * len(texts):
        return ""
    if all(len(year) == 4 for year, _, _, _ in parts):
        return "" if any(clear) else YEAR
    parts = [part for part in parts if len(part[0]) <= 2]
    if not all(len(last) == 4 for _, _, last, _ in parts):
        return ""
    first, second = (max(int(part[k]) for part in parts) for k in (0, 1))
    dots = all(text.count(".") >= 2 for text in texts if CALENDAR.fullmatch(text))
    if second <= 12 and (first > 12 or dots):
        return DAY
    return MONTH if second > 12 and first <= 12 else ""


def _spelt_out(texts: Sequence[str]) -> list[str]:
    """Rewrite 5 Jan 2024 as 2024-01-05 and 1:05 PM as 13:05; leave other text alone."""
    rewritten = []
    for text in texts:
        half = HALF_DAYS.fullmatch(text)
        if half and 1 <= int(half[2]) <= 12:
            hour = int(half[2]) % 12 + 12 * (half[4].casefold() == "p")
            text = f"{half[1]}{hour:02}{half[3]}"
        text = re.sub(r"(?<=\d[ T])(\d:\d{2})", r"0\1", text)
        named = NAMED_MONTH.fullmatch(text)
        name = (named["month"] or named["name"])[:3].casefold() if named else ""
        if named and name in MONTHS:
            day = int(named["day"] or named["date"])
            text = f"{named['year']}-{MONTHS.index(name) + 1:02}-{day:02}{named['rest']}"
        rewritten.append(text)
    return rewritten


def iso_dates(texts: Sequence[str], style: str = "") -> list[str]:
    """Rewrite dates of a style as 2024-05-31; leave other text alone.

    Example:
        >>> iso_dates(["31/05/2024 5:45 pm", "5 Jan 2024", "?"], "31/12/2024")
        ['2024-05-31 17:45', '2024-01-05', '?']
    """
    order, rewritten = {DAY: (2, 1, 0), MONTH: (2, 0, 1), YEAR: (0, 1, 2)}.get(style), []
    for text in _spelt_out(texts):
        if style == MONTHLY and OF_MONTH.fullmatch(text):
            text = f"{text}-01"
        match = CALENDAR.fullmatch(text) if order else None
        if match and order:
            positions = (0, 1, 2) if len(match[1]) == 4 else order
            year, month, day = (match.groups()[k] for k in positions)
            text = f"{year}-{int(month):02}-{int(day):02}{match[4]}" if len(year) == 4 else text
        rewritten.append(text)
    return rewritten


def moments(texts: Sequence[str], style: str = "") -> NDArray[np.datetime64]:
    """Read dates of a style without pandas, NaT for other text; times without a zone are in UTC.

    Example:
        >>> moments(["31/05/2024 5:45 pm", "?"], "31/12/2024").astype(str).tolist()
        ['2024-05-31T17:45:00.000000', 'NaT']
    """
    found = np.full(len(texts), "NaT", "datetime64[us]")
    for k, text in enumerate(iso_dates(texts, style)):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            continue
        found[k] = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    return found
