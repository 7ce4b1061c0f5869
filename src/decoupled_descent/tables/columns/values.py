"""The values of one column: recognise whether they are numbers, dates or text, and read them.

Errors name the column and the row, by the label of the row in the table's index.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from decoupled_descent.tables.columns.codes import PAIR, are_names, pair_of
from decoupled_descent.tables.columns.dates import date_style, iso_dates
from decoupled_descent.tables.columns.styles import number_style, plain_numbers, read_numbers

#: Texts that stand for a missing value, in lower case.
MARKERS = frozenset(
    {
        "", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "?", "??", "-", "--", "---", ".",
        "n.a.", "n.a", "n/k", "nil", "missing", "unknown", "unk", "not available", "not known",
        "not recorded", "not done", "n.d.", "k.a.", "tbd",
        "#value!", "#ref!", "#div/0!", "#name?", "#num!", "#null!",
    }
)  # fmt: skip
TRUTHS = {"true": 1.0, "false": 0.0}
LARGEST = 1e100  # squares and sums of such numbers are still finite
DIGITS = 7  # of an example
MOSTLY = 0.8  # if this fraction of the rows are numbers, other text is an error
DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}.*)?")
#: Numbers with commas and units, which are not text.
LIKELY = re.compile(r"[+-]?[$€£]? ?(\d+(,\d+)*(\.\d+)?|\d{1,3}(\.\d{3})*,\d+) ?[%$€£]?")
#: Text that is not a number or a date but was probably meant as one: <0.5, 85 kg; 31.05.2020.
MEANT_NUMBER = re.compile(
    r"[<>≤≥~±+-]{0,2} ?[$€£]? ?(\d{1,3}([.,' ]\d{3})+|\d+)([.,]\d+)? ?([^\W\d_]{2,5}|[%$€£])?"
)
MEANT_DATE = re.compile(
    r"(\d{4}[./-]\d{1,2}[./-]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2}))([ T].*)?"
)

Floats = NDArray[np.float64]


class BadCellError(ValueError):
    """A cell, a line or a class that can be left out with its row."""


class UnreadableCellError(BadCellError):
    """A text where numbers or dates are expected; it may stand for a missing value."""


def listed(names: Iterable[str]) -> str:
    """Write names in quotes, separated by commas; the first ten if there are more."""
    names = [repr(name) for name in names]
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" * (len(names) > 10))


def parse_numbers(texts: list[str], style: str = "") -> Floats:
    """Read numbers written as text, nan for other text; 1 and 0 if all are true or false."""
    if all(text.casefold() in TRUTHS for text in texts):
        return np.array([TRUTHS[text.casefold()] for text in texts], dtype=np.float64)
    return read_numbers(texts, style)


def parse_dates(texts: list[str], style: str = "") -> NDArray[np.datetime64]:
    """Read dates written as text, NaT for other text; times without a zone are taken as UTC."""
    texts = iso_dates(texts, style)
    likely = [text if DATE.fullmatch(text) else None for text in texts]
    if not any(likely):  # as in most columns of text
        return np.full(len(texts), "NaT", dtype="datetime64[us]")
    dates = pd.Series(likely, dtype=object)
    return _utc(pd.to_datetime(dates, format="ISO8601", utc=True, errors="coerce"))


def _utc(dates: pd.Series) -> NDArray[np.datetime64]:
    if dates.dt.tz is not None:
        dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
    return cast(NDArray[np.datetime64], dates.to_numpy().astype("datetime64[us]"))


def matches(pattern: re.Pattern[str], texts: list[str]) -> NDArray[np.bool_]:
    """Return which texts match a pattern as a whole."""
    return np.array([pattern.fullmatch(text) is not None for text in texts], dtype=bool)


def fraction(matching: NDArray[np.bool_], codes: NDArray[np.intp]) -> float:
    """Return the fraction of matching rows among those with a value; 1 if there are none.

    ``matching`` tells which of the different texts match; ``codes`` has the text of each row.
    """
    present = matching[codes[codes >= 0]]
    return float(present.mean()) if present.size else 1.0


def texts_of(
    column: pd.Series, markers: frozenset[str] = MARKERS
) -> tuple[NDArray[np.intp], list[str]]:
    """Return the index of each row's text, −1 if it is missing, and the different texts."""
    if types.is_object_dtype(column.dtype):
        column = column.map(lambda value: _text(column, value), na_action="ignore")
    codes, values = pd.factorize(column)
    texts = [str(value).strip() for value in np.asarray(values, dtype=object)]
    return _merge(codes, [None if text.casefold() in markers else text for text in texts])


def _text(column: pd.Series, value: object) -> str:
    if isinstance(value, list | tuple | dict | set | bytes | np.ndarray):
        what = "bytes" if isinstance(value, bytes) else "lists or other nested values"
        raise ValueError(
            f"column {column.name!r} holds {what}; spread them over columns of numbers or text, or "
            "leave the column out"
        )
    return str(value)


def _merge(codes: NDArray[np.intp], texts: list[Any]) -> tuple[NDArray[np.intp], list[str]]:
    """Give equal texts one number, and None the number −1."""
    merged, different = pd.factorize(np.array(texts, dtype=object))
    return np.append(merged, -1)[codes], list(different)


def levels(texts: list[str]) -> list[str]:
    """Return the texts with one spelling for 1, 1.0 and 01, and one for TRUE and true."""
    unified = []
    for text, number in zip(texts, plain_numbers(texts), strict=True):
        if math.isfinite(number):
            text = repr(float(number)).removesuffix(".0")
        unified.append(text.title() if text.casefold() in TRUTHS else text)
    return unified


def levels_of(column: pd.Series) -> tuple[NDArray[np.intp], list[str]]:
    """Like :func:`texts_of`, but 1, 1.0 and 01 are one value, and so are TRUE, True and true.

    Of several spellings of a value, the most frequent one is returned. If only capitals tell all
    values apart (the genotypes AA, Aa and aa), they are not merged.
    """
    codes, texts = spelt_levels_of(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    best = merged_spellings(dict(zip(texts, counts.tolist(), strict=True)))
    return _merge(codes, [best[text] for text in texts])


def spelt_levels_of(column: pd.Series) -> tuple[NDArray[np.intp], list[str]]:
    """Like :func:`levels_of`, but with every spelling of a value for itself."""
    codes, texts = texts_of(column)
    return _merge(codes, levels(texts))


def merged_spellings(counts: dict[str, int]) -> dict[str, str]:
    """The most frequent spelling of each value, given how often each spelling occurs.

    Example:
        >>> merged_spellings({"Yes": 5, "yes": 2, "no": 4})
        {'Yes': 'Yes', 'yes': 'Yes', 'no': 'no'}
        >>> merged_spellings({"AA": 5, "Aa": 2, "aa": 4})
        {'AA': 'AA', 'Aa': 'Aa', 'aa': 'aa'}
    """
    best: dict[str, str] = {}
    for text in sorted(counts, key=lambda text: (-counts[text], text)):
        best.setdefault(spelling(text), text)
    if len(best) == 1:
        return {text: text for text in counts}
    return {text: best[spelling(text)] for text in counts}


def apart_by_capitals(texts: Iterable[str]) -> str:
    """Name the values that differ only by capitals; empty if there are none.

    Example:
        >>> apart_by_capitals(["M", "F", "m"])
        "'M', 'm'"
    """
    texts = list(texts)
    alike = Counter(text.casefold() for text in texts)
    return listed(sorted(text for text in texts if alike[text.casefold()] > 1))


def _parsed(column: pd.Series, parse: Callable[[list[str]], Any], what: str, strict: bool) -> Any:
    """Parse every value, nan or NaT if it is missing; ``ValueError`` for a wrong one if strict."""
    codes, texts = texts_of(column)
    values = parse(texts)
    wrong = np.flatnonzero(np.isin(codes, np.flatnonzero(pd.isna(values))))
    if wrong.size and strict:
        raise UnreadableCellError(
            f"column {column.name!r}, row {column.index[wrong[0]]}: {texts[codes[wrong[0]]]!r:.60} "
            f"is not a {what}; correct it, or leave it empty if it is missing"
        )
    missing = np.full(1, "nan" if values.dtype.kind == "f" else "NaT", dtype=values.dtype)
    return np.append(values, missing)[codes]


def is_number(dtype: Any) -> bool:
    """Whether a column of this type holds real numbers or truth values."""
    return bool(types.is_numeric_dtype(dtype)) and not types.is_complex_dtype(dtype)


def numbers_of(column: pd.Series, style: str = "", strict: bool = True) -> Floats:
    """Read the values as numbers, nan where they are missing.

    Other text and numbers beyond ±1e100 raise ``ValueError`` if ``strict``; otherwise they are nan.
    """
    if is_number(column.dtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        values = np.where(np.isnan(values), np.nan, values)  # files may have NaNs that signal
    else:
        what = f"number such as {style or '1234.5'}"
        values = _parsed(column, partial(parse_numbers, style=style), what, strict)
    large = np.flatnonzero(np.abs(values) > LARGEST)
    if large.size and strict:
        raise BadCellError(
            f"column {column.name!r}, row {column.index[large[0]]}: {values[large[0]]:g} is "
            f"beyond ±{LARGEST:g}; correct it, or leave it empty if it is missing"
        )
    values[large] = np.nan
    return cast(Floats, values)


def dates_of(column: pd.Series, style: str = "", strict: bool = True) -> NDArray[np.datetime64]:
    """Read the values as dates, NaT where they are missing; other text as in numbers_of."""
    if types.is_datetime64_any_dtype(column.dtype):
        return _utc(column)
    parse = partial(parse_dates, style=style)
    dates = _parsed(column, parse, f"date such as {style or '2024-05-31'}", strict)
    return cast(NDArray[np.datetime64], dates)


def pairs_of(column: pd.Series, strict: bool = True) -> Floats:
    """Read pairs of numbers such as 120/80, shape (n, 2); other text as in numbers_of."""

    def part(texts: list[str], k: int) -> Floats:
        return np.array([pair_of(text)[k] for text in texts], dtype=np.float64)

    what = "pair of numbers such as 120/80"
    numbers = [_parsed(column, partial(part, k=k), what, strict) for k in (0, 1)]
    return np.stack(numbers, 1)


def style_of(column: pd.Series, kind: str, mark: str = "") -> str:
    """Recognise how numbers or dates are written; ``mark`` is the decimal mark of the file."""
    if is_number(column.dtype) or types.is_datetime64_any_dtype(column.dtype):
        return ""
    texts = texts_of(column)[1]
    return number_style(texts, mark) if kind == "number" else date_style(texts)


def example_of(texts: Iterable[str], style: str) -> str:
    """Say how one of the texts was read, the one that is least like a plain number."""
    texts = [text for text in texts if np.isnan(plain_numbers([text])[0])] or list(texts)
    if not texts:
        return ""
    text = max(texts, key=lambda text: (sum(not one.isdigit() for one in text), len(text), text))
    return f" ({text!r:.40} was read as {read_numbers([text], style)[0]:.{DIGITS}g})"


def spelling(text: str) -> str:
    """A common form for all spellings of a category: extra blanks and capitals are ignored.

    Example:
        >>> spelling("New  york ") == spelling("New York"), spelling("a") == spelling("A")
        (True, False)
    """
    text = " ".join(text.split())
    return text.casefold() if len(text) > 1 else text


def mark_missing(frame: pd.DataFrame, words: Iterable[str]) -> pd.DataFrame:
    """Make the cells missing that hold one of these words or numbers."""
    markers = {word.strip().casefold() for word in words}
    if not markers:
        return frame
    numbers = plain_numbers(sorted(markers))
    marked = frame.copy()
    for k in range(frame.shape[1]):
        column = frame.iloc[:, k]
        if is_number(column.dtype) and not types.is_bool_dtype(column.dtype):
            gone = column.isin(numbers[~np.isnan(numbers)])
        else:
            gone = column.map(
                lambda one: isinstance(one, str) and one.strip().casefold() in markers
            )
        if gone.any():
            marked.isetitem(k, column.mask(gone.to_numpy(dtype=bool)))
    marked.attrs = dict(frame.attrs)
    return marked


def meant_as(texts: list[str], codes: NDArray[np.intp]) -> str:
    """Say how to write text that was probably meant as dates or numbers; empty for words."""
    numbers = ~np.isnan(plain_numbers(texts)) | matches(MEANT_NUMBER, texts)
    for matching, what in (
        (matches(MEANT_DATE, texts), "dates: write all as 2024-05-31"),
        (numbers, "numbers: write all as 1234.5"),
    ):
        if texts and fraction(matching, codes) >= 0.5:
            return f"most look like {what}, or leave cells empty"
    return ""


def with_numpy_type(column: pd.Series) -> pd.Series:
    """Return a column of an Arrow type in a type of NumPy or pandas, others as they are."""
    if not isinstance(column.dtype, pd.ArrowDtype):
        return column
    import pyarrow  # installed, because the column has an Arrow type

    values = pyarrow.array(column).to_pandas()
    return values.set_axis(column.index).rename(column.name)


def kind_of(column: pd.Series, mark: str = "", with_numpy_type: bool = False) -> str:
    """Recognise what a column holds, by its type or by most of its texts.

    ``mark`` is the decimal mark of the file, empty if the file does not show it. In a ``plain``
    column 01067 is a number, and 120/80 is a text.
    """
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
    if are_names(texts) and not with_numpy_type:
        return "category"
    if not with_numpy_type and texts and fraction(matches(PAIR, texts), codes) >= MOSTLY:
        return "pair"
    numbers = ~np.isnan(parse_numbers(texts, number_style(texts, mark))) | matches(LIKELY, texts)
    if fraction(numbers, codes) >= MOSTLY:
        return "number"
    dates = parse_dates(texts, date_style(texts))
    return "date" if fraction(~np.isnat(dates), codes) >= MOSTLY else "category"
