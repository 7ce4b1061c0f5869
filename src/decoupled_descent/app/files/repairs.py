"""Go on with bad or repeated rows: they are left out and listed; and classes are merged.

The target of a row that is left out becomes a missing value, so that the numbers of all other rows
stay those of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.app.files.formulas import without_formulas
from decoupled_descent.app.files.targets import did_you_mean
from decoupled_descent.tables.columns.values import (
    LARGEST,
    dates_of,
    is_number,
    kind_of,
    listed,
    numbers_of,
    pairs_of,
    style_of,
    texts_of,
)


class SkippedRow(NamedTuple):
    """A row that was left out."""

    where: str  # such as "row 5", or "line 7" of the file if it is not a row
    column: str
    value: str
    reason: str


def merge_classes(column: pd.Series, pairs: Sequence[str]) -> pd.Series:
    """Rename classes: each pair is ``old=new``; raise ``ValueError`` if there is no such class.

    Example:
        >>> merge_classes(pd.Series(["yes", "yess"], name="y"), ["yess=yes"]).tolist()
        ['yes', 'yes']
    """
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not equals or not old.strip() or not new.strip():
            raise ValueError(f"--merge-classes {pair!r} must be old=new, such as yess=yes")
        texts = column.astype(object).map(lambda one: str(one).strip(), na_action="ignore")
        same = (texts == old.strip()).to_numpy(dtype=bool)
        if not same.any():
            classes = [str(one) for one in texts.dropna().unique()]
            hint = did_you_mean(old, classes)
            raise ValueError(
                f"--merge-classes: no row has {old!r}; {hint}there are {listed(classes)}"
            )
        column = texts.mask(same, new.strip())
    return column


def bad_cells(column: pd.Series, mark: str = "") -> NDArray[np.bool_]:
    """Return which cells are not of the kind of their column: text among numbers, or infinity."""
    kind = kind_of(column, mark)
    if is_number(column.dtype):
        with np.errstate(invalid="ignore"):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
            return np.asarray(np.abs(values) > LARGEST, dtype=bool)
    read = {"number": numbers_of, "date": dates_of}.get(kind)
    if kind == "pair":
        unread = np.isnan(pairs_of(column, strict=False)[:, 0])
    elif read is None:
        return np.zeros(len(column), dtype=bool)
    else:
        unread = np.asarray(pd.isna(read(column, style_of(column, kind, mark), False)), dtype=bool)
    return unread & (texts_of(column)[0] >= 0)


def single_classes(column: pd.Series) -> NDArray[np.bool_]:
    """Return which rows have a class that no other row has, among classes that others have."""
    if is_number(column.dtype) or kind_of(column) != "category":
        return np.zeros(len(column), dtype=bool)
    texts = column.astype(str).str.strip().str.casefold()
    counts = texts.map(texts.value_counts())
    return np.asarray(column.notna() & (counts == 1) & ((counts > 1).sum() > 1), dtype=bool)


def skip_bad_rows(
    frame: pd.DataFrame, target: str, unused: Sequence[str] = ()
) -> tuple[pd.DataFrame, list[SkippedRow]]:
    """Make the targets of bad rows missing, and their bad cells; return the list of these rows.

    Example:
        >>> table = pd.DataFrame({"a": [1.0, np.inf, 3.0], "y": [1, 2, 3]}, index=[1, 2, 3])
        >>> repaired, skipped = skip_bad_rows(table, "y")
        >>> repaired["y"].isna().tolist(), skipped[0].where
        ([False, True, False], 'row 2')
    """
    mark, repaired, skipped = frame.attrs.get("decimal", ""), frame.copy(), list[SkippedRow]()
    left_out = np.zeros(len(frame), dtype=bool)
    for name in frame.columns:
        if name in unused:
            continue
        column = frame[name]
        bad = bad_cells(column, mark)
        reason = f"not a {kind_of(column, mark)}, or infinite"
        if name == target and not bad.any():
            bad, reason = single_classes(column), "the only row of this class"
        for row in column.index[bad]:
            skipped.append(SkippedRow(f"row {row}", str(name), str(column[row]), reason))
        if bad.any():
            repaired[name] = column.mask(bad)
        left_out |= bad
    if left_out.any():
        repaired[target] = repaired[target].mask(left_out)
    repaired.attrs = dict(frame.attrs)
    return repaired, skipped


def drop_duplicates(
    frame: pd.DataFrame, target: str, unused: Sequence[str | None] = ()
) -> tuple[pd.DataFrame, list[SkippedRow]]:
    """Make the targets of rows missing that repeat an earlier one; return the list of these rows.

    Columns that are ``unused`` may differ.

    Example:
        >>> table = pd.DataFrame({"a": [1, 2, 1], "y": [0, 1, 0]}, index=[1, 2, 3])
        >>> single, skipped = drop_duplicates(table, "y")
        >>> single["y"].isna().tolist(), skipped[0].where, skipped[0].reason
        ([False, False, True], 'row 3', 'repeats row 1')
    """
    used = frame[[name for name in frame.columns if name not in unused]]
    known = used[target].notna()
    codes = used[known].groupby(list(used.columns), dropna=False, sort=False).ngroup()
    first = pd.Series(codes.index, codes.index).groupby(codes).transform("first")
    repeated = first.index[first != first.index]
    skipped = [SkippedRow(f"row {k}", "", "", f"repeats row {first[k]}") for k in repeated]
    return frame.assign(**{target: frame[target].mask(frame.index.isin(repeated))}), skipped


def as_table(skipped: Sequence[SkippedRow]) -> str:
    """The rows that were left out, as CSV."""
    table, _ = without_formulas(pd.DataFrame(skipped, columns=list(SkippedRow._fields)))
    return str(table.to_csv(index=False, lineterminator="\n"))
