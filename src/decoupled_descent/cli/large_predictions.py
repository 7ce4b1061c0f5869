"""Predictions of a table that is read in pieces, written as they are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import pandas as pd

from decoupled_descent.cli import predictions
from decoupled_descent.cli.left_out import LEFT_OUT
from decoupled_descent.cli.predictions import FORMULA, FORMULAS, Actual
from decoupled_descent.estimators.saving import SavedModel
from decoupled_descent.tables.encoding import Tally
from decoupled_descent.tables.pieces import Pieces
from decoupled_descent.tables.values import mark_missing

READ = "the table has {:,.0f} MB and was read in pieces"
UNSEEN = (
    "rows that were trained on are not recognised in a table that is read in pieces: the model has "
    "seen them, and predicts them better than new ones"
)


class Written(NamedTuple):
    """What was predicted: how many rows, the actual error if it is known, and what was noticed."""

    rows: int
    actual: Actual | None
    notes: list[str]


def predict(saved: SavedModel, model: Path, pieces: Pieces, file: TextIO) -> Written:
    """Predict the rows of a table piece by piece, and write them to a file as CSV.

    Values that cannot be read count as missing. Raises ``ValueError`` if columns are missing.
    """
    scan = pieces.scan([] if saved.target is None else [saved.target])
    notes = [READ.format(pieces.size / 1e6), *scan.notes, *predictions.ignored(saved, scan.sample)]
    notes += [UNSEEN] if ((model if model.is_dir() else model.parent) / LEFT_OUT).exists() else []
    words = () if saved.columns is None else saved.columns.words
    tally = None if saved.columns is None else Tally(saved.columns)
    said: list[Any] = []
    shielded = 0
    for frame in (mark_missing(one, words) for one in pieces.frames(scan)):
        rows = predictions.matrix(saved, frame) if tally is None else tally.apply(frame)
        said.append(predictions.outputs(saved, rows))
        table = predictions.as_table(saved, frame, said[-1])
        first = len(said) == 1
        safe, count = predictions.without_formulas(table)
        names = sum(FORMULA.fullmatch(str(name)) is not None for name in table.columns)
        shielded += count if first else count - names
        file.write(safe.to_csv(index=False, header=first, lineterminator="\n"))
    notes += [] if tally is None else tally.notes("training", everything=True)
    notes += predictions.not_carried(saved, scan.sample)
    target = scan.kept.get(str(saved.target))
    if target is not None:
        target = mark_missing(pd.DataFrame({saved.target: target}), words)[saved.target]
    actual = predictions.judged(saved, target, np.concatenate(said), notes)
    notes += [FORMULAS.format(shielded)] if shielded else []
    return Written(scan.rows, actual, notes)


def to_dict(saved: SavedModel, written: Written) -> dict[str, Any]:
    """Return the result for machines; the predictions are in the file."""
    error, stderr = predictions.estimate(saved)
    return {
        "task": saved.task,
        "target": saved.target,
        "rows": written.rows,
        "id": None,
        "predictions": None,
        "probabilities": None,
        "estimated_test_error": error,
        "estimated_test_error_stderr": stderr,
        "verdict": saved.metadata["verdict"],
        "actual": None if written.actual is None else written.actual._asdict(),
        "notes": written.notes,
    }
