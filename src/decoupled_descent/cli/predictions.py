"""The predictions of a saved model: of a table in memory, or of one that is read in pieces."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.cli.actual import Actual, estimate, judged
from decoupled_descent.estimators.saving import SavedModel
from decoupled_descent.tables.columns import MOST_DECIMALS
from decoupled_descent.tables.encoding import Tally
from decoupled_descent.tables.pieces import Pieces
from decoupled_descent.tables.values import is_number, listed, mark_missing, numbers_of

#: Text that a spreadsheet would run as a formula, also with full-width signs. A single sign is not.
FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠].+", re.DOTALL)
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


def predict(saved: SavedModel, frame: pd.DataFrame, before: Before) -> tuple[Predictions, str]:
    """Predict the rows of a table; return the predictions, also as CSV.

    ``before`` returns the leave-one-out predictions of training rows. Raises ``ValueError`` if
    columns are missing, or their values are of another kind than those trained on.
    """
    notes = list(frame.attrs["notes"])
    if saved.columns is not None:
        frame = mark_missing(frame, saved.columns.words)
    rows = matrix(saved, frame)
    notes += ignored(saved, frame)
    notes += saved.columns.remarks(frame) if saved.columns is not None else []
    said = outputs(saved, rows)
    known = before(np.asarray(rows, dtype=np.float64))
    if known is not None and known.shape == said.shape:
        seen = np.asarray(np.isfinite(known).all(axis=1))
        said = np.where(seen[:, None], known, said)
        notes.append(SEEN.format(int(seen.sum()), len(said)))
    table = as_table(saved, frame, said)
    safe, shielded = without_formulas(table)
    notes += not_carried(saved, frame)
    actual = judged(saved, frame.get(saved.target), said, notes)
    notes += [FORMULAS.format(shielded)] if shielded else []
    text = safe.to_csv(index=False, lineterminator="\n")
    return Predictions(len(table), actual, notes, table), text


def predict_pieces(saved: SavedModel, pieces: Pieces, file: TextIO) -> Predictions:
    """Predict the rows of a table piece by piece, and write them to a file as CSV.

    Values that cannot be read count as missing. Raises ``ValueError`` if columns are missing.
    """
    scan = pieces.scan([] if saved.target is None else [saved.target])
    notes = [READ.format(pieces.size / 1e6), *scan.notes, *ignored(saved, scan.sample)]
    words = () if saved.columns is None else saved.columns.words
    tally = None if saved.columns is None else Tally(saved.columns)
    said: list[Any] = []
    shielded = 0
    for frame in (mark_missing(one, words) for one in pieces.frames(scan)):
        said.append(outputs(saved, matrix(saved, frame) if tally is None else tally.apply(frame)))
        table = as_table(saved, frame, said[-1])
        first = len(said) == 1
        safe, count = without_formulas(table)
        names = sum(FORMULA.fullmatch(str(name)) is not None for name in table.columns)
        shielded += count if first else count - names
        file.write(safe.to_csv(index=False, header=first, lineterminator="\n"))
    notes += [] if tally is None else tally.notes("training", everything=True)
    notes += not_carried(saved, scan.sample)
    target = scan.kept.get(str(saved.target))
    if target is not None:
        target = mark_missing(pd.DataFrame({saved.target: target}), words)[saved.target]
    actual = judged(saved, target, np.concatenate(said), notes)
    notes += [FORMULAS.format(shielded)] if shielded else []
    return Predictions(scan.rows, actual, notes)


def outputs(saved: SavedModel, rows: Any) -> NDArray[np.float64]:
    """What a model says of rows: probabilities of the classes, or one column of numbers."""
    estimator: Any = saved.estimator
    if saved.task == "classification":
        return np.asarray(estimator.predict_proba(rows))
    return np.asarray(estimator.predict(rows))[:, None]


def as_table(saved: SavedModel, frame: pd.DataFrame, said: NDArray[np.float64]) -> pd.DataFrame:
    """Predictions as a table, with the identifier of the rows before them."""
    table = pd.DataFrame({"prediction": as_target(saved, said)})
    if saved.task == "classification":
        for k, label in enumerate(class_names(saved).tolist()):
            table[f"probability_{label}"] = said[:, k]
    name = saved.columns.identifier if saved.columns is not None else ""
    if name and name in frame.columns:
        taken = name in table.columns
        table.insert(0, f"{name} (id)" if taken else name, frame[name].to_numpy())
    return table


def not_carried(saved: SavedModel, frame: pd.DataFrame) -> list[str]:
    """Say where the identifier of the rows is not there."""
    name = saved.columns.identifier if saved.columns is not None else ""
    if not name or name in frame.columns:
        return []
    return [f"the table has no column {name!r}, which identified the rows in training"]


def ignored(saved: SavedModel, frame: pd.DataFrame) -> list[str]:
    """Say which columns the model does not know."""
    if saved.columns is None:
        return []
    extra = [name for name in saved.columns.extra(frame) if name != saved.target]
    return [f"columns that the model does not know are ignored: {listed(extra)}"] if extra else []


def class_names(saved: SavedModel) -> NDArray[Any]:
    """The classes as they were written in the training table."""
    estimator: Any = saved.estimator
    spelt = saved.columns.spellings if saved.columns is not None else ()
    classes: NDArray[Any] = estimator.classes_
    return np.array(spelt, dtype=object) if len(spelt) == len(classes) else classes


def as_target(saved: SavedModel, said: NDArray[np.float64]) -> NDArray[Any]:
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


def matrix(saved: SavedModel, frame: pd.DataFrame) -> Any:
    """Turn a table into the input of the estimator, even if the model was trained in Python."""
    if saved.columns is not None:
        return saved.columns.apply(frame)
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


def to_dict(saved: SavedModel, found: Predictions) -> dict[str, Any]:
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
