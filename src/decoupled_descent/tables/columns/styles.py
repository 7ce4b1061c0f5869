"""How the numbers of a column are written: $1,234.50, 12 %, 1.234,50 €, 85 kg, <0.5, 12:30.

One style is learnt for each column from the training rows. Later tables are read in this style, so
that 1,234 has the same meaning in all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Signs and codes of money, and the sign of percentages.
SIGNS = (
    r"(?:[$€£¥₹%]|US\$|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|AUD|CAD|NZD|BRL|ZAR)"
    r"|kr\.?|zł|Rs\.?|Fr\.)"
)
#: Names of styles: plain numbers and ISO dates have none. A unit may follow: 1,234.5 kg.
ENGLISH, EUROPEAN, CLOCK = "1,234.5", "1.234,5", "12:30"
NUMBER_STYLES = ("", ENGLISH, EUROPEAN, CLOCK)

#: A number above or below which nothing was measured: <0.5. 90+ is read like >90.
LIMIT = "[<>≤≥]"
_BEFORE, _AFTER = rf"\(?[+−-]? ?{SIGNS}? ?[+−-]?", rf" ?{SIGNS}?\)?"
_GAPS = "' \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_POWER = r"(?:[eE][+-]?\d{1,3})?"
PATTERNS = {
    ENGLISH: re.compile(
        rf"{_BEFORE}([1-9]\d{{0,2}}([,{_GAPS}]\d{{3}})+|\d+)?(\.\d*)?{_POWER}{_AFTER}"
    ),
    EUROPEAN: re.compile(
        rf"{_BEFORE}([1-9]\d{{0,2}}([.{_GAPS}]\d{{3}})+|\d+)(,\d*)?{_POWER}{_AFTER}"
    ),
}
TIME_OF_DAY = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d))?")
UNIT = re.compile(r"[^\W\d_](?:[^\W_]|[°²³/·.^*-]| (?=[^\W\d_])){0,14}|°[CFK]?")
WITH_UNIT = re.compile(rf"(.*\d[.,]?)( ?)({UNIT.pattern})")
#: 1234.5, 1e-3 and infinity.
PLAIN = re.compile(
    r"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?)\s*", re.ASCII | re.IGNORECASE
)
#: A few texts such as 316L and 304L may be codes. More texts than this are numbers with a unit.
MANY = 20


def plain_numbers(texts: Sequence[str]) -> Floats:
    """Read numbers such as 1234.5 or 1e-3, nan for other text."""
    values = [float(text) if PLAIN.fullmatch(text) else np.nan for text in texts]
    return np.array(values, np.float64)


def is_number_style(style: str) -> bool:
    """Whether this is the name of a style, with or without a unit."""
    base, _, unit = style.partition(" ")
    if not unit:
        return style in NUMBER_STYLES
    return base in (ENGLISH, EUROPEAN) and UNIT.fullmatch(unit) is not None


def only_one(text: str) -> str:
    """The decimal mark of a number if only one mark is possible, else an empty text.

    Example:
        >>> only_one("0,5 kg"), only_one("$1,234.50"), only_one("1,234"), only_one("Ulm, 5")
        (',', '.', '', '')
    """
    match = WITH_UNIT.fullmatch(text)
    number = match[1] if match else text
    if not re.search(r"\d", number):
        return ""
    english, european = (PATTERNS[style].fullmatch(number) for style in (ENGLISH, EUROPEAN))
    if english and not european and "." in number:
        return "."
    return "," if european and not english else ""


def number_style(texts: Sequence[str], mark: str = "") -> str:
    """Recognise how numbers are written, from the texts that only one style can read.

    If every text can be read in both styles, the decimal ``mark`` of the file decides. Without
    one, groups of three digits are thousands if they are money, or if they follow a comma.

    Example:
        >>> number_style(["$1,234.50", "17"]), number_style(["1,5", "2.000"]), number_style(["1.5"])
        ('1,234.5', '1.234,5', '')
        >>> number_style(["85 kg", "7.5 kg"]), number_style(["12:30", "8:05"])
        ('1,234.5 kg', '12:30')
    """
    plain = np.isnan(plain_numbers(texts))
    if mark == ",":  # 1.234 is not plain where the comma is the decimal mark
        plain |= ["." in text for text in texts]
    odd = [text for text, is_odd in zip(texts, plain, strict=True) if is_odd]
    if odd and all(TIME_OF_DAY.fullmatch(text) for text in odd) and len(odd) == len(texts):
        return CLOCK
    unit = _unit(odd)
    limits = [text for text in odd if re.match(LIMIT, text) or text.endswith("+")]
    odd = [_bare(text, unit) for text in odd if 2 * len(limits) < len(texts) or text not in limits]
    english = [PATTERNS[ENGLISH].fullmatch(text) is not None for text in odd]
    european = [PATTERNS[EUROPEAN].fullmatch(text) is not None for text in odd]
    only = sum(two and not one for one, two in zip(english, european, strict=True))
    if not only and not any(english):
        return ""
    sure = sum(one and not two for one, two in zip(english, european, strict=True))
    if only > sum(english) or (not sure and (mark == "," or _thousands(odd))):
        return f"{EUROPEAN} {unit}".strip()
    return f"{ENGLISH} {unit}".strip()  # 1,234 is more likely 1234 than 1.234


def _thousands(texts: list[str]) -> bool:
    """Whether points separate thousands: no amount of money has a thousandth of its unit."""
    pointed = [text for text in texts if "." in text]
    money = (re.search(SIGNS, text) and "%" not in text for text in pointed)
    return bool(pointed) and all(money) and all(re.search(r"\.\d{3}(?!\d)", t) for t in pointed)


def _unit(texts: list[str]) -> str:
    """The unit that all numbers with a unit have, in its most frequent spelling; or empty.

    The signs of money and percentages are units as well: beside 5 %, 7 kg is no number.
    """
    with_unit = []
    for text in texts:
        match = WITH_UNIT.fullmatch(text)
        if match and not re.fullmatch(SIGNS, match[3]):
            with_unit.append(match)
        elif re.search(SIGNS, text):
            return ""
    if len({_one(match[3]) for match in with_unit}) != 1 or re.fullmatch("[eE]", with_unit[0][3]):
        return ""
    if not any(match[2] for match in with_unit) and len(with_unit) <= MANY:
        return ""
    return Counter(match[3] for match in with_unit).most_common(1)[0][0]


def _one(unit: str) -> str:
    """A common form of year, years, yr. and Yrs."""
    return unit.casefold().rstrip(".").removesuffix("s")


def _bare(text: str, unit: str) -> str:
    """A number without its unit, and without the mark of a limit."""
    match = WITH_UNIT.fullmatch(text) if unit else None
    text = match[1] if match and _one(match[3]) == _one(unit) else text
    return re.sub(rf"^{LIMIT}=? ?|(?<=\d)\+$", "", text)


def read_numbers(texts: Sequence[str], style: str = "") -> Floats:
    """Read numbers in a style, nan for other text; (5) is −5, 12 % is 12 and 8:30 is 8.5.

    Example:
        >>> read_numbers(["$1,234.50", "(17)", "12 %", "<3", "x"], "1,234.5").tolist()
        [1234.5, -17.0, 12.0, 3.0, nan]
        >>> read_numbers(["1.234,5 kg", "3"], "1.234,5 kg").tolist()
        [1234.5, 3.0]
    """
    base, _, unit = style.partition(" ")
    if not style:
        return plain_numbers(texts)
    if style == CLOCK:
        clocks = [TIME_OF_DAY.fullmatch(text) for text in texts]
        return np.array([_hours(clock) if clock else np.nan for clock in clocks], dtype=np.float64)
    pattern, rewritten = PATTERNS[base], []
    for text in texts:
        number = _bare(text, unit)
        fits = pattern.fullmatch(number) and re.search(r"\d", number)
        power = re.search(r"[eE][+-]?\d+", number)
        body = number.replace(power[0], "") if power else number
        bare = re.sub(rf"{SIGNS}|[{_GAPS}()+−-]", "", body)
        point, comma = (".", ",") if base == ENGLISH else (",", ".")
        negative = "(" in body or "-" in body or "−" in body
        value = bare.replace(comma, "").replace(point, ".") + (power[0] if power else "")
        rewritten.append(("-" if negative else "") + value if fits else text)
    return plain_numbers(rewritten)


def _hours(clock: re.Match[str]) -> float:
    return int(clock[1]) + int(clock[2]) / 60 + int(clock[3] or 0) / 3600
