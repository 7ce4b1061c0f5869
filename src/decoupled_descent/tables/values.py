"""The values of one column: recognise whether they are numbers, dates or text, and read them.

Errors name the column and the row, by the table's index.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

#: Texts that stand for a missing value, in lower case.
MARKERS = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "?", "-", "missing"})
TRUTHS = {"true": 1.0, "false": 0.0}
LARGEST = 1e100  # squares and sums of such numbers are still finite
MOSTLY = 0.8  # from this share on, text that is not a number is a mistake rather than a category
DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}.*)?")
#: Numbers, with commas and units: nobody means these as text.
LIKELY = re.compile(r"[+-]?[$€£]? ?(\d+(,\d+)*(\.\d+)?|\d{1,3}(\.\d{3})*,\d+) ?[%$€£]?")
#: What is no number or date here, but seems to be meant as one: <0.5, 85 kg, 1'005; 31.05.2020.
MEANT_NUMBER = re.compile(
    r"[<>≤≥~±+-]{0,2} ?[$€£]? ?(\d{1,3}([.,' ]\d{3})+|\d+)([.,]\d+)? ?([^\W\d_]{2,5}|[%$€£])?"
)
MEANT_DATE = re.compile(
    r"(\d{4}[./-]\d{1,2}[./-]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2}))([ T].*)?"
)

Floats = NDArray[np.float64]


def listed(names: Iterable[str], most: int = 10) -> str:
    """Names in quotes, the first few if there are many."""
    names = [repr(name) for name in names]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" * (len(names) > most))


def parse_numbers(texts: list[str]) -> Floats:
    """Numbers written as text, nan for anything else; true and false count if there is no other."""
    if all(text.casefold() in TRUTHS for text in texts):
        return np.array([TRUTHS[text.casefold()] for text in texts], dtype=np.float64)
    return _parse_plain(texts)


def _parse_plain(texts: list[str]) -> Floats:
    numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce")
    return cast(Floats, numbers.to_numpy(dtype=np.float64))


def parse_dates(texts: list[str]) -> NDArray[np.datetime64]:
    """Dates written as text, NaT for anything else; times without a zone are taken as UTC."""
    likely = pd.Series([text if DATE.fullmatch(text) else None for text in texts], dtype=object)
    return _utc(pd.to_datetime(likely, format="ISO8601", utc=True, errors="coerce"))


def _utc(dates: pd.Series) -> NDArray[np.datetime64]:
    if dates.dt.tz is not None:
        dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
    return cast(NDArray[np.datetime64], dates.to_numpy().astype("datetime64[us]"))


def texts_of(
    column: pd.Series, markers: frozenset[str] = MARKERS
) -> tuple[NDArray[np.intp], list[str]]:
    """The different values as stripped texts, and which of them each row has, −1 if missing."""
    if types.is_object_dtype(column.dtype):
        column = column.map(lambda value: _text(column, value), na_action="ignore")
    codes, values = pd.factorize(column)
    texts = [str(value).strip() for value in np.asarray(values, dtype=object)]
    return _merge(codes, [None if text.casefold() in markers else text for text in texts])


def _text(column: pd.Series, value: object) -> str:
    if isinstance(value, list | tuple | dict | set | bytes | np.ndarray):
        raise ValueError(
            f"column {column.name!r} holds values of type {type(value).__name__}; spread them over "
            "columns of numbers or text, or delete the column"
        )
    return str(value)


def _merge(codes: NDArray[np.intp], texts: list[Any]) -> tuple[NDArray[np.intp], list[str]]:
    """Give equal texts one number, and None the number −1."""
    merged, different = pd.factorize(np.array(texts, dtype=object))
    return np.append(merged, -1)[codes], list(different)


def levels(texts: list[str]) -> list[str]:
    """The texts, with one spelling for 1, 1.0 and 01, and one for TRUE and true."""
    found = []
    for text, number in zip(texts, _parse_plain(texts), strict=True):
        if math.isfinite(number):
            text = repr(float(number)).removesuffix(".0")
        found.append(text.title() if text.casefold() in TRUTHS else text)
    return found


def levels_of(column: pd.Series) -> tuple[NDArray[np.intp], list[str]]:
    """As :func:`texts_of`, but 1, 1.0 and 01 are one value, and TRUE and true are another."""
    codes, texts = texts_of(column)
    return _merge(codes, levels(texts))


def _parsed(column: pd.Series, parse: Callable[[list[str]], Any], what: str) -> Any:
    """Parse every value, nan or NaT where it is missing, or say which is wrong."""
    codes, texts = texts_of(column)
    values = parse(texts)
    wrong = np.flatnonzero(np.isin(codes, np.flatnonzero(pd.isna(values))))
    if wrong.size:
        raise ValueError(
            f"column {column.name!r}, row {column.index[wrong[0]]}: {texts[codes[wrong[0]]]!r:.60} "
            f"is not a {what}; correct it, or leave it empty if it is missing"
        )
    return np.append(values, values.dtype.type("nan" if values.dtype.kind == "f" else "NaT"))[codes]


def is_number(dtype: Any) -> bool:
    """Whether a column of this type holds real numbers or truth values."""
    return bool(types.is_numeric_dtype(dtype)) and not types.is_complex_dtype(dtype)


def numbers_of(column: pd.Series) -> Floats:
    """The values as numbers, nan where they are missing."""
    if is_number(column.dtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = _parsed(column, parse_numbers, "number such as 1234.5")
    large = np.flatnonzero(np.abs(values) > LARGEST)
    if large.size:
        raise ValueError(
            f"column {column.name!r}, row {column.index[large[0]]}: {values[large[0]]:g} is "
            f"beyond ±{LARGEST:g}; correct it, or leave it empty if it is missing"
        )
    return cast(Floats, values)


def dates_of(column: pd.Series) -> NDArray[np.datetime64]:
    """The values as dates, NaT where they are missing."""
    if types.is_datetime64_any_dtype(column.dtype):
        return _utc(column)
    return cast(NDArray[np.datetime64], _parsed(column, parse_dates, "date such as 2024-05-31"))


def meant_as(texts: list[str], counts: NDArray[np.intp]) -> str:
    """Say how to write what at least half of the rows seem to be meant as; nothing for words."""
    numbers = ~np.isnan(_parse_plain(texts))
    for found, pattern, what in (
        (False, MEANT_DATE, "dates: write all as 2024-05-31"),
        (numbers, MEANT_NUMBER, "numbers: write all as 1234.5"),
    ):
        found = found | np.array(
            [pattern.fullmatch(text) is not None for text in texts], dtype=bool
        )
        if 2 * counts[found].sum() >= max(1, counts.sum()):
            return f"most look like {what}, or leave them empty, to use them as such"
    return ""


def plain(column: pd.Series) -> pd.Series:
    """The column in a type of NumPy or of pandas itself, if it is one of Arrow."""
    if not isinstance(column.dtype, pd.ArrowDtype):
        return column
    import pyarrow  # is there, or there would be no such column

    values = pyarrow.array(column).to_pandas()
    return values.set_axis(column.index).rename(column.name)


def kind_of(column: pd.Series) -> str:
    """Recognise what a column holds, by its type or by most of its texts."""
    dtype = column.dtype
    if is_number(dtype):
        return "number"
    if types.is_datetime64_any_dtype(dtype):
        return "date"
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if not types.is_object_dtype(dtype) and not types.is_string_dtype(dtype):
        raise ValueError(
            f"column {column.name!r} has the type {dtype}; turn it into numbers, dates or text, or "
            "delete it"
        )
    codes, texts = texts_of(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    good = ~np.isnan(parse_numbers(texts))
    if not good.all():
        good |= [LIKELY.fullmatch(text) is not None for text in texts]
    if counts[good].sum() >= MOSTLY * counts.sum():
        return "number"
    if counts[~np.isnat(parse_dates(texts))].sum() >= MOSTLY * counts.sum():
        return "date"
    return "category"
