"""The column to be predicted: take it out of the table, and recognise the task."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from decoupled_descent.tables.values import (
    LIKELY,
    MEANT_DATE,
    MOSTLY,
    TRUTHS,
    is_number,
    listed,
    meant_as,
    numbers_of,
    parse_numbers,
    texts_of,
)

TASKS = ("classification", "regression")
LARGEST = 1e150  # its square is still finite
CLASSES, LIKELY_CLASSES = 100, 20  # at most, and at most for numbers that nobody called classes
ROWS = 10  # per class, at least, for the same


def split_target(frame: pd.DataFrame, target: str) -> tuple[pd.DataFrame, pd.Series]:
    """Take the column to be predicted out of a table.

    Rows without a label are dropped, which ``features.attrs["notes"]`` says. Whole numbers come as
    int64, other numbers as float64, true and false as bool, all else as text. In a column of
    numbers, "?", "none" and the like (:data:`~decoupled_descent.tables.values.MARKERS`) are missing
    labels; among text they may be classes, and stay.

    Args:
        frame: The table.
        target: Name of the column.

    Returns:
        The other columns, and the labels; both keep the numbers of their rows.

    Raises:
        ValueError: If there is no such column, or no other, or no label in it, or if it has text
            among many different numbers.

    Example:
        >>> table = pd.DataFrame({"size": [1.5, 2.5, 3.5], "price": ["20", "?", "30"]})
        >>> features, labels = split_target(table, "price")
        >>> labels.tolist(), features.attrs["notes"]
        ([20, 30], ["1 row without a value of 'price' was left out: 1"])
    """
    names = [str(name) for name in frame.columns]
    if target not in names:
        near = [name for name in names if name.casefold() == target.casefold()]
        near = near or difflib.get_close_matches(target, names, n=3)
        hint = f"did you mean {listed(near)}? " if near else ""
        raise ValueError(f"there is no column {target!r}; {hint}there are {listed(names)}")
    if len(names) == 1:
        raise ValueError(f"{target!r} is the only column; there is nothing to predict it from")
    place = names.index(target)
    values, known = _labels(frame.iloc[:, place].rename(target))
    if not known.any():
        raise ValueError(f"the column {target!r} has no values")
    features = frame.drop(columns=frame.columns[place])[known]
    notes = list(frame.attrs.get("notes", []))
    absent = [str(row) for row in frame.index[~known]]
    if absent:
        rows = f"{len(absent)} row{'s' * (len(absent) > 1)} without a value of {target!r}"
        first = ", ".join(absent[:10]) + ", …" * (len(absent) > 10)
        notes.append(f"{rows} {'were' if len(absent) > 1 else 'was'} left out: {first}")
    features.attrs = {"notes": notes}
    return features, pd.Series(values[known], index=features.index, name=target)


def _labels(column: pd.Series) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The labels in a plain type, and which rows have one."""
    if types.is_datetime64_any_dtype(column.dtype):
        raise ValueError(f"{column.name!r} holds dates; turn them into numbers to predict them")
    truths = types.is_bool_dtype(column.dtype)
    if truths or is_number(column.dtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        codes, texts = texts_of(column)
        numbers = parse_numbers(texts)
        if not texts or np.isnan(numbers).any():
            if len(texts) > LIKELY_CLASSES:
                _check_text(column, codes, texts, numbers)
            codes, texts = texts_of(column, frozenset({""}))
            return np.array([*texts, ""], dtype=object)[codes], codes >= 0
        truths = all(text.casefold() in TRUTHS for text in texts)
        values = np.append(numbers, np.nan)[codes]
    known = ~np.isnan(values)
    if truths:
        return values == 1, known
    whole = (np.abs(values[known]) < 2**53).all() and (values[known] % 1 == 0).all()
    return (np.where(known, values, 0).astype(np.int64) if whole else values), known


def _check_text(
    column: pd.Series, codes: NDArray[np.intp], texts: list[str], numbers: NDArray[np.float64]
) -> None:
    """Refuse many different texts that are mostly numbers or dates."""
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    good = ~np.isnan(numbers) | [LIKELY.fullmatch(text) is not None for text in texts]
    if counts[good].sum() >= MOSTLY * counts.sum():
        numbers_of(column)  # says which is not a number
    dates = np.array([MEANT_DATE.fullmatch(text) is not None for text in texts])
    if counts[dates].sum() >= MOSTLY * counts.sum():
        raise ValueError(f"{column.name!r} holds dates; turn them into numbers to predict them")


def recognise_task(labels: pd.Series, task: str | None = None) -> str:
    """Say whether labels are classes or quantities, and check that they can be learnt.

    Text and truth values are classes. Numbers are classes if there are only two different ones, or
    if they are whole, at most 20 different ones, and each occurs in 10 rows on average, and in
    either case each in 2 at least; otherwise they are quantities.

    Args:
        labels: Without missing values, as :func:`split_target` returns them.
        task: ``"classification"`` or ``"regression"`` to overrule that.

    Returns:
        The task.

    Raises:
        ValueError: If the task does not fit the labels: quantities that are text, infinite or huge,
            or all the same; one class only, a class with a single row, or more than 100 classes.

    Example:
        >>> recognise_task(pd.Series(["cat", "dog", "dog", "cat"]))
        'classification'
        >>> recognise_task(pd.Series([0.5, 1.5, 4.0]))
        'regression'
    """
    if task not in (None, *TASKS):
        raise ValueError(f"task={task!r} must be one of {', '.join(TASKS)}")
    name = f"the target {labels.name!r}"
    if not len(labels) or labels.isna().any():
        raise ValueError(f"{name} has missing values, or no values; leave those rows out")
    truths = types.is_bool_dtype(labels.dtype)
    numeric = is_number(labels.dtype) and not truths
    if numeric:
        large = labels[labels.abs() > LARGEST]
        if len(large):
            raise ValueError(
                f"{name}, row {large.index[0]}: {large.iloc[0]:g} is beyond ±{LARGEST:g}; correct "
                "it or delete the row"
            )
    counts = labels.value_counts()
    if len(counts) == 1:
        raise ValueError(
            f"{name} is {str(counts.index[0])!r:.60} in every row; there is nothing to learn"
        )
    task = task or ("regression" if numeric and not _few(labels, counts) else TASKS[0])
    if task == "regression":
        if not (numeric or truths):
            raise ValueError(
                f"{name} holds text such as {labels.iloc[0]!r:.60}; use task='classification', or "
                "turn it into numbers"
            )
        return task
    _check_classes(name, counts, numeric)
    return task


def _few(labels: pd.Series, counts: pd.Series) -> bool:
    different, whole = len(counts), bool((labels % 1 == 0).all())
    few = different <= LIKELY_CLASSES and different * ROWS <= len(labels)
    return bool(counts.min() > 1) and (different == 2 or (whole and few))


def _check_classes(name: str, counts: pd.Series, numeric: bool) -> None:
    rows = int(counts.sum())
    if len(counts) > CLASSES or len(counts) > max(LIKELY_CLASSES, rows / 2):
        remedy = "use task='regression'" if numeric else "choose another target, or join classes"
        hint = "" if numeric else meant_as([str(one) for one in counts.index], counts.to_numpy())
        remedy = hint or remedy
        raise ValueError(
            f"{name} has {len(counts)} different values in {rows} rows, too many for classes (at "
            f"most {CLASSES}, and half as many as rows); {remedy}"
        )
    single = [str(label) for label in counts.index[counts < 2]]
    if single:
        other = ", or use task='regression'" if numeric else ""
        raise ValueError(
            f"{name} has only one row of the class{'es' * (len(single) > 1)} {listed(single)}; "
            f"at least 2 are needed: add rows, or join or delete the class{other}"
        )
