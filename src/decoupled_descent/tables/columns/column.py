"""Columns of a table, a class for each kind: how they become columns of numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from decoupled_descent.tables.columns.cycles import CYCLES, cycle_columns
from decoupled_descent.tables.columns.dates import DATE_STYLES
from decoupled_descent.tables.columns.styles import EUROPEAN, is_number_style
from decoupled_descent.tables.columns.values import (
    LARGEST,
    Floats,
    dates_of,
    is_number,
    levels_of,
    numbers_of,
    pairs_of,
    parse_dates,
    spelling,
    spelt_levels_of,
    texts_of,
)
from decoupled_descent.tables.columns.words import MOST_TERMS, tf_idf

LEVELS = 20  # the most values of a text column that get a column each
#: Numbers further outside the range of training than this share of it are noted.
BEYOND = 0.5
DAY = np.timedelta64(86_400_000_000, "us")
Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Column(ABC):
    """How one column of the table becomes columns of the matrix."""

    kind: ClassVar[str]  # its name in files and tables
    #: The modules of this package by which exported code reads it.
    readers: ClassVar[tuple[str, ...]] = ()

    name: str
    missing: bool = False  # whether a further column marks missing values

    def __post_init__(self) -> None:
        right = isinstance(self.name, str) and isinstance(self.missing, bool)
        if not right or not self._is_valid():
            raise ValueError(f"the column {self!r:.200} is not valid; train the model again")

    @abstractmethod
    def _is_valid(self) -> bool:
        """Whether the fields, which may come from a file, are what they must be."""

    @property
    @abstractmethod
    def _names(self) -> list[str]:
        """Names of the columns made from values that are not missing."""

    @abstractmethod
    def _numbers(self, column: pd.Series, strict: bool) -> tuple[Floats, Rows]:
        """These columns, (n, …), and which rows have no value."""

    @property
    def outputs(self) -> list[str]:
        """Names of the columns made from this one."""
        return self._names + ([f"{self.name}_missing"] if self.missing else [])

    def apply(self, column: pd.Series, strict: bool = True) -> Floats:
        """Return the columns made from this one, shape (n, len(outputs)).

        Values of another kind raise ``ValueError`` if ``strict``; otherwise they are missing.
        """
        values, absent = self._numbers(column, strict)
        return np.column_stack([values, absent]) if self.missing else values

    def unusual(self, column: pd.Series, strict: bool) -> dict[str, Rows]:
        """Rows to count, by the names of ``counting.Counts``."""
        del column, strict
        return {}

    def absent_note(self, rows: int, learnt_from: str, everything: bool) -> str:
        """What to say about a number of rows without a value; empty for nothing."""
        del rows, learnt_from, everything
        return ""

    @property
    def range(self) -> str:
        """The range of the numbers in training, for those that are noted outside of it."""
        return ""

    @property
    def is_european(self) -> bool:
        """Whether a comma is the decimal mark."""
        return False

    @property
    def has_other(self) -> bool:
        """Whether one column stands for all other values."""
        return False

    @property
    def has_many_numbers(self) -> bool:
        """Whether too many columns are made of it for one number to stand for a row."""
        return False

    @property
    def categories(self) -> list[str]:
        """What a 1 in each of the columns stands for; empty if they hold other numbers."""
        return []

    def is_time(self, named: bool, named_otherwise: bool) -> bool:
        """Whether these are times of the rows, given whether the name says so or denies it."""
        del named, named_otherwise
        return False

    def written(self, values: Any) -> str:
        """A value that was turned into numbers, as text: with the number, or the name alone."""
        del values
        return self.name

    def without_range(self) -> Self:
        """The same without numbers of single rows."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Everything that a file needs."""
        return {"kind": self.kind} | asdict(self)


@dataclass(frozen=True)
class Quantity(Column):
    """Values on a line: numbers, or dates in days."""

    fill: float = 0.0  # replaces missing values: their median
    style: str = ""  # how they are written, if not as 1234.5 and 2024-05-31
    low: float = -LARGEST  # the lowest number in training
    high: float = LARGEST  # the highest one

    @property
    def _names(self) -> list[str]:
        return [self.name]

    def _is_valid(self) -> bool:
        numbers = are_numbers(self.fill, self.low, self.high)
        return numbers and self.low <= self.high and isinstance(self.style, str)

    @abstractmethod
    def values(self, column: pd.Series, strict: bool = True) -> Floats:
        """Return the numbers, nan where they are missing."""

    def _numbers(self, column: pd.Series, strict: bool) -> tuple[Floats, Rows]:
        values = self.values(column, strict)
        absent = np.isnan(values)
        return np.where(absent, self.fill, values)[:, None], absent

    def unusual(self, column: pd.Series, strict: bool) -> dict[str, Rows]:
        """Values of another kind, missing ones, and numbers far from those of training."""
        numbers = self.values(column, strict)
        absent = np.isnan(numbers)
        unreadable = absent & ~_empty(column) & ~self.coded(column)
        return {"unreadable": unreadable, "absent": absent, "outside": self._outside(numbers)}

    def coded(self, column: pd.Series) -> Rows:
        """Return which rows have a code for a missing value."""
        return np.zeros(len(column), dtype=bool)

    def _outside(self, values: Floats) -> Rows:
        """Which numbers are far from all of training, or have a sign that none had."""
        margin = BEYOND * (self.high - self.low)
        below = (values < self.low - margin) | ((values < 0) & (self.low >= 0))
        return below | (values > self.high + margin)

    def absent_note(self, rows: int, learnt_from: str, everything: bool) -> str:
        """By what they were replaced."""
        del learnt_from
        return self.filled(rows) if everything else ""

    def filled(self, absent: int, unit: str = "") -> str:
        """Say how ``absent`` missing values were replaced."""
        marks = f", and marked by {self.name + '_missing'!r}" if self.missing else ""
        return f"{missing_values(absent)} replaced by the median, {self.fill:g}{unit}{marks}"

    def without_range(self) -> Self:
        """The same with the widest range: no number is outside of it."""
        return replace(self, low=-LARGEST, high=LARGEST)


@dataclass(frozen=True)
class NumberColumn(Quantity):
    """Numbers."""

    kind = "number"
    codes: tuple[float, ...] = ()  # numbers that stand for missing values, such as -999

    def _is_valid(self) -> bool:
        return super()._is_valid() and are_numbers(*self.codes) and is_number_style(self.style)

    @property
    def readers(self) -> tuple[str, ...]:  # type: ignore[override]
        """Numbers in a style of their own need more than ``float``."""
        return ("styles",) if self.style else ()

    def values(self, column: pd.Series, strict: bool = True) -> Floats:
        """Return the numbers, nan for codes of missing values too."""
        values = numbers_of(column, self.style, strict)
        return np.where(np.isin(values, self.codes), np.nan, values) if self.codes else values

    def unusual(self, column: pd.Series, strict: bool) -> dict[str, Rows]:
        """The same, and on which side of the median numbers are."""
        numbers = self.values(column, strict)
        sides = {"above": numbers > self.fill, "below": numbers < self.fill}
        return super().unusual(column, strict) | sides

    def coded(self, column: pd.Series) -> Rows:
        """Return which rows have a code for a missing value."""
        if not self.codes:
            return super().coded(column)
        return np.isin(numbers_of(column, self.style, strict=False), self.codes)

    @property
    def range(self) -> str:
        """The lowest and the highest number."""
        return f"{self.low:g} to {self.high:g}"

    @property
    def is_european(self) -> bool:
        """Whether a comma is the decimal mark."""
        return self.style.startswith(EUROPEAN)

    def is_time(self, named: bool, named_otherwise: bool) -> bool:
        """Numbers are times if their name says so, such as years."""
        del named_otherwise
        return named

    def written(self, values: Any) -> str:
        """The number, unless it is missing."""
        absent = self.missing and values[1]
        return self.name if absent else f"{self.name} = {values[0]:g}"


@dataclass(frozen=True)
class DateColumn(Quantity):
    """Dates: days since the earliest, and the parts of cycles."""

    kind, readers = "date", ("dates", "cycles")
    origin: str = ""  # the earliest date
    cycles: tuple[str, ...] = ()  # the hour, the weekday, the season

    def _is_valid(self) -> bool:
        right = super()._is_valid() and isinstance(self.origin, str) and self.origin != ""
        right = right and str(parse_dates([self.origin])[0]) == self.origin
        right = right and [*self.cycles] == [one for one in CYCLES if one in self.cycles]
        return right and self.style in DATE_STYLES

    @property
    def _names(self) -> list[str]:
        waves = [(one, wave) for one in self.cycles for wave in ("sin", "cos")]
        return [self.name, *(f"{self.name}_{one}_{wave}" for one, wave in waves)]

    def values(self, column: pd.Series, strict: bool = True) -> Floats:
        """Return days since the earliest date."""
        return (dates_of(column, self.style, strict) - np.datetime64(self.origin, "us")) / DAY

    def _numbers(self, column: pd.Series, strict: bool) -> tuple[Floats, Rows]:
        values, absent = super()._numbers(column, strict)
        if not self.cycles:
            return values, absent
        dates = dates_of(column, self.style, strict)
        return np.hstack([values, cycle_columns(dates, self.cycles)]), absent

    def filled(self, absent: int, unit: str = " days") -> str:
        """Say how missing dates were replaced."""
        return super().filled(absent, unit)

    def is_time(self, named: bool, named_otherwise: bool) -> bool:
        """Dates are times, unless their name says otherwise, such as a date of birth."""
        del named
        return not named_otherwise


@dataclass(frozen=True)
class CategoryColumn(Column):
    """Text with few different values: a column of zeros and ones for each."""

    kind = "category"
    levels: tuple[str, ...] = ()  # values with one column each
    other: bool = False  # whether one column stands for all other values

    def _is_valid(self) -> bool:
        right = are_texts(*self.levels) and isinstance(self.other, bool)
        return right and 0 < len(set(self.levels)) == len(self.levels) <= LEVELS

    @property
    def _names(self) -> list[str]:
        names = [f"{self.name}={level}" for level in self.levels]
        return [*names, f"{self.name}=other"] if self.other else names

    def _numbers(self, column: pd.Series, strict: bool) -> tuple[Floats, Rows]:
        del strict
        codes, texts = spelt_levels_of(column)
        exact = {level: k for k, level in enumerate(self.levels)}
        alike = {spelling(level): k for level, k in exact.items()}
        unknown = len(self.levels) if self.other else -1
        outputs = (exact.get(text, alike.get(spelling(text), unknown)) for text in texts)
        positions = np.array([*outputs, -1])[codes]
        values = np.zeros((len(column), len(self._names)))
        rows = np.flatnonzero(positions >= 0)
        values[rows, positions[rows]] = 1.0
        return values, codes < 0

    def unusual(self, column: pd.Series, strict: bool) -> dict[str, Rows]:
        """Values without a column of their own, and missing ones."""
        del strict
        codes, texts = levels_of(column)
        known = set(map(spelling, self.levels))
        new = [k for k, text in enumerate(texts) if spelling(text) not in known]
        return {"unknown": np.isin(codes, new), "absent": codes < 0}

    @property
    def has_other(self) -> bool:
        """Whether one column stands for all other values."""
        return self.other

    def absent_note(self, rows: int, learnt_from: str, everything: bool) -> str:
        """Missing values where training had none."""
        del everything
        return "" if self.missing else f"{missing_values(rows)}; there were none in {learnt_from}"

    @property
    def categories(self) -> list[str]:
        """The levels, other values, and missing ones."""
        return [*self.levels, *["other"] * self.other, *["missing"] * self.missing]

    def written(self, values: Any) -> str:
        """The level."""
        named = zip(self.categories, values, strict=True)
        return f"{self.name} = {next((name for name, value in named if value), 'other')}"


@dataclass(frozen=True)
class PresenceColumn(Column):
    """A column that only says whether it has a value."""

    kind = "presence"
    missing: bool = True

    def _is_valid(self) -> bool:
        return self.missing

    @property
    def _names(self) -> list[str]:
        return []

    def _numbers(self, column: pd.Series, strict: bool) -> tuple[Floats, Rows]:
        del strict
        return np.empty((len(column), 0)), texts_of(column)[0] < 0


@dataclass(frozen=True)
class TextColumn(Column):
    """Sentences: a column for each word that occurs in several rows."""

    kind, readers = "text", ("words",)
    terms: tuple[str, ...] = ()  # words with one column each
    weights: tuple[float, ...] = ()  # of the words

    def _is_valid(self) -> bool:
        right = are_texts(*self.terms) and are_numbers(*self.weights)
        right = right and 0 < len(set(self.terms)) == len(self.terms) == len(self.weights)
        return right and len(self.terms) <= MOST_TERMS and min(self.weights) > 0

    @property
    def has_many_numbers(self) -> bool:
        """Each word has a column."""
        return True

    @property
    def _names(self) -> list[str]:
        return [f"{self.name}:{term}" for term in self.terms]

    def _numbers(self, column: pd.Series, strict: bool) -> tuple[Floats, Rows]:
        del strict
        codes, texts = texts_of(column)
        return tf_idf([*texts, ""], self.terms, self.weights)[codes], codes < 0


@dataclass(frozen=True)
class PairColumn(Column):
    """Two numbers in one cell, such as 120/80."""

    kind, readers = "pair", ("codes",)
    fill: float = 0.0  # replaces missing first numbers: their median
    second: float = 0.0  # replaces the missing second numbers

    def _is_valid(self) -> bool:
        return are_numbers(self.fill, self.second)

    @property
    def _names(self) -> list[str]:
        return [f"{self.name}_1", f"{self.name}_2"]

    def _numbers(self, column: pd.Series, strict: bool) -> tuple[Floats, Rows]:
        pairs = pairs_of(column, strict)
        absent = np.isnan(pairs)
        return np.where(absent, [self.fill, self.second], pairs), absent[:, 0]


#: All kinds of columns, by the name that files have. A new one is a class and an entry here.
KINDS: dict[str, type[Column]] = {
    one.kind: one
    for one in (NumberColumn, DateColumn, CategoryColumn, PresenceColumn, TextColumn, PairColumn)
}


def are_numbers(*values: Any) -> bool:
    """Whether all values are numbers of a size that can be squared."""
    real = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return real and all(-LARGEST <= one <= LARGEST for one in values)


def are_texts(*values: Any) -> bool:
    """Whether all values are texts."""
    return all(isinstance(one, str) for one in values)


def missing_values(count: int) -> str:
    """Write a number of missing values."""
    return f"{count:,} missing value" + "s" * (count > 1)


def _empty(values: pd.Series) -> Rows:
    """Return which cells are empty, or have a text that stands for a missing value."""
    if is_number(values.dtype) or types.is_datetime64_any_dtype(values.dtype):
        return np.asarray(values.isna(), dtype=bool)
    return texts_of(values)[0] < 0
