"""Leave-one-out predictions of the training rows, saved beside the model.

``predict`` recognises training rows by their fingerprints, and returns these predictions for them.
The model itself was fitted to the rows, so its own predictions of them would look too good.
"""

from __future__ import annotations

import csv
import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.cli.distributed import all_fingerprints
from decoupled_descent.cli.predictions import without_formulas
from decoupled_descent.cli.tables import Prepared
from decoupled_descent.rows.sources import released

LEFT_OUT = "left_out.csv"
#: If at least this share of a table's rows are training rows, it is the training table. A smaller
#: share can be a coincidence.
KNOWN = 0.95
#: Numbers that are in memory at a time, where rows are on disk.
TOGETHER = 2**20


def fingerprints(X: NDArray[np.float64]) -> list[str]:
    """Return a hash of each row's numbers, 16 characters long."""
    found, size = [], max(1, TOGETHER // max(1, X.shape[1]))
    for start in range(0, len(X), size):
        rows = np.ascontiguousarray(X[start : start + size], dtype=np.float64) + 0.0  # −0 is 0
        found += [hashlib.sha256(row.tobytes()).hexdigest()[:16] for row in rows]
        released(X)
    return found


def as_csv(prepared: Prepared, estimator: Any, target: str) -> str:
    """Return a table of the training rows: fingerprint, row, target, prediction, probabilities."""
    assert prepared.frame is not None
    found = fingerprints(prepared.X)
    if prepared.rows is not None:
        found = all_fingerprints(prepared.rows, found)
    table = pd.DataFrame({"fingerprint": found})
    table["row"] = prepared.frame.index.to_numpy()
    table[f"true {target}"] = prepared.y
    if prepared.task == "classification":
        chances = estimator.corrected_proba_
        table["prediction"] = estimator.classes_[chances.argmax(1)]
        for k, label in enumerate(estimator.classes_.tolist()):
            table[f"probability_{label}"] = chances[:, k]
    else:
        table["prediction"] = estimator.corrected_prediction_
    safe, _ = without_formulas(table)
    return str(safe.to_csv(index=False, lineterminator="\n"))


def seen_before(model: Path, X: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the leave-one-out predictions of the rows, if these are the training rows.

    The result is one column of numbers, or the probabilities of the classes. Rows that were not
    trained on get nan. It is None if there is no such file, or too few rows were trained on.
    """
    path = (model if model.is_dir() else model.parent) / LEFT_OUT
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = [line for line in csv.reader(file) if line]
    except (OSError, ValueError, csv.Error):
        return None
    names = lines[0] if lines else []
    if names[:2] != ["fingerprint", "row"] or "prediction" not in names:
        return None
    start = names.index("prediction") + (len(names) > names.index("prediction") + 1)
    known: dict[str, list[list[str]]] = defaultdict(list)
    for line in reversed(lines[1:]):
        known[line[0]].append(line[start:])
    found = [known[key].pop() if known[key] else [] for key in fingerprints(X)]
    if sum(map(bool, found)) < KNOWN * len(found):
        return None
    try:
        width = len(names) - start
        return np.array([[float(v) for v in one] or [np.nan] * width for one in found])
    except ValueError:
        return None
