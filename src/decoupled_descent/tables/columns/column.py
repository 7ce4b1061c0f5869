"""One column of a table, and the rule by which it becomes columns of numbers."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from decoupled_descent.tables.columns.codes import are_names, missing_codes
from decoupled_descent.tables.columns.cycles import CYCLES, cycle_columns, learn_cycles
from decoupled_descent.tables.columns.dates import DATE_STYLES
from decoupled_descent.tables.columns.styles import CLOCK, is_number_style
from decoupled_descent.tables.columns.values import (
    LARGEST,
    Floats,
    apart_by_capitals,
    dates_of,
    example_of,
    kind_of,
    levels_of,
    meant_as,
    numbers_of,
    pairs_of,
    parse_dates,
    spelling,
    spelt_levels_of,
    style_of,
    texts_of,
)
from decoupled_descent.tables.columns.words import MOST_TERMS, is_wordy, learn_terms, tf_idf

KINDS = ("number", "date", "category", "presence", "text", "pair")
LEVELS = 20  # the most values of a text column that get a column each
NEARLY = 0.9  # text with at least this fraction of different values identifies the rows
FEWEST, FRACTION = 5, 0.01  # missing values are marked from this number and fraction on
SHORTEST = 10  # with fewer rows, 1, 2, 3, … is a feature and not a row number
LONG = 100  # with at least this number of rows, 1001, 1002, … in any order are row numbers
IDENTIFIER = re.compile(
    r"(^|[\W_])(id|nr|no|number|index)([\W_]|$)|(id|nr|number|index)$", re.IGNORECASE
)
#: Names of columns that identify patients, customers and the like.
REPEATED = re.compile(
    r"(?i:(^|[\W_])ids?$)|[a-z](Id|ID)$|(?i:(^|[\W_])(mrn|ssn|pid|uid|nhs)$)|(?i:^(patient|subject|person|user|customer|client|household|"
    r"family|animal|student|participant|donor|batch|device|session)([\W_]*(nr|no|num|number|code|"
    r"key))?$)"
)
#: Names that end with a word for an identifier, such as patient_id, MRN, "case number", Patient-Nr.
NAMED = re.compile(
    r"(?i:(^|[\W_])(ids?|nr|no|num|number|nummer|index|key|code|mrn|ssn|pid|uid|uuid|nhs)\W*$)"
    r"|[a-z](Id|ID|Nr|No)$"
)
ALL_DIFFERENT = "whole numbers that are different in every row"
REPEATS = "identifiers that occur in several rows"
#: Numbers further outside the range of training than this share of it are noted.
BEYOND = 0.5
DAY = np.timedelta64(86_400_000_000, "us")


@dataclass(frozen=True)
class Column:
    """How one column of the table becomes columns of the matrix.

    A column of the kind ``"presence"`` only says whether it has a value.
    """

    name: str
    kind: str  # one of KINDS
    fill: float = 0.0  # replaces missing numbers and (in days) dates: their median
    missing: bool = False  # whether a further column marks missing values
    origin: str = ""  # the earliest date, for dates
    levels: tuple[str, ...] = ()  # values with one column each, for categories
    other: bool = False  # whether one column stands for all other values
    style: str = ""  # how numbers or dates are written, if not as 1234.5 and 2024-05-31
    terms: tuple[str, ...] = ()  # words with one column each, for free text
    weights: tuple[float, ...] = ()  # of the words
    cycles: tuple[str, ...] = ()  # of dates: the hour, the weekday, the season
    codes: tuple[float, ...] = ()  # numbers that stand for missing values, such as -999
    low: float = -LARGEST  # the lowest number in training
    high: float = LARGEST  # the highest one
    second: float = 0.0  # replaces the missing second numbers of pairs

    def __post_init__(self) -> None:
        texts = (self.name, self.kind, self.origin, self.style, *self.levels, *self.terms)
        texts += tuple(self.cycles)
        right = all(isinstance(text, str) for text in texts)
        right &= all(isinstance(flag, bool) for flag in (self.missing, self.other))
        numbers = (self.fill, *self.weights, *self.codes, self.low, self.high, self.second)
        right &= all(isinstance(v, int | float) and not isinstance(v, bool) for v in numbers)
        right = right and (
            self.kind in KINDS
            and all(-LARGEST <= one <= LARGEST for one in numbers)
            and self.low <= self.high
            and len(set(self.levels)) == len(self.levels) <= LEVELS
            and bool(self.levels) == (self.kind == "category")
            and bool(self.origin) == (self.kind == "date")
            and (not self.origin or str(parse_dates([self.origin])[0]) == self.origin)
            and (self.kind == "category" or not self.other)
            and [*self.cycles] == [one for one in CYCLES if one in self.cycles]
            and (self.kind == "date" or not self.cycles)
            and (self.kind != "presence" or self.missing)
            and (
                self.style in (DATE_STYLES if self.kind == "date" else ("",))
                or (self.kind == "number" and is_number_style(self.style))
            )
            and bool(self.terms) == (self.kind == "text")
            and len(set(self.terms)) == len(self.terms) == len(self.weights) <= MOST_TERMS
            and all(0 < weight < LARGEST for weight in self.weights)
        )
        if not right:
            raise ValueError(f"the column {self!r:.200} is not valid; train the model again")

    @property
    def outputs(self) -> list[str]:
        """Names of the columns made from this one."""
        names = [self.name] if self.kind in ("number", "date") else []
        names += [f"{self.name}_1", f"{self.name}_2"] if self.kind == "pair" else []
        names += [f"{self.name}_{one}_{wave}" for one in self.cycles for wave in ("sin", "cos")]
        names += [f"{self.name}={level}" for level in self.levels]
        names += [f"{self.name}:{term}" for term in self.terms]
        names += [f"{self.name}=other"] if self.other else []
        return names + ([f"{self.name}_missing"] if self.missing else [])

    def apply(self, column: pd.Series, strict: bool = True) -> Floats:
        """Return the columns made from this one, shape (n, len(outputs)).

        Values of another kind raise ``ValueError`` if ``strict``; otherwise they are missing.
        """
        result = np.zeros((len(column), len(self.outputs)))
        if self.kind == "category":
            codes, texts = spelt_levels_of(column)
            exact = {level: k for k, level in enumerate(self.levels)}
            alike = {spelling(level): k for level, k in exact.items()}
            unknown = len(self.levels) if self.other else -1
            missing = result.shape[1] - 1 if self.missing else -1
            outputs = (exact.get(text, alike.get(spelling(text), unknown)) for text in texts)
            positions = np.array([*outputs, missing])[codes]
            rows = np.flatnonzero(positions >= 0)
            result[rows, positions[rows]] = 1.0
        elif self.kind == "pair":
            pairs = pairs_of(column, strict)
            result[:, :2] = np.where(np.isnan(pairs), [self.fill, self.second], pairs)
            if self.missing:
                result[:, 2] = np.isnan(pairs[:, 0])
        elif self.kind == "presence":
            result[:, 0] = texts_of(column)[0] < 0
        elif self.kind == "text":
            codes, texts = texts_of(column)
            result[:, : len(self.terms)] = tf_idf([*texts, ""], self.terms, self.weights)[codes]
            if self.missing:
                result[:, -1] = codes < 0
        else:
            values = self.values(column, strict)
            absent = np.isnan(values)
            result[:, 0] = np.where(absent, self.fill, values)
            if self.cycles:
                dates = dates_of(column, self.style, strict)
                result[:, 1 : 1 + 2 * len(self.cycles)] = cycle_columns(dates, self.cycles)
            if self.missing:
                result[:, -1] = absent
        return result

    def values(self, column: pd.Series, strict: bool = True) -> Floats:
        """Return numbers, or dates in days, nan where they are missing."""
        if self.kind == "number":
            values = numbers_of(column, self.style, strict)
            return np.where(np.isin(values, self.codes), np.nan, values) if self.codes else values
        return (dates_of(column, self.style, strict) - np.datetime64(self.origin, "us")) / DAY

    def coded(self, column: pd.Series) -> NDArray[np.bool_]:
        """Return which rows have a code for a missing value."""
        if not self.codes:
            return np.zeros(len(column), dtype=bool)
        return np.isin(numbers_of(column, self.style, strict=False), self.codes)

    def outside(self, values: Floats) -> NDArray[np.bool_]:
        """Return which numbers are far from all of training, or have a sign that none had."""
        margin = BEYOND * (self.high - self.low)
        below = (values < self.low - margin) | ((values < 0) & (self.low >= 0))
        return below | (values > self.high + margin)

    def filled(self, absent: int) -> str:
        """Say how ``absent`` missing values were replaced."""
        marks = f", and marked by {self.name + '_missing'!r}" if self.missing else ""
        unit = " days" if self.origin else ""
        return f"{_count(absent)} replaced by the median, {self.fill:g}{unit}{marks}"


def learn_column(
    column: pd.Series, mark: str = "", plain: bool = False
) -> tuple[Column | None, str]:
    """Return how to treat a column and a note; or None and the reason to drop it.

    ``mark`` is the decimal mark of the file, empty if the file does not show it. In a ``plain``
    column -999 and 01067 are numbers, and 120/80 is a text.
    """
    kind = kind_of(column, mark, plain)
    if kind == "category":
        return _learn_category(column, plain)
    if kind == "pair":
        return _learn_pairs(column)
    origin, style = "", style_of(column, kind, mark)
    if kind == "number":
        values = numbers_of(column, style)
        codes = () if plain else missing_codes(values)
        counted = {code: int((values == code).sum()) for code in codes}
        values = np.where(np.isin(values, codes), np.nan, values)
    else:
        codes, counted = (), {}
        dates = dates_of(column, style)
        earliest = np.datetime64(pd.Series(dates).min(), "us")
        origin = "" if np.isnat(earliest) else str(earliest)
        values = (dates - earliest) / DAY
    present = values[~np.isnan(values)]
    absent = len(values) - len(present)
    marked = absent >= max(FEWEST, FRACTION * len(values))
    if not present.size:
        return None, "without values"
    start = _numbering(values, column.index) if kind == "number" and not plain else None
    if start is not None and (
        -1 <= start <= 1 or len(values) >= LONG or IDENTIFIER.search(column.name)
    ):
        return None, "row numbers"
    if kind == "number" and not plain and is_repeated(column.name, present):
        return None, REPEATS
    if kind == "number" and not plain and are_all_different(column.name, present):
        return None, f"{ALL_DIFFERENT} ({undo(column.name)} if they mean something)"
    if (present == present[0]).all():
        if not marked:
            return None, "the same value in every row"
        return Column(column.name, "presence", missing=True), "used only as present or missing"
    cycles = learn_cycles(dates_of(column, style)) if origin else ()
    fill = float(np.median(present))
    learnt = Column(
        column.name, kind, fill, marked, origin, style=style, cycles=cycles, codes=codes,
        low=float(present.min()), high=float(present.max()),
    )  # fmt: skip
    notes = [_dates(learnt)] if origin else []
    notes += [
        f"{code:g} in {rows} rows was taken as a missing value: the other numbers are from "
        f"{present.min():g} to {present.max():g} ({undo(column.name)} if it is a number)"
        for code, rows in counted.items()
    ]
    notes += [_written(column, style)] if style and not origin else []
    if start is not None:
        notes.append("rises by 1 in every row: drop it if it is a row number")
    notes += [learnt.filled(absent)] if absent else []
    return learnt, "; ".join(notes)


def undo(name: str) -> str:
    """The option that takes the values of a column as they are."""
    return f"--plain {shlex.quote(name)}"


def _dates(learnt: Column) -> str:
    """Say what dates are turned into."""
    written = f", written as {learnt.style}" if learnt.style else ""
    note = f"dates{written}, turned into days since {learnt.origin:.10}"
    if not learnt.cycles:
        return note
    return f"{note}, and into columns for the {' and the '.join(learnt.cycles)}"


def _learn_pairs(column: pd.Series) -> tuple[Column | None, str]:
    pairs = pairs_of(column)
    absent = int(np.isnan(pairs[:, 0]).sum())
    first, second = np.nanmedian(pairs, axis=0).tolist()
    marked = absent >= max(FEWEST, FRACTION * len(pairs))
    learnt = Column(column.name, "pair", first, marked, second=second)
    example = texts_of(column)[1][0]
    note = f"pairs of numbers such as {example!r:.20}, turned into two columns "
    note += f"({undo(column.name)} if they are names)"
    gaps = f"; {_count(absent)} replaced by the medians, {first:g} and {second:g}" if absent else ""
    return learnt, note + gaps


def _written(column: pd.Series, style: str) -> str:
    """Say how the numbers of a column are written, with an example."""
    kind = "times, turned into hours" if style == CLOCK else f"numbers, written as {style}"
    return kind + example_of(texts_of(column)[1], style)


def _numbering(values: Floats, index: pd.Index) -> float | None:
    """Return k if the values are k, k + 1, k + 2, …, possibly with rows left out; else None."""
    if np.ptp(values) == 0:  # beyond 2⁵³ a subtraction of the position would not change the number
        return None
    positions = [np.arange(len(values))]
    if types.is_integer_dtype(index.dtype):
        positions.append(index.to_numpy())
    starts = [values - position for position in positions if len(values) >= SHORTEST]
    constant = [float(start[0]) for start in starts if (start == start[0]).all()]
    return min(constant, key=abs, default=None)


def _learn_category(column: pd.Series, plain: bool = False) -> tuple[Column | None, str]:
    codes, texts = levels_of(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    absent = int((codes < 0).sum())
    if not texts:
        return None, "without values"
    if len(texts) == 1 and not absent:
        return None, "the same value in every row"
    padded = are_names(texts_of(column)[1])
    clear = plain or padded or isinstance(column.dtype, pd.CategoricalDtype)
    hint = "" if clear else meant_as(texts, codes)
    if padded and not isinstance(column.dtype, pd.CategoricalDtype):
        hint = f"digits with leading zeros are names ({undo(column.name)} if they are numbers)"
    hint = f"; {hint}" if hint else ""
    if len(texts) > LEVELS and is_wordy(texts):
        return _learn_text(column, absent)
    if len(texts) >= NEARLY * counts.sum():
        return None, "text that is different in nearly every row" + hint
    if is_repeated(column.name, codes[codes >= 0]):
        return None, REPEATS
    order = sorted(range(len(texts)), key=lambda k: (-counts[k], texts[k]))
    levels = tuple(texts[k] for k in order[:LEVELS] if counts[k] > 1)
    learnt = Column(
        column.name, "category", missing=absent > 0, levels=levels, other=len(levels) < len(texts)
    )
    several = "different values" if len(texts) > 1 else "value"
    note = (
        f"text with {len(texts)} {several}, encoded as {len(learnt.outputs)} columns of "
        "zeros and ones"
    )
    note += f", one for the {len(texts) - len(levels)} rarest values together" * learnt.other
    spellings = len(texts_of(column)[1]) - len(texts)
    were = "s were" if spellings > 1 else " was"
    joined = f" ({spellings} other spelling{were} merged)" if spellings > 0 else ""
    note += f", one for {_count(absent)}" * learnt.missing
    apart = apart_by_capitals(texts)
    note += f"; values that differ only by capitals were kept apart: {apart}" if apart else ""
    return learnt, note.replace(f" {several},", f" {several}{joined},", 1) + hint


def _learn_text(column: pd.Series, absent: int) -> tuple[Column | None, str]:
    codes, texts = texts_of(column)
    terms, weights = learn_terms([texts[code] for code in codes if code >= 0])
    if not terms:
        return None, "text without words that occur in several rows"
    learnt = Column(column.name, "text", missing=absent > 0, terms=terms, weights=weights)
    note = f"free text, turned into {len(terms)} columns, one for each word that occurs in several "
    return learnt, note + "rows (TF-IDF)" + f", and one for {_count(absent)}" * (absent > 0)


def is_repeated(name: str, values: Any) -> bool:
    """Whether a column has identifiers, such as those of patients, that occur in several rows each.

    Its name is that of an identifier, and it has more different values than a category.
    """
    different = len(np.unique(values))
    return bool(REPEATED.search(name)) and LEVELS < different <= len(values) / 2


def are_all_different(name: str, values: Floats) -> bool:
    """Whether numbers only tell rows apart: whole numbers of which no two are the same.

    Their column has the name of an identifier, or they are k, k + 1, k + 2, … in some order.
    """
    if len(values) < SHORTEST or not (values == np.floor(values)).all():
        return False
    if len(np.unique(values)) < len(values):
        return False
    dense = len(values) >= LONG and np.ptp(values) == len(values) - 1
    return bool(dense or NAMED.search(name))


def _count(absent: int) -> str:
    return f"{absent} missing value" + "s" * (absent > 1)
