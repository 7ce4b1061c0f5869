"""The predictions of a saved model: of a table in memory, or of one that is read in pieces."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.app.cli.actual import Actual, estimate, judged
from decoupled_descent.app.models import TableModel
from decoupled_descent.app.tables.columns import MOST_DECIMALS, Columns
from decoupled_descent.app.tables.encoding import Tally
from decoupled_descent.app.tables.pieces import Pieces
from decoupled_descent.app.tables.values import is_number, listed, mark_missing, numbers_of

#: Text that a spreadsheet would run as a formula, also with full-width signs, and after signs that
#: it skips: spaces, invisible ones, and separators at which it may cut. A single sign is not.
FORMULA = re.compile(
    r"([\t\r\n]|[\s;\ufeff\u00ad\u180e\u200b-\u200f\u2060-\u2064]*[=+\-@＝＋－＠]).+", re.DOTALL
)
FORMULAS = "{} texts look like formulas of a spreadsheet; an apostrophe was put before them"
SEEN = (
    "{} of the {} rows are training rows: their predictions are from models that were fitted "
    "without them, as for new rows"
)
READ = "the table has {:,.0f} MB and was read in pieces"
Before = Callable[[NDArray[np.float64]], NDArray[np.float64] | None]


class Predictions(NamedTuple):
    """What was predicted. The table is None if it was written piece by piece."""

    rows: int
    actual: Actual | None  # the actual error, if it is known
    notes: list[str]
    table: pd.DataFrame | None = None


def predict(saved: TableModel, pieces: Pieces, file: TextIO, before: Before) -> Predictions:
    """Predict the rows of a table piece by piece, and write them to a file as CSV.

    ``before`` returns the leave-one-out predictions of training rows; it is asked only for a table
    in memory. Raises ``ValueError`` if columns are missing, or if values of a table in memory are
    of another kind than those trained on. In a large table such values count as missing.
    """
    scan = pieces.scan([] if saved.target is None else [saved.target])
    notes = [] if pieces.whole else [READ.format(pieces.size / 1e6)]
    notes += [*scan.notes, *unlike_training(saved, scan.sample)]
    columns = rules(saved)
    tally = Tally(columns, strict=pieces.whole)
    said: list[Any] = []
    shielded = 0
    for frame in (mark_missing(one, columns.words) for one in pieces.frames(scan)):
        rows = matrix(saved, frame) if saved.columns is None else tally.apply(frame)
        said.append(outputs(saved, rows))
        known = before(np.asarray(rows, dtype=np.float64)) if pieces.whole else None
        if known is not None and known.shape == said[-1].shape:
            seen = np.asarray(np.isfinite(known).all(axis=1))
            said[-1] = np.where(seen[:, None], known, said[-1])
            notes.append(SEEN.format(int(seen.sum()), len(known)))
        table = as_table(saved, frame, said[-1])
        first = len(said) == 1
        safe, count = without_formulas(table)
        names = sum(FORMULA.fullmatch(str(name)) is not None for name in table.columns)
        shielded += count if first else count - names
        file.write(safe.to_csv(index=False, header=first, lineterminator="\n"))
    notes += tally.notes("training", everything=True)
    target = mark_missing(pd.DataFrame(scan.kept), columns.words).get(saved.target)
    actual = judged(saved, target, np.concatenate(said), notes)
    notes += [FORMULAS.format(shielded)] if shielded else []
    return Predictions(scan.rows, actual, notes, table if pieces.whole else None)


def rules(saved: TableModel) -> Columns:
    """The rules for the columns; those of a model that was trained in Python are empty."""
    return Columns(()) if saved.columns is None else saved.columns


def outputs(saved: TableModel, rows: Any) -> NDArray[np.float64]:
    """What a model says of rows: probabilities of the classes, or one column of numbers."""
    estimator: Any = saved.estimator
    if saved.task == "classification":
        return np.asarray(estimator.predict_proba(rows))
    return np.asarray(estimator.predict(rows))[:, None]


def as_table(saved: TableModel, frame: pd.DataFrame, said: NDArray[np.float64]) -> pd.DataFrame:
    """Predictions as a table, with the identifier of the rows before them."""
    table = pd.DataFrame({"prediction": as_target(saved, said)})
    if saved.task == "classification":
        for k, label in enumerate(class_names(saved).tolist()):
            table[f"probability_{label}"] = said[:, k]
    name = rules(saved).identifier
    if name and name in frame.columns:
        taken = name in table.columns
        table.insert(0, f"{name} (id)" if taken else name, frame[name].to_numpy())
    return table


def unlike_training(saved: TableModel, frame: pd.DataFrame) -> list[str]:
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


def class_names(saved: TableModel) -> NDArray[Any]:
    """The classes as they were written in the training table."""
    estimator: Any = saved.estimator
    spelt = rules(saved).spellings
    classes: NDArray[Any] = estimator.classes_
    return np.array(spelt, dtype=object) if len(spelt) == len(classes) else classes


def as_target(saved: TableModel, said: NDArray[np.float64]) -> NDArray[Any]:
    """Predictions written like the target: its classes, or numbers with as many decimals.

    Numbers get more decimals if their typical error is small: rounding never moves them by more
    than a two-hundredth of it.
    """
    if saved.task == "classification":
        names: NDArray[Any] = class_names(saved)[said.argmax(1)]
        return names
    if saved.columns is None:
        return said[:, 0]
    typical = math.sqrt(max(0.0, estimate(saved)[0]))
    needed = math.ceil(-math.log10(typical / 100)) if 0 < typical < math.inf else 0
    decimals = min(max(saved.columns.decimals, needed), max(0, needed) + 2, MOST_DECIMALS)
    rounded = np.round(said[:, 0], decimals) + 0.0
    whole = decimals <= 0 and bool((np.abs(rounded) < 2**53).all())
    return rounded.astype(np.int64) if whole else rounded


def without_formulas(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Put an apostrophe before text that looks like a formula; return the number of such cells.

    Names of columns count as cells.
    """
    formulas = [str(name) for name in table.columns if FORMULA.fullmatch(str(name))]
    safe, count = table.copy(), len(formulas)
    for name in table.columns:
        if not is_number(table[name].dtype):
            texts = table[name].astype(object)
            found = texts.map(lambda one: isinstance(one, str) and bool(FORMULA.fullmatch(one)))
            safe[name] = texts.where(~found, "'" + texts.astype(str))
            count += int(found.sum())
    return safe.rename(columns={name: f"'{name}" for name in formulas}), count


def matrix(saved: TableModel, frame: pd.DataFrame) -> Any:
    """Turn a table into the input of an estimator that was trained in Python."""
    names = getattr(saved.estimator, "feature_names_in_", None)
    known = [name for name in frame.columns if name != saved.target] if names is None else names
    absent = [name for name in known if name not in frame.columns]
    if absent:
        raise ValueError(f"the table lacks {listed(absent)}, which the model was trained with")
    if len(known) != saved.estimator.n_features_in_:
        raise ValueError(
            f"the table has {len(known)} columns, and the model was trained with "
            f"{saved.estimator.n_features_in_}"
        )
    rows = np.stack([numbers_of(frame[name]) for name in known], 1)
    if np.isnan(rows).any():
        column = known[int(np.isnan(rows).any(0).argmax())]
        raise ValueError(f"column {column!r} has missing values; the model was trained without any")
    return rows if names is None else pd.DataFrame(rows, columns=list(known))


def to_dict(saved: TableModel, found: Predictions) -> dict[str, Any]:
    """Return the result for machines; without a table, the predictions are in the file alone."""
    columns = {} if found.table is None else {str(k): v.tolist() for k, v in found.table.items()}
    names = list(columns)
    after = names.index("prediction") + 1 if names else 0
    shares = {name.removeprefix("probability_"): columns[name] for name in names[after:]}
    error, stderr = estimate(saved)
    return {
        "task": saved.task,
        "target": saved.target,
        "rows": found.rows,
        "id": columns[names[0]] if after == 2 else None,
        "predictions": columns.get("prediction"),
        "probabilities": shares or None,
        "estimated_test_error": error,
        "estimated_test_error_stderr": stderr,
        "verdict": saved.metadata["verdict"],
        "actual": None if found.actual is None else found.actual._asdict(),
        "notes": found.notes,
    }
