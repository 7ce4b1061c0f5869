"""The target: read its values, and recognise the task."""

from __future__ import annotations

import difflib
import shlex
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from decoupled_descent.checks import LIKELY_CLASSES, ROWS_PER_CLASS, Target
from decoupled_descent.tables.columns.styles import number_style
from decoupled_descent.tables.columns.values import (
    LIKELY,
    MARKERS,
    MEANT_DATE,
    MOSTLY,
    TRUTHS,
    BadCellError,
    apart_by_capitals,
    example_of,
    fraction,
    is_number,
    listed,
    matches,
    meant_as,
    merged_spellings,
    numbers_of,
    parse_numbers,
    texts_of,
)
from decoupled_descent.tables.prediction.predictor import LARGEST

CLASSES = 100  # the most classes
#: Counts have so many different values, and the largest are so rare beside the most frequent.
COUNTED, RARE = 5, 1 / 8
#: A class with less than this share of the rows of another one may be a typing error, if they are
#: spelt alike: the share of common letters of difflib.
MISSPELT, ALIKE = 0.1, 0.75
#: Missing values among numbers; among text they are probably classes.
ANSWERS = frozenset({"none", "nil", "-", "--", "."})
DATES = "{!r} holds dates; turn them into numbers to predict them"


def check_target(names: list[str], target: str) -> None:
    """Raise ``ValueError`` if there is no such column, or no other one."""
    if target not in names:
        hint = did_you_mean(target, names)
        raise ValueError(f"there is no column {target!r}; {hint}there are {listed(names)}")
    if len(names) == 1:
        raise ValueError(f"{target!r} is the only column; there is nothing to predict it from")


def did_you_mean(name: str, names: list[str]) -> str:
    """Ask for names that are similar; empty if there are none.

    Example:
        >>> did_you_mean("Patient", ["age", "patient", "patient_id"])
        "did you mean 'patient'? "
    """
    near = [one for one in names if one.casefold() == name.casefold()]
    near = near or difflib.get_close_matches(name, names, n=3)
    return f"did you mean {listed(near)}? " if near else ""


def labels_of(
    column: pd.Series, quantity: bool = False, mark: str = "", merge: bool = True
) -> tuple[pd.Series, NDArray[np.bool_], list[str]]:
    """Return the labels of the rows that have one, which rows these are, and notes on them.

    Whole numbers become int64, other numbers float64, true and false bool, all else text. In a
    column of numbers, "?", "none" and the like
    (``MARKERS`` of ``tables/columns/values.py``) are missing labels; among text they may be
    classes. Where many different ones occur, or a ``quantity`` is expected, numbers may be
    written as $1,234.50. ``mark`` is the decimal mark of the file, empty if the file does not show
    it. Classes that differ only by capitals become one if ``merge`` is true, unless only capitals
    tell all classes apart.

    Example:
        >>> labels, labelled, notes = labels_of(pd.Series(["20", "?", "30"], name="price"))
        >>> labels.tolist(), labelled.tolist(), notes
        ([20, 30], [True, False, True], ["1 row without a value of 'price' was left out: 1"])
    """
    target = column.name
    values, labelled, style = _labels(column, quantity, mark)
    if not labelled.any():
        raise ValueError(f"the column {target!r} has no values")
    notes = []
    absent = [str(row) for row in column.index[~labelled]]
    if absent:
        rows = f"{len(absent)} row{'s' * (len(absent) > 1)} without a value of {target!r}"
        first = ", ".join(absent[:10]) + ", …" * (len(absent) > 10)
        notes.append(f"{rows} {'were' if len(absent) > 1 else 'was'} left out: {first}")
    if style:
        example = example_of(texts_of(column)[1], style)
        notes.append(f"{target!r}: numbers, written as {style}{example}")
    labels = values[labelled]
    if merge and labels.dtype.kind == "O":
        labels, note = _one_spelling(labels)
        notes += [f"{target!r}: {note}"] if note else []
    notes += _perhaps_missing(labels, str(target)) + _perhaps_misspelt(labels, str(target))
    return pd.Series(labels, index=column.index[labelled], name=target), labelled, notes


def _one_spelling(labels: NDArray[Any]) -> tuple[NDArray[Any], str]:
    """Merge classes that differ only by capitals; say which."""
    counts = Counter(labels.tolist())
    best = merged_spellings(counts)
    other = sorted(text for text in counts if best[text] != text)
    if other:
        merged = ", ".join(f"{text!r} ({counts[text]}) as {best[text]!r}" for text in other)
        return np.array([best[text] for text in labels], dtype=object), f"other spellings: {merged}"
    apart = apart_by_capitals(counts)
    return labels, f"classes that differ only by capitals were kept apart: {apart}" if apart else ""


def _perhaps_missing(labels: NDArray[Any], target: str) -> list[str]:
    """Name the classes whose name usually stands for a missing value."""
    texts = labels.tolist() if labels.dtype.kind == "O" else []
    counts = Counter(text for text in texts if str(text).casefold() in MARKERS - ANSWERS)
    return [
        f"{target!r}: {text!r} ({count} row{'s' * (count > 1)}) is taken as a class; --na "
        f"{shlex.quote(text)} leaves these rows out"
        for text, count in counts.items()
    ]


def _perhaps_misspelt(labels: NDArray[Any], target: str) -> list[str]:
    """Ask about rare classes that are spelt like frequent ones.

    Not if they differ by a beginning (known, unknown; male, female) or by digits (stage 1, stage
    2).
    """
    counts = Counter(labels.tolist()) if labels.dtype.kind == "O" else Counter[Any]()
    notes = []
    for rare, count in counts.items():
        others = [one for one, rows in counts.items() if count <= MISSPELT * rows]
        near = difflib.get_close_matches(rare, others, n=1, cutoff=ALIKE)
        differ = near and "".join(filter(str.isdigit, rare)) != "".join(
            filter(str.isdigit, near[0])
        )
        if near and count > 1 and not differ and not _one_ends_with_other(rare, near[0]):
            pair = shlex.quote(f"{rare}={near[0]}")
            notes.append(
                f"{target!r}: {rare!r} ({count} rows) may be a typing error for {near[0]!r} "
                f"({counts[near[0]]} rows); --merge-classes {pair} makes them one class"
            )
    return notes


def _one_ends_with_other(one: str, other: str) -> bool:
    return one.endswith(other) or other.endswith(one)


def _labels(
    column: pd.Series, quantity: bool, mark: str
) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
    """Return the labels in a plain type, which rows have one, and how they are written."""
    style = ""
    if types.is_datetime64_any_dtype(column.dtype):
        raise ValueError(DATES.format(column.name))
    truths = types.is_bool_dtype(column.dtype)
    if truths or is_number(column.dtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        codes, texts = texts_of(column)
        style = number_style(texts, mark) if quantity or len(texts) > LIKELY_CLASSES else ""
        numbers = parse_numbers(texts, style)
        if not texts or np.isnan(numbers).any():
            if len(texts) > LIKELY_CLASSES:
                if fraction(~np.isnan(numbers) | matches(LIKELY, texts), codes) >= MOSTLY:
                    numbers_of(column, style)  # names the value that is not a number
                if fraction(matches(MEANT_DATE, texts), codes) >= MOSTLY:
                    raise ValueError(DATES.format(column.name))
            codes, texts = texts_of(column, frozenset({""}))
            texts = [" ".join(text.split()) for text in texts]
            return np.array([*texts, ""], dtype=object)[codes], codes >= 0, ""
        truths = all(text.casefold() in TRUTHS for text in texts)
        values = np.append(numbers, np.nan)[codes]
    labelled = ~np.isnan(values)
    if truths:
        return values == 1, labelled, ""
    integers = (np.abs(values[labelled]) < 2**53).all() and (values[labelled] % 1 == 0).all()
    return (np.where(labelled, values, 0).astype(np.int64) if integers else values), labelled, style


def recognise_task(labels: pd.Series, task: str | None = None, plain: bool = False) -> Target:
    """Return the task of these labels, or the one given, after a check that it is possible.

    Text and truth values are classes. Numbers are classes if only two different ones occur, or if
    they are whole, at most 20 different ones occur, and each has 10 rows on average; in both cases
    each must have at least 2 rows. Other numbers are quantities, and some of them look like counts
    (:func:`look_like_counts`), unless ``plain`` numbers are wanted.
    """
    if task not in (None, *Target):
        raise ValueError(f"task={task!r} must be one of {', '.join(Target)}")
    name = f"the target {labels.name!r}"
    if not len(labels) or labels.isna().any():
        raise ValueError(f"{name} has missing values, or no values; leave those rows out")
    truths = types.is_bool_dtype(labels.dtype)
    numeric = is_number(labels.dtype) and not truths
    if numeric:
        large = labels[labels.abs() > LARGEST]
        if len(large):
            raise BadCellError(
                f"{name}, row {large.index[0]}: {large.iloc[0]:g} is beyond ±{LARGEST:g}; correct "
                "it or delete the row"
            )
        if 0 < labels.abs().max() < 1 / LARGEST:
            raise ValueError(
                f"{name} has no number beyond ±{1 / LARGEST:g}; multiply it by a power of ten"
            )
    counts = labels.value_counts()
    if len(counts) == 1:
        raise ValueError(
            f"{name} is {str(counts.index[0])!r:.60} in every row; there is nothing to learn"
        )
    counted = numeric and look_like_counts(labels.to_numpy())
    likely = Target.CLASSES if not numeric or _few(labels, counts) else Target.NUMBERS
    likely = likely if not counted else Target.NUMBERS if plain else Target.COUNTS
    target = Target(task) if task else likely
    if not target.has_classes:
        if not (numeric or truths):
            raise ValueError(
                f"{name} holds text such as {labels.iloc[0]!r:.60}; use task='classification', or "
                "turn it into numbers"
            )
        _check_limits(name, labels, target)
        return target
    if target is Target.GRADES and not numeric:
        raise ValueError(
            f"{name} holds text such as {labels.iloc[0]!r:.60}, whose order is not known; number "
            "the grades, or use task='classification'"
        )
    _check_classes(name, labels, counts, numeric)
    return target


def _check_limits(name: str, labels: pd.Series, target: Target) -> None:
    """Raise ``ValueError`` for numbers that are no counts or proportions."""
    highest = {Target.COUNTS: np.inf, Target.PROPORTIONS: 1.0}.get(target)
    if highest is None:
        return
    outside = labels[(labels < 0) | (labels > highest)]
    if len(outside):
        remedy = "; divide percentages by 100" * bool(labels.between(0, 100).all())
        raise ValueError(
            f"{name} is {outside.iloc[0]:g} in row {outside.index[0]}, which task={target.value!r} "
            f"does not allow; use task='regression'{remedy * (highest == 1)}"
        )


def values_of(labels: pd.Series, task: Target) -> NDArray[Any]:
    """Return quantities as float64, and classes as they are.

    Classes that are fractions become text: scikit-learn would take them for quantities.
    """
    if not task.has_classes:
        return np.asarray(labels, dtype=np.float64)
    if labels.dtype.kind != "f":
        return np.asarray(labels)
    return np.array([str(label).removesuffix(".0") for label in labels.tolist()], dtype=object)


def decimals_of(values: NDArray[np.float64], most: int) -> int:
    """The number of decimals of some numbers, at most ``most``; rounding errors do not count.

    Example:
        >>> decimals_of(np.array([1.0, 2.25, 0.1 + 0.2]), 12), decimals_of(np.array([3.0]), 12)
        (2, 0)
    """
    texts = (f"{abs(value):.12g}" for value in set(values.tolist()))
    counts = [len(text.partition(".")[2]) if "e" not in text else most for text in texts]
    return min(most, max(counts, default=0))


def spellings_of(labels: NDArray[Any], texts: list[str]) -> tuple[str, ...]:
    """The most frequent spelling of each class, in order; empty if these are the values themselves.

    Example:
        >>> spellings_of(np.array([1, 2, 2]), ["01", "02", "2"]), spellings_of(np.array([1]), ["1"])
        (('01', '02'), ())
    """
    counts = Counter(zip(labels.tolist(), texts, strict=True))
    best: dict[Any, str] = {}
    for (label, text), _ in counts.most_common():
        best.setdefault(label, text)
    spellings = tuple(best[label] for label in np.unique(labels).tolist())
    alike = all(str(label) == text for label, text in best.items())
    return () if alike or len(set(spellings)) < len(spellings) else spellings


def _few(labels: pd.Series, counts: pd.Series) -> bool:
    """Whether there are so few different numbers that they are probably classes."""
    different, integers = len(counts), bool((labels % 1 == 0).all())
    few = different <= LIKELY_CLASSES and different * ROWS_PER_CLASS <= len(labels)
    return bool(counts.min() > 1) and (different == 2 or (integers and few))


def look_like_counts(labels: NDArray[Any]) -> bool:
    """Whether numbers look like counts of events: whole, from 0 or 1 on, and the larger the rarer.

    At least ``COUNTED`` different ones occur. The most frequent one is in the lower half, no larger
    one is more frequent than the one before it, up to two standard errors, and the last two are
    rare (``RARE``). Of drawn counts (Poisson with means 1 to 4, negative binomial) 84 to 98 % of
    150 and 96 to 100 % of 600 are recognised; of codes of six to ten classes with random shares 1
    to 4 %, and none of nine real targets with such codes.

    Example:
        >>> look_like_counts(np.repeat(range(6), [40, 30, 15, 8, 4, 2]))
        True
        >>> look_like_counts(np.repeat(range(6), 20))
        False
    """
    values = np.asarray(labels, dtype=np.float64)
    low, high = values.min(), values.max()
    if low not in (0, 1) or high > len(values) or (values % 1 != 0).any():
        return False
    rows = np.bincount(values.astype(np.int64) - int(low))
    most = int(rows.argmax())
    tail = rows[most:]
    rises = np.diff(tail) > 2 * np.sqrt(tail[1:] + tail[:-1])
    few = (rows > 0).sum() < COUNTED or len(tail) < COUNTED - 1 or most > len(rows) / 2
    return not few and not rises.any() and bool(tail[-2:].mean() < RARE * tail[0])


def _check_classes(name: str, labels: pd.Series, counts: pd.Series, numeric: bool) -> None:
    rows = len(labels)
    if len(counts) > CLASSES or len(counts) > max(LIKELY_CLASSES, rows / 2):
        remedy = "use task='regression'"
        if not numeric:
            codes, texts = texts_of(labels)
            remedy = meant_as(texts, codes) or "choose another target, or join classes"
        raise ValueError(
            f"{name} has {len(counts)} different values in {rows} rows, too many for classes (at "
            f"most {CLASSES}, and half as many as rows); {remedy}"
        )
    single = [str(label) for label in counts.index[counts < 2]]
    if single:
        other = ", or use task='regression'" if numeric else ""
        merged = "" if numeric else _merging(single, [str(label) for label in counts.index])
        kind = ValueError if numeric else BadCellError  # rows of rare numbers are not left out
        raise kind(
            f"{name} has only one row of the class{'es' * (len(single) > 1)} {listed(single)}; "
            f"at least 2 are needed: add rows, or join or delete the class{other}{merged}"
        )


def _merging(single: list[str], classes: list[str]) -> str:
    """The option that merges classes of one row with similar ones; empty if there are none."""
    often = [one for one in classes if one not in single]
    near = {one: difflib.get_close_matches(one, often, n=1) for one in single[:3]}
    pairs = [
        f"--merge-classes {shlex.quote(f'{one}={best[0]}')}" for one, best in near.items() if best
    ]
    return f"; if it is a typing error, add {' '.join(pairs)}" if pairs else ""
