"""Turn a file into a matrix and labels, for the commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.tables.columns import MOST_DECIMALS, Columns
from decoupled_descent.tables.encoding import Tally, encode
from decoupled_descent.tables.large import pieces_of
from decoupled_descent.tables.pieces import Pieces, Scan
from decoupled_descent.tables.reading import as_written, read_table
from decoupled_descent.tables.shares import Share
from decoupled_descent.tables.targets import (
    CLASSES,
    check_target,
    decimals_of,
    did_you_mean,
    labels_of,
    recognise_task,
    spellings_of,
    split_target,
)
from decoupled_descent.tables.values import Floats, is_number, listed, mark_missing

#: The fewest rows from which an error is estimated.
FEWEST = 10


class Prepared(NamedTuple):
    """A table that can be trained on.

    Attributes:
        X: Features, shape (n, d).
        y: Labels, shape (n,): classes, or float64 for regression.
        columns: The rules for the columns.
        task: ``"classification"`` or ``"regression"``.
        notes: Sentences for the user about the table.
        groups: The group of each row, or None.
        repeated: Unused columns that may name groups of rows: pairs of name and values.
        frame: The features as they were read. For a table that is read in pieces: only the row
            numbers, and the identifier if there is one.
        sample: Some rows and their labels in memory, if X is a memory map.
        rows: The rows of all processes, if X has only those of one process.
    """

    X: Floats
    y: NDArray[Any]
    columns: Columns
    task: str
    notes: list[str]
    groups: NDArray[Any] | None = None
    repeated: tuple[tuple[str, NDArray[Any]], ...] = ()
    frame: pd.DataFrame | None = None
    sample: tuple[Floats, NDArray[Any]] | None = None
    rows: Any = None

    @property
    def given(self) -> dict[str, Any]:
        """The arguments of ``fit``: all rows, or distributed rows and what belongs to them here."""
        if self.rows is None:
            return {"X": self.X, "y": self.y, "groups": self.groups}
        groups = None if self.groups is None else self.groups[self.rows.span]
        return {"X": self.rows, "y": self.y[self.rows.span], "groups": groups}

    @property
    def in_memory(self) -> tuple[Floats, NDArray[Any]]:
        """Features and labels in memory: those of all rows, or of the sample."""
        return (self.X, self.y) if self.sample is None else self.sample


class Wishes(NamedTuple):
    """Options about columns."""

    group: str | None = None  # rows with the same value here are left out together
    identifier: str | None = None  # copied to the predictions
    drop: tuple[str, ...] = ()  # columns that are not used
    words: tuple[str, ...] = ()  # texts that stand for missing values
    log_target: bool = False  # fit the logarithm of the target


def prepare(
    path: Path, target: str, task: str | None, wishes: Wishes | None = None,
    share: Share | None = None,
) -> Prepared:  # fmt: skip
    """Read a table, separate the target, recognise the task and turn the features into a matrix.

    A large table is read in pieces (:mod:`decoupled_descent.tables.pieces`). Its matrix is then a
    memory map, and the rules for the columns are learnt from a sample of the rows. With ``share``,
    X has the rows of one of several processes. All processes learn the same rules.

    Raises ``ValueError`` if something is wrong with the table, ``OSError`` if it cannot be read.
    """
    wishes, pieces = wishes or Wishes(), pieces_of(path, share)
    if pieces is None and share is not None:
        raise ValueError(f"{path}: --distributed needs a csv or parquet file with several columns")
    frame = mark_missing(read_table(path), wishes.words) if pieces is None else None
    try:
        if pieces is not None:
            return _in_pieces(pieces, target, task, wishes)
        assert frame is not None
        features, labels = split_target(frame, target, quantity=task == "regression")
        texts = partial(as_written, path, target)
        decided = _decide(features, labels, features.get(wishes.group), texts, task, wishes)
        repeated = {
            name: np.asarray(features[name].astype(str)) for name in decided.columns.repeated
        }
        said = [*features.attrs["notes"], *decided.notes, *_belong(repeated)]
        return _prepared(decided, decided.columns.apply(features), repeated, said, features)
    except ValueError as error:
        message = re.sub(r"task='(\w+)'", r"--task \1", str(error))
        raise ValueError(f"{path}: {message}") from error


def _in_pieces(pieces: Pieces, target: str, task: str | None, wishes: Wishes) -> Prepared:
    """Prepare a table in pieces. Only labels, groups, identifiers and a sample are in memory."""
    named = [name for name in (wishes.group, wishes.identifier) if name is not None]
    scan = pieces.scan([target, *named])
    check_target([str(name) for name in scan.sample.columns], target)
    kept = mark_missing(pd.DataFrame(scan.kept), wishes.words)
    mark = scan.sample.attrs.get("decimal", "")
    labels, known, notes = labels_of(kept[target], quantity=task == "regression", mark=mark)
    sample = mark_missing(scan.sample, wishes.words).drop(columns=target)
    sample = sample[known[sample.index.to_numpy() - 1]]
    sample.attrs = {"decimal": mark}
    written = scan.texts.get(target)
    groups = kept[known].get(wishes.group)
    texts = None if written is None else written.str.strip().tolist
    decided = _decide(sample, labels, groups, texts or (lambda: None), task, wishes)
    scan = pieces.labelled(scan, known)
    encoded = encode(pieces, scan, decided.columns, known, decided.columns.repeated)
    said = [_read(pieces, scan), *scan.notes, *notes, *encoded.notes, *decided.notes]
    said += _belong(encoded.codes)
    rows = pd.DataFrame(index=labels.index)
    if wishes.identifier is not None:
        rows[wishes.identifier] = kept[wishes.identifier][known]
    prepared = _prepared(decided, encoded.X, encoded.codes, said, rows)
    places = np.searchsorted(labels.index, sample.index)
    few = Tally(decided.columns).apply(sample)
    return prepared._replace(sample=(few, decided.y[places]))


def _read(pieces: Pieces, scan: Scan) -> str:
    """Return the sentence that a table was read in pieces, with the size of the sample."""
    whole = len(scan.sample) == scan.rows
    sample = f"{len(scan.sample):,} of the {scan.rows:,} rows, drawn at random"
    rows = f"all {scan.rows:,} rows" if whole else f"{sample}; the counts below are for these rows"
    return (
        f"the table has {pieces.size / 1e6:,.0f} MB and was read in pieces: the rules for the "
        f"columns were learnt from {rows}"
    )


class Decided(NamedTuple):
    """The task, the rules for the columns, and the labels."""

    columns: Columns
    task: str
    y: NDArray[Any]
    groups: NDArray[Any] | None
    notes: list[str]


def _decide(
    features: pd.DataFrame, labels: pd.Series, group: pd.Series | None,
    texts: Callable[[], list[str] | None], task: str | None, wishes: Wishes,
) -> Decided:  # fmt: skip
    """Recognise the task, and learn the rules for the columns from rows of features.

    ``group`` is the column of ``--group``, or None. ``texts()`` returns the target as it is written
    in the file, row by row, or None.
    """
    if len(labels) < FEWEST:
        count = "1 row is" if len(labels) == 1 else f"{len(labels)} rows are"
        raise ValueError(f"{count} too few; at least {FEWEST} with a label are needed")
    found, target = recognise_task(labels, task), str(labels.name)
    _check_columns(features, target, wishes)
    if wishes.log_target:
        _check_positive(labels, found)
    groups = None if group is None else _groups(group)
    columns = Columns.learn(
        features, wishes.words, wishes.identifier or "", wishes.drop, wishes.group
    )
    notes = [] if task else [_recognised(labels, found)]
    y = _classes(labels) if found == "classification" else labels.to_numpy(dtype=np.float64)
    if wishes.log_target:
        notes.append(f"the model fits log({target!r}); all results are in the units of {target!r}")
    if groups is not None:
        different = len(set(groups.tolist()))
        notes.append(
            f"rows with the same {wishes.group!r} ({different} values) are left out together"
        )
    return Decided(_like_the_target(columns, texts, labels, y, found), found, y, groups, notes)


def _belong(repeated: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return a sentence for each unused column whose values may name groups of rows."""
    return [
        f"{name!r}: {len(set(values.tolist()))} values in {len(values):,} rows, so rows with the "
        f"same value may belong together; --group {shlex.quote(name)} leaves them out together"
        for name, values in repeated.items()
    ]


def _prepared(
    decided: Decided, X: Floats, repeated: Mapping[str, NDArray[Any]], notes: list[str],
    frame: pd.DataFrame,
) -> Prepared:  # fmt: skip
    columns = decided.columns
    said = [*notes, *columns.notes]
    return Prepared(
        X, decided.y, columns, decided.task, said, decided.groups, tuple(repeated.items()), frame
    )


def _check_columns(features: pd.DataFrame, target: str, wishes: Wishes) -> None:
    """Raise ``ValueError`` if an option names a column that does not exist."""
    named = {"--group": [wishes.group], "--id": [wishes.identifier], "--drop": wishes.drop}
    for option, names in named.items():
        for name in names:
            if name is not None and name not in features.columns:
                why = "is the target" if name == target else "is not a column"
                hint = did_you_mean(name, [str(one) for one in features.columns])
                raise ValueError(
                    f"{option} {name!r} {why}; {hint}columns are {listed(features.columns)}"
                )


def _like_the_target(
    columns: Columns, texts: Callable[[], list[str] | None], labels: pd.Series, y: NDArray[Any],
    task: str,
) -> Columns:  # fmt: skip
    """Store how the target is written, so that predictions are written in the same way."""
    if task == "regression":
        return replace(columns, decimals=decimals_of(y, MOST_DECIMALS))
    written = texts() if is_number(labels.dtype) else None
    if written is None:
        return columns
    return replace(columns, spellings=spellings_of(y, [written[row - 1] for row in labels.index]))


def _check_positive(labels: pd.Series, task: str) -> None:
    """Raise ``ValueError`` if a value of the target has no logarithm."""
    if task != "regression":
        raise ValueError(f"--log-target is for regression, but {labels.name!r} has classes")
    low = labels[labels <= 0]
    if len(low):
        raise ValueError(
            f"--log-target: {labels.name!r} is {low.iloc[0]:g} in row {low.index[0]}, which has no "
            "logarithm; leave out --log-target, or delete the rows that are not positive"
        )


def _groups(column: pd.Series) -> NDArray[Any]:
    """Return the group of each row as text."""
    if column.isna().any():
        raise ValueError(
            f"--group {column.name!r} has {int(column.isna().sum())} missing value(s); give every "
            "row a group, or delete those rows"
        )
    return np.asarray(column.astype(str))


def _classes(labels: pd.Series) -> NDArray[Any]:
    """Return the labels. Floats become text: scikit-learn would take them for regression."""
    if labels.dtype.kind != "f":
        return np.asarray(labels)
    return np.array([str(label).removesuffix(".0") for label in labels.tolist()], dtype=object)


def _recognised(labels: pd.Series, task: str) -> str:
    """Return the sentence about the task, with the option for the other task if it is possible."""
    different = labels.nunique()
    if task == "regression":
        counts = labels.value_counts()
        possible = different <= min(CLASSES, len(labels) // 2) and bool(counts.min() > 1)
        remedy = " (choose classes with --task classification)" * possible
        return f"{labels.name!r} has {different} different numbers, so this is a regression{remedy}"
    numeric = labels.dtype.kind in "iuf"
    remedy = " (choose numbers with --task regression)" if numeric else ""
    return f"{labels.name!r} has {different} different values, so this is a classification{remedy}"
