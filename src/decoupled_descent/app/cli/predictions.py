"""The predictions of a saved model: of a table in memory, or of one that is read in pieces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.app.cli.actual_error import ActualError, actual_error, estimate
from decoupled_descent.app.cli.column_names import note_on, renamed, spellings
from decoupled_descent.app.cli.interval_columns import (
    ENDS,
    NO_INTERVALS,
    has_intervals,
    interval_ends,
    moved,
)
from decoupled_descent.app.files.formulas import is_formula, without_formulas
from decoupled_descent.app.files.table_reader import TableReader
from decoupled_descent.tables.columns.counting import CountingEncoder
from decoupled_descent.tables.columns.rules import MOST_DECIMALS, Columns
from decoupled_descent.tables.columns.values import listed, mark_missing, numbers_of

if TYPE_CHECKING:
    from decoupled_descent.tables.prediction.saved import PredictionModel

FORMULAS = "{} texts look like formulas of a spreadsheet; an apostrophe was put before them"
TRAINING_ROWS = (
    "{} of the {} rows are training rows: their predictions are from models that were fitted "
    "without them, as for new rows"
)
READ = "the table has {:,.0f} MB and was read in pieces"
Before = Callable[[NDArray[np.float64]], NDArray[np.float64] | None]


class Predictions(NamedTuple):
    """Predictions of a table. The table is None if it was written piece by piece."""

    rows: int
    actual: ActualError | None  # if the table has the target
    notes: list[str]
    table: pd.DataFrame | None = None


def predict(
    saved: PredictionModel, reader: TableReader, file: TextIO, before: Before
) -> Predictions:
    """Predict the rows of a table piece by piece, and write them to a file as CSV.

    ``before`` returns the leave-one-out predictions of training rows; it is asked only for a table
    in memory. Raises ``ValueError`` if columns are missing, or if values of a table in memory are
    of another kind than those trained on. In a large table such values count as missing.
    """
    first_pass = reader.first_pass([] if saved.target is None else spellings(saved.target))
    columns = rules(saved)
    matched = renamed(names_of(saved), map(str, first_pass.sample.columns))
    notes = [] if reader.in_memory else [READ.format(reader.size / 1e6)]
    notes += [*first_pass.notes, *note_on(matched)]
    notes += unlike_training(saved, first_pass.sample.rename(columns=matched))
    encoder = CountingEncoder(columns, strict=reader.in_memory)
    predicted: list[Any] = []
    shielded = 0
    with_ends = has_intervals(saved)
    notes += [NO_INTERVALS] if saved.classes is None and not with_ends else []
    frames = (one.rename(columns=matched) for one in reader.frames(first_pass))
    for frame in (mark_missing(one, columns.words) for one in frames):
        rows = matrix(saved, frame) if saved.columns is None else encoder.apply(frame)
        predicted.append(saved.outputs(rows))
        ends = interval_ends(saved, rows) if with_ends else None
        left_out = before(np.asarray(rows, dtype=np.float64)) if reader.in_memory else None
        if left_out is not None and left_out.shape == predicted[-1].shape:
            trained_on = np.asarray(np.isfinite(left_out).all(axis=1))
            new = np.where(trained_on[:, None], left_out, predicted[-1])
            ends = None if ends is None else moved(saved, ends, predicted[-1], new)
            predicted[-1] = new
            notes.append(TRAINING_ROWS.format(int(trained_on.sum()), len(left_out)))
        table = as_table(saved, frame, predicted[-1], ends)
        first = len(predicted) == 1
        safe, count = without_formulas(table)
        names = sum(is_formula(str(name)) for name in table.columns)
        shielded += count if first else count - names
        file.write(safe.to_csv(index=False, header=first, lineterminator="\n"))
    notes += about_threshold(saved)
    notes += encoder.notes("training", everything=True)
    complete = pd.DataFrame(first_pass.columns).rename(columns=matched)
    target = mark_missing(complete, columns.words).get(saved.target)
    actual = actual_error(saved, target, np.concatenate(predicted), notes)
    notes += [FORMULAS.format(shielded)] if shielded else []
    return Predictions(first_pass.n_rows, actual, notes, table if reader.in_memory else None)


def about_threshold(saved: PredictionModel) -> list[str]:
    """Say from which probability on a row is given to the class to find, if that is not 0.5."""
    if saved.rule is None or saved.classes is None or saved.rule[0] == 0.5:
        return []
    threshold, positive, _ = saved.rule
    name = str(saved.classes[positive])
    return [f"rows are predicted as {name!r} from a probability of {threshold:.3g} on"]


def with_threshold(saved: PredictionModel, threshold: float | None) -> PredictionModel:
    """The model with another threshold of the class to find; None leaves that of training."""
    if threshold is None:
        return saved
    if saved.classes is None or len(saved.classes) != 2:
        raise ValueError("--threshold and --cost-ratio are for tables with two classes")
    return saved.with_threshold(threshold)


def rules(saved: PredictionModel) -> Columns:
    """The rules for the columns; those of a model that was trained in Python are empty."""
    return Columns(()) if saved.columns is None else saved.columns


def names_of(saved: PredictionModel) -> list[str]:
    """The columns of the training that a table may have: features, identifier and target."""
    columns = rules(saved)
    names = [*(one.name for one in columns.columns), columns.identifier, saved.target]
    return [name for name in dict.fromkeys(names) if name]


def as_table(
    saved: PredictionModel,
    frame: pd.DataFrame,
    outputs: NDArray[np.float64],
    ends: NDArray[np.float64] | None = None,
) -> pd.DataFrame:
    """Predictions as a table, with the identifier before them and ends of intervals after them."""
    table = pd.DataFrame({"prediction": as_target(saved, outputs)})
    for k, name in enumerate(ENDS if ends is not None else ()):
        assert ends is not None
        table[name] = as_target(saved, ends[:, [k]])
    if saved.classes is not None:
        for k, label in enumerate(class_names(saved).tolist()):
            table[f"probability_{label}"] = outputs[:, k]
    name = rules(saved).identifier
    if name and name in frame.columns:
        taken = name in table.columns
        table.insert(0, f"{name} (id)" if taken else name, frame[name].to_numpy())
    return table


def unlike_training(saved: PredictionModel, frame: pd.DataFrame) -> list[str]:
    """Say which columns the model does not know, and whether the identifier is missing."""
    if saved.columns is None:
        return []
    notes, name = [], saved.columns.identifier
    extra = [name for name in saved.columns.extra(frame) if name != saved.target]
    if extra:
        notes.append(f"columns that the model does not know are ignored: {listed(extra)}")
    if name and name not in frame.columns:
        notes.append(f"the table has no column {name!r}, which identified the rows in training")
    return notes


def class_names(saved: PredictionModel) -> NDArray[Any]:
    """The classes as they were written in the training table."""
    spelt, classes = rules(saved).spellings, saved.classes
    assert classes is not None
    return np.array(spelt, dtype=object) if len(spelt) == len(classes) else classes


def as_target(saved: PredictionModel, outputs: NDArray[np.float64]) -> NDArray[Any]:
    """Predictions written like the target: its classes, or numbers with as many decimals.

    Numbers get more decimals if their typical error is small: rounding never moves them by more
    than a two-hundredth of it.
    """
    if saved.classes is not None:
        names: NDArray[Any] = class_names(saved)[saved.decide(outputs)]
        return names
    if saved.columns is None:
        return outputs[:, 0]
    mean = max(0.0, estimate(saved)[0])
    typical = math.sqrt(mean) if saved.has_squared_errors else min(1.0, mean)
    needed = math.ceil(-math.log10(typical / 100)) if 0 < typical < math.inf else 0
    if needed > MOST_DECIMALS:  # of a target in very small numbers
        return outputs[:, 0]
    decimals = min(max(saved.columns.decimals, needed), max(0, needed) + 2, MOST_DECIMALS)
    rounded = np.round(outputs[:, 0], decimals) + 0.0
    integers = decimals <= 0 and bool((np.abs(rounded) < 2**53).all())
    return rounded.astype(np.int64) if integers else rounded


def matrix(saved: PredictionModel, frame: pd.DataFrame) -> Any:
    """Turn a table into the input of an estimator that was trained in Python."""
    names, count = saved.content["feature_names"], saved.content["columns_in"]
    used = [name for name in frame.columns if name != saved.target] if names is None else names
    absent = [name for name in used if name not in frame.columns]
    if absent:
        raise ValueError(f"the table lacks {listed(absent)}, which the model was trained with")
    if len(used) != count:
        raise ValueError(
            f"the table has {len(used)} columns, and the model was trained with {count}"
        )
    return np.stack([numbers_of(frame[name]) for name in used], 1)


def to_dict(saved: PredictionModel, predictions: Predictions) -> dict[str, Any]:
    """Return the result for machines; without a table, the predictions are in the file alone."""
    table = predictions.table
    columns = {} if table is None else {str(k): v.tolist() for k, v in table.items()}
    names = list(columns)
    after = names.index("prediction") + 1 if names else 0
    ends = {name: columns[name] for name in ENDS} if ENDS[0] in names[after:] else None
    shares = {name.removeprefix("probability_"): columns[name] for name in names[after:]}
    shares = shares if ends is None else {}
    error, *between = estimate(saved)
    return {
        "task": saved.task,
        "target": saved.target,
        "rows": predictions.rows,
        "id": columns[names[0]] if after == 2 else None,
        "predictions": columns.get("prediction"),
        "probabilities": shares or None,
        "intervals": ends,
        "estimated_test_error": error,
        "estimated_test_error_stderr": saved.error[1],
        "estimated_test_error_interval": between or None,
        "verdict": saved.verdict,
        "actual": None if predictions.actual is None else predictions.actual._asdict(),
        "notes": predictions.notes,
    }
