"""Leave-one-out predictions of the training rows, saved beside the model.

``predict`` recognises training rows by their fingerprints, and returns these predictions for them.
The model itself was fitted to the rows, so its own predictions of them would look too good.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.app.cli.destination import LEFT_OUT
from decoupled_descent.app.files.formulas import without_formulas
from decoupled_descent.tensor_file import model_file, read_header

if TYPE_CHECKING:
    from decoupled_descent.app.cli.tables import TrainingTable

NOT_RECOGNISED = (
    "rows that were trained on are not recognised in a table that is read in pieces: the model was "
    "fitted to them, and predicts them better than new ones"
)
FOREIGN = (
    f"{LEFT_OUT} beside the model was edited or is of another training, and was not used: rows "
    "that were trained on are predicted better than new ones"
)
#: The column of numbers of groups, and the start of the name of the column of the target.
GROUP, TRUE = "group", "true "
#: If at least this share of a table's rows are equal to training rows, it is the training table.
#: Fewer equal rows can be a coincidence, unless this share of the training rows have no equals.
NEARLY_ALL = 0.95
#: Numbers that are in memory at a time, where rows are on disk.
TOGETHER = 2**20
#: Rows of the table that are text in memory at a time.
ROWS = 50_000


def fingerprints(X: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return a hash of each row's numbers."""
    hashes, size = np.empty(len(X), dtype=np.uint64), max(1, TOGETHER // max(1, X.shape[1]))
    for start in range(0, len(X), size):
        rows = np.ascontiguousarray(X[start : start + size], dtype=np.float64) + 0.0  # −0 is 0
        for k, row in enumerate(rows, start):
            hashes[k] = int.from_bytes(hashlib.sha256(row.tobytes()).digest()[:8], "big")
        if isinstance(X, np.memmap):
            from decoupled_descent.rows.sources import released

            released(X)
    return hashes


@dataclass(frozen=True)
class LeftOutTable:
    """A table of the training rows as text in parts: ``ROWS`` rows at a time are in memory.

    Its columns are fingerprint, row, the number of the group if rows are left out in groups,
    target, prediction, and the probabilities of classes.
    """

    prepared: TrainingTable
    estimator: Any
    target: str
    fingerprints: NDArray[np.uint64]
    groups: NDArray[np.intp] | None = None

    def __iter__(self) -> Iterator[str]:
        """Yield the parts."""
        for start in range(0, len(self.fingerprints), ROWS):
            safe, _ = without_formulas(self._part(slice(start, start + ROWS)))
            yield str(safe.to_csv(index=False, header=not start, lineterminator="\n"))

    def _part(self, span: slice) -> pd.DataFrame:
        assert self.prepared.frame is not None
        hashes = self.fingerprints[span].tolist()
        table = pd.DataFrame({"fingerprint": [f"{one:016x}" for one in hashes]})
        table["row"] = self.prepared.frame.index.to_numpy()[span]
        if self.groups is not None:
            table[GROUP] = self.groups[span]
        table[f"{TRUE}{self.target}"] = self.prepared.y[span]
        if not self.prepared.task.has_classes:
            return table.assign(prediction=self.estimator.corrected_prediction_[span])
        probabilities, classes = self.estimator.corrected_proba_[span], self.estimator.classes_
        rule = self.estimator.decision_rule_
        table["prediction"] = classes[rule.decide(np.asarray(probabilities, np.float64))]
        for k, label in enumerate(classes.tolist()):
            table[f"probability_{label}"] = probabilities[:, k]
        return table


def as_csv(prepared: TrainingTable, estimator: Any, target: str) -> LeftOutTable:
    """Return a table of all training rows."""
    hashes = fingerprints(prepared.X)
    groups = None if prepared.groups is None else np.unique(prepared.groups, return_inverse=True)[1]
    return LeftOutTable(prepared, estimator, target, hashes, groups)


def left_out_file(model: Path) -> Path:
    """Where the predictions of the training rows are, beside the model."""
    return (model if model.is_dir() else model.parent) / LEFT_OUT


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_foreign(model: Path) -> bool:
    """Whether there are predictions beside a model that were edited, or are of another training."""
    try:
        recorded = json.loads(read_header(model_file(model))[0]).get("left_out")
        return bool(checksum(left_out_file(model)) != recorded)
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError, RecursionError):
        return True


def predictions_of_training_rows(model: Path, X: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the leave-one-out predictions of the rows that were trained on.

    The result is one column of numbers, or the probabilities of the classes. Rows that were not
    trained on get nan. It is None if there is no such file or it is of another training, if no row
    was trained on, or if equal rows may be a coincidence.
    """
    if is_foreign(model):
        return None
    try:
        table = pd.read_csv(left_out_file(model), dtype=str, keep_default_na=False)
        outputs = table.iloc[:, table.columns.get_loc("prediction") :]
        outputs = outputs if outputs.shape[1] == 1 else outputs.iloc[:, 1:]  # probabilities
        by_row = outputs.astype(np.float64).set_axis(_numbered(table["fingerprint"]), axis=0)
    except (OSError, ValueError, KeyError):
        return None
    keys = pd.Series([f"{one:016x}" for one in fingerprints(X).tolist()])
    matched = by_row.reindex(_numbered(keys)).to_numpy()
    share = np.isfinite(matched).all(1).mean()
    alone = (~table["fingerprint"].duplicated(keep=False)).mean() >= NEARLY_ALL
    return matched if share >= NEARLY_ALL or (share > 0 and alone) else None


def _numbered(keys: pd.Series) -> pd.MultiIndex:
    """Pairs of a fingerprint and the number of equal ones before it."""
    return pd.MultiIndex.from_arrays([keys, keys.groupby(keys).cumcount()])
