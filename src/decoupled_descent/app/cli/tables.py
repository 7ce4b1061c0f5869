"""Turn a file into a matrix and labels, for the commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.app.files.encoding import encode
from decoupled_descent.app.files.opening import LoadedTable, open_table
from decoupled_descent.app.files.other_tasks import several_labels, time_to_event
from decoupled_descent.app.files.positive import positive_class
from decoupled_descent.app.files.repairs import (
    SkippedRow,
    drop_duplicates,
    merge_classes,
    skip_bad_rows,
)
from decoupled_descent.app.files.row_weights import about_weights, weights_of
from decoupled_descent.app.files.table_reader import FirstPass, TableReader
from decoupled_descent.app.files.targets import (
    CLASSES,
    check_target,
    decimals_of,
    did_you_mean,
    labels_of,
    recognise_task,
    spellings_of,
    values_of,
)
from decoupled_descent.checks import Target
from decoupled_descent.tables.columns.counting import CountingEncoder
from decoupled_descent.tables.columns.rules import MOST_DECIMALS, Columns
from decoupled_descent.tables.columns.times import times_of_rows
from decoupled_descent.tables.columns.values import (
    BadCellError,
    Floats,
    UnreadableCellError,
    is_number,
    listed,
    mark_missing,
)

#: The file that lists rows that were left out.
SKIPPED = "skipped.csv"
#: The fewest rows from which an error is estimated.
FEWEST = 10


class TrainingTable(NamedTuple):
    """A table that can be trained on."""

    X: Floats  # features, (n, d)
    y: NDArray[Any]  # labels, (n,): classes, or float64 for regression
    columns: Columns  # the rules for the columns
    task: Target
    notes: list[str]  # sentences for the user about the table
    groups: NDArray[Any] | None = None  # the group of each row
    #: Unused columns that may name groups of rows: pairs of a name and codes of its values.
    repeated: tuple[tuple[str, NDArray[Any]], ...] = ()
    frame: pd.DataFrame | None = None  # the identifier, if any; the index has the row numbers
    sample: tuple[Floats, NDArray[Any]] | None = None  # some rows in memory, if X is on disk
    time: tuple[str, pd.Series] | None = None  # the column of --time, and the time of each row
    skipped: tuple[SkippedRow, ...] = ()  # rows that were left out because of bad cells
    positive: str = ""  # the class to find, if there are two
    weights: Floats | None = None  # of the rows
    doubts: tuple[str, ...] = ()  # why another kind of model may be needed, in sentences

    @property
    def given(self) -> dict[str, Any]:
        """The arguments of ``fit``."""
        given = {"X": self.X, "y": self.y, "groups": self.groups}
        given |= {} if self.weights is None else {"sample_weight": self.weights}
        return given | ({} if self.time is None else {"time": self.time[1]})

    @property
    def time_columns(self) -> dict[str, int]:
        """Columns of X that are times of the rows: dates, or numbers with the name of a time."""
        from decoupled_descent.tables.estimators.raw_inputs import time_columns

        return time_columns(self.columns)

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
    sheet: str | None = None  # of a spreadsheet
    time: str | None = None  # the column of the times, if the estimate is for later rows
    positive: str | None = None  # the class to find
    skip_bad_rows: bool = False  # leave out rows with cells that cannot be read
    merge_classes: tuple[str, ...] = ()  # pairs old=new
    plain: tuple[str, ...] = ()  # columns whose values are taken as they are
    weight: str | None = None  # the weights of the rows
    drop_duplicates: bool = False  # leave out rows that repeat an earlier one


def prepare(
    path: Path, target: str, task: str | None, wishes: Wishes | None = None
) -> TrainingTable:
    """Read a table, separate the target, recognise the task and turn the features into a matrix.

    A large table is read in batches (:mod:`decoupled_descent.app.files.table_reader`). Its matrix
    is then a memory map, and the rules for the columns are learnt from a sample of the rows.

    Raises ``ValueError`` if something is wrong with the table, ``OSError`` if it cannot be read.
    """
    wishes = wishes or Wishes()
    ragged: list[int] | None = [] if wishes.skip_bad_rows else None
    try:
        reader = open_table(path, sheet=wishes.sheet, ragged=ragged)
    except BadCellError as error:
        raise ValueError(f"{error}{_go_on(path, target)}") from error
    try:
        reader, skipped = _repaired(reader, target, wishes, ragged or [])
        prepared = _prepare(reader, target, task, wishes)
    except ValueError as error:
        message = re.sub(r"task='(\w+)'", r"--task \1", str(error))
        further = " (--na names such values)" * isinstance(error, UnreadableCellError)
        further += _go_on(path, target) if isinstance(error, BadCellError) else ""
        raise ValueError(f"{path}: {message}{further}") from error
    if not skipped:
        return prepared
    count = len({one.where for one in skipped})
    rows = f"{count} rows were" if count > 1 else "1 row was"
    note = f"{rows} left out; {SKIPPED} says why"
    return prepared._replace(skipped=skipped, notes=[note, *prepared.notes])


def _go_on(path: Path, target: str) -> str:
    """The command that leaves bad rows out."""
    command = shlex.join(["decoupled", "train", str(path), "--target", target, "--skip-bad-rows"])
    return f"; to go on without such rows: {command}"


def _repaired(
    reader: TableReader, target: str, wishes: Wishes, ragged: list[int]
) -> tuple[TableReader, tuple[SkippedRow, ...]]:
    """Merge classes and leave out bad or repeated rows, if that was asked for."""
    asked = {
        "--skip-bad-rows": wishes.skip_bad_rows,
        "--drop-duplicates": wishes.drop_duplicates,
        "--merge-classes": wishes.merge_classes,
    }
    if not any(asked.values()):
        return reader, ()
    if not isinstance(reader, LoadedTable):
        raise ValueError(f"{listed(asked)} are for tables that fit into memory")
    frame = mark_missing(reader.first_pass().sample, wishes.words)
    check_target([str(name) for name in frame.columns], target)
    attributes = dict(frame.attrs)
    if wishes.merge_classes:
        frame = frame.assign(**{target: merge_classes(frame[target], wishes.merge_classes)})
    skipped = [SkippedRow(f"line {line}", "", "", "too few or too many fields") for line in ragged]
    if wishes.skip_bad_rows:
        frame.attrs = attributes
        unused = [name for name in (wishes.identifier, wishes.group, *wishes.drop) if name]
        frame, more = skip_bad_rows(frame, target, unused)
        skipped += more
    if wishes.drop_duplicates:
        frame, more = drop_duplicates(frame, target, [*wishes.drop, wishes.identifier])
        skipped += more
    frame.attrs = attributes
    return reader.with_frame(frame), tuple(skipped)


def _prepare(reader: TableReader, target: str, task: str | None, wishes: Wishes) -> TrainingTable:
    """Prepare a table. Of a large one only labels, groups, identifiers and a sample are in memory.

    Rows without a label are left out.
    """
    named = (wishes.group, wishes.identifier, wishes.time, wishes.weight)
    first = reader.first_pass([target, *(name for name in named if name is not None)])
    check_target([str(name) for name in first.sample.columns], target)
    complete = mark_missing(pd.DataFrame(first.columns), wishes.words)
    mark = first.sample.attrs.get("decimal", "")
    labels, labelled, about = labels_of(
        complete[target], quantity=task is not None and not Target(task).has_classes, mark=mark
    )
    if len(labels) < FEWEST:
        count = "1 row is" if len(labels) == 1 else f"{len(labels)} rows are"
        raise ValueError(f"{count} too few; at least {FEWEST} with a label are needed")
    several = several_labels(labels)
    try:
        result = recognise_task(labels, task, plain=wishes.log_target)
    except ValueError as error:
        if several:  # rare combinations of labels are no typing errors
            raise ValueError(several) from error
        raise
    doubts = [several] if several and result.has_classes else []
    doubts += [one for one in [time_to_event(first.sample, target, labels)] if one]
    sample = mark_missing(first.sample, wishes.words).drop(columns=target)
    sample = sample[labelled[sample.index.to_numpy() - 1]]
    sample.attrs = {"decimal": mark}
    _check_wishes(wishes, sample, labels, result)
    groups = None if wishes.group is None else _groups(complete[wishes.group][labelled])
    weights = None if wishes.weight is None else weights_of(complete[wishes.weight][labelled])
    given = ((wishes.group, "the groups"), (wishes.weight, "the weights of the rows"))
    others = {name: what for name, what in given if name is not None}
    columns = Columns.learn(
        sample, wishes.words, wishes.identifier or "", wishes.drop, others, wishes.plain,
        lambda name: f"--plain {shlex.quote(name)}",
    )  # fmt: skip
    if weights is None:
        asked, doubt = about_weights(sample, [one.name for one in columns.columns])
        about, doubts = [*about, *asked], [*doubts, *doubt]
    y = values_of(labels, result)
    columns = _like_the_target(columns, first, labels, y, result)
    positive, cases = _positive(y, result, wishes.positive)
    encoded = encode(reader, first, columns, labelled, columns.repeated)
    notes = [*_read(reader, first), *first.notes, *about, *cases, *encoded.notes]
    notes += [] if task else [_recognised(labels, result)]
    notes += [*_asked(wishes, target, groups), *_belong(encoded.codes), *columns.notes]
    rows, few = complete[labelled][[wishes.identifier] if wishes.identifier else []], None
    time = None if wishes.time is None else (wishes.time, complete[wishes.time][labelled])
    if time is not None:
        _check_time(reader, *time)
    if not reader.in_memory:
        places = np.searchsorted(labels.index, sample.index)
        few = CountingEncoder(columns).apply(sample), y[places]
    codes = tuple(encoded.codes.items())
    return TrainingTable(
        encoded.X, y, columns, result, notes, groups, codes, rows, few, time=time,
        positive=positive, weights=weights, doubts=tuple(doubts),
    )  # fmt: skip


def _read(reader: TableReader, first: FirstPass) -> list[str]:
    """Return the sentence that a large table was read in pieces, with the size of the sample."""
    if reader.in_memory:
        return []
    complete = len(first.sample) == first.n_rows
    sample = f"{len(first.sample):,} of the {first.n_rows:,} rows, drawn at random"
    rows = (
        f"all {first.n_rows:,} rows"
        if complete
        else f"{sample}; the counts below are for these rows"
    )
    return [
        f"the table has {reader.size / 1e6:,.0f} MB and was read in pieces: the rules for the "
        f"columns were learnt from {rows}"
    ]


def _asked(wishes: Wishes, target: str, groups: NDArray[Any] | None) -> list[str]:
    """Return sentences about what the options change."""
    notes = []
    if wishes.log_target:
        notes.append(f"the model fits log({target!r}); all results are in the units of {target!r}")
    if groups is not None:
        different = len(set(groups.tolist()))
        notes.append(
            f"rows with the same {wishes.group!r} ({different} values) are left out together"
        )
    if wishes.weight is not None:
        notes.append(f"rows count as {wishes.weight!r} says, in training and in all estimates")
    if wishes.time is not None:
        notes.append(
            f"the estimate is for rows after the last {wishes.time!r}: models of the past predict "
            "the next tenth of the rows, and choose features and ridges from the past alone"
        )
    return notes


def _check_time(reader: TableReader, name: str, values: pd.Series) -> None:
    """Raise ``ValueError`` if the rows cannot be put in order."""
    if not reader.in_memory:
        raise ValueError("--time is for tables that fit into memory; leave it out")
    from decoupled_descent.evaluation.forecast import pieces_of  # imports PyTorch

    try:
        pieces_of(times_of_rows(values, None, len(values))[0])
    except ValueError as error:
        raise ValueError(f"--time {name!r}: {error}") from error


def _belong(repeated: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return a sentence for each unused column whose values may name groups of rows."""
    return [
        f"{name!r}: {len(set(values.tolist()))} values in {len(values):,} rows, so rows with the "
        f"same value may belong together; --group {shlex.quote(name)} leaves them out together"
        for name, values in repeated.items()
    ]


def _check_wishes(wishes: Wishes, features: pd.DataFrame, labels: pd.Series, task: Target) -> None:
    """Raise ``ValueError`` if an option names no column, or a target has no logarithm."""
    named = {"--group": [wishes.group], "--id": [wishes.identifier], "--drop": wishes.drop}
    named |= {"--time": [wishes.time], "--plain": wishes.plain, "--weight": [wishes.weight]}
    for option, names in named.items():
        for name in names:
            if name is not None and name not in features.columns:
                why = "is the target" if name == labels.name else "is not a column"
                hint = did_you_mean(name, [str(one) for one in features.columns])
                raise ValueError(
                    f"{option} {name!r} {why}; {hint}columns are {listed(features.columns)}"
                )
    if wishes.log_target and task is not Target.NUMBERS:
        has = "classes" if task.has_classes else task
        raise ValueError(f"--log-target is for regression, but {labels.name!r} has {has}")
    if wishes.log_target and (labels <= 0).any():
        low = labels[labels <= 0]
        raise ValueError(
            f"--log-target: {labels.name!r} is {low.iloc[0]:g} in row {low.index[0]}, which has no "
            "logarithm; leave out --log-target, or delete the rows that are not positive"
        )


def _like_the_target(
    columns: Columns, first: FirstPass, labels: pd.Series, y: NDArray[Any], task: Target
) -> Columns:
    """Store how the target is written, so that predictions are written in the same way."""
    if not task.has_classes:
        return replace(columns, decimals=decimals_of(y, MOST_DECIMALS))
    written = first.as_written(str(labels.name)) if is_number(labels.dtype) else None
    if written is None:
        return columns
    return replace(columns, spellings=spellings_of(y, [written[row - 1] for row in labels.index]))


def _positive(y: NDArray[Any], task: Target, wanted: str | None) -> tuple[str, list[str]]:
    """The class to find, and a sentence about it, if there are two classes."""
    if not task.has_classes:
        if wanted is not None:
            raise ValueError("--positive is for two classes, but the target is a number")
        return "", []
    positive = positive_class(y.tolist(), wanted)
    note = f"{positive!r} is the class to find; --positive CLASS chooses the other one"
    note = note.partition(";")[0] if wanted is not None else note
    return positive, [note] if positive else []


def _groups(column: pd.Series) -> NDArray[Any]:
    """Return the group of each row as text."""
    if column.isna().any():
        raise ValueError(
            f"--group {column.name!r} has {int(column.isna().sum())} missing value(s); give every "
            "row a group, or delete those rows"
        )
    return np.asarray(column.astype(str))


def _recognised(labels: pd.Series, task: Target) -> str:
    """Return the sentence about the task, with the options for other tasks that are possible."""
    different, others = labels.nunique(), []
    what, counts = f"{different} different values", labels.value_counts()
    if task is Target.COUNTS:
        what = f"counts from {labels.min()} to {labels.max()}"
        others = ["--task regression for squared errors"]
    elif task is Target.NUMBERS:
        what = f"{different} different numbers"
        if labels.min() >= 0 and labels.max() <= 1:
            others = ["--task proportions if 0 and 1 are its limits"]
    elif labels.dtype.kind in "iuf":
        others = ["--task regression for numbers"]
        others += ["--task grades if they are in order"] * (different > 2)
    if not task.has_classes and different <= min(CLASSES, len(labels) // 2) and counts.min() > 1:
        others.append("--task classification for classes")
    possible = f" (choose {', '.join(others)})" * bool(others)
    means = "these are counts" if task is Target.COUNTS else f"this is a {task}"
    return f"{labels.name!r} has {what}, so {means}{possible}"
