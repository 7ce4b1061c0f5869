"""What a column of a table is: learnt from the training rows, with a note that says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from decoupled_descent.tables.columns.codes import are_names, missing_codes
from decoupled_descent.tables.columns.column import (
    DAY,
    LEVELS,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    PairColumn,
    PresenceColumn,
    Quantity,
    TextColumn,
    missing_values,
)
from decoupled_descent.tables.columns.cycles import learn_cycles
from decoupled_descent.tables.columns.styles import CLOCK
from decoupled_descent.tables.columns.values import (
    Floats,
    apart_by_capitals,
    dates_of,
    example_of,
    kind_of,
    levels_of,
    meant_as,
    numbers_of,
    pairs_of,
    style_of,
    texts_of,
)
from decoupled_descent.tables.columns.words import is_wordy, learn_terms

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
#: How to ask that the values of a column are taken as they are, by its name.
Undo = Callable[[str], str]


def in_python(name: str) -> str:
    """The option of the estimators that takes the values of a column as they are."""
    return f"plain_columns=[{name!r}]"


def learn_column(
    column: pd.Series, mark: str = "", plain: bool = False, undo: Undo = in_python
) -> tuple[Column | None, str]:
    """Return how to treat a column and a note; or None and the reason to drop it.

    ``mark`` is the decimal mark of the file, empty if the file does not show it. In a ``plain``
    column -999 and 01067 are numbers, and 120/80 is a text. ``undo`` says how to ask for this.
    """
    kind = kind_of(column, mark, plain)
    if kind == "category":
        return _learn_category(column, plain, undo)
    if kind == "pair":
        return _learn_pairs(column, undo)
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
        return PresenceColumn(column.name), "used only as present or missing"
    fill = float(np.median(present))
    low, high = float(present.min()), float(present.max())
    own = column.name, marked, fill, style, low, high
    learnt: Quantity
    if origin:
        learnt = DateColumn(*own, origin, learn_cycles(dates_of(column, style)))
        notes = [_dates(learnt)]
    else:
        learnt, notes = NumberColumn(*own, codes), []
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


def _dates(learnt: DateColumn) -> str:
    """Say what dates are turned into."""
    written = f", written as {learnt.style}" if learnt.style else ""
    note = f"dates{written}, turned into days since {learnt.origin:.10}"
    if not learnt.cycles:
        return note
    return f"{note}, and into columns for the {' and the '.join(learnt.cycles)}"


def _learn_pairs(column: pd.Series, undo: Undo) -> tuple[Column | None, str]:
    pairs = pairs_of(column)
    absent = int(np.isnan(pairs[:, 0]).sum())
    first, second = np.nanmedian(pairs, axis=0).tolist()
    marked = absent >= max(FEWEST, FRACTION * len(pairs))
    learnt = PairColumn(column.name, marked, first, second)
    example = texts_of(column)[1][0]
    note = f"pairs of numbers such as {example!r:.20}, turned into two columns "
    note += f"({undo(column.name)} if they are names)"
    gaps = (
        f"; {missing_values(absent)} replaced by the medians, {first:g} and {second:g}"
        if absent
        else ""
    )
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


def _learn_category(column: pd.Series, plain: bool, undo: Undo) -> tuple[Column | None, str]:
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
    learnt = CategoryColumn(column.name, absent > 0, levels, len(levels) < len(texts))
    several = "different values" if len(texts) > 1 else "value"
    note = (
        f"text with {len(texts)} {several}, encoded as {len(learnt.outputs)} columns of "
        "zeros and ones"
    )
    note += f", one for the {len(texts) - len(levels)} rarest values together" * learnt.other
    spellings = len(texts_of(column)[1]) - len(texts)
    were = "s were" if spellings > 1 else " was"
    joined = f" ({spellings} other spelling{were} merged)" if spellings > 0 else ""
    note += f", one for {missing_values(absent)}" * learnt.missing
    apart = apart_by_capitals(texts)
    note += f"; values that differ only by capitals were kept apart: {apart}" if apart else ""
    return learnt, note.replace(f" {several},", f" {several}{joined},", 1) + hint


def _learn_text(column: pd.Series, absent: int) -> tuple[Column | None, str]:
    codes, texts = texts_of(column)
    terms, weights = learn_terms([texts[code] for code in codes if code >= 0])
    if not terms:
        return None, "text without words that occur in several rows"
    learnt = TextColumn(column.name, absent > 0, terms, weights)
    note = f"free text, turned into {len(terms)} columns, one for each word that occurs in several "
    return learnt, note + "rows (TF-IDF)" + f", and one for {missing_values(absent)}" * (absent > 0)


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
