r"""Models on disk: one safetensors file with numbers and their description, without code.

The description is JSON in the file's header: preprocessing, the head layer by layer, classes,
settings, and what was estimated at training. A SHA-256 over the tensors and the description detects
damaged and edited files. Reading a file executes no code: layers are looked up in a short list, and
inconsistent files raise ``ValueError``.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

import decoupled_descent
from decoupled_descent.checks import Target
from decoupled_descent.files import written_whole
from decoupled_descent.objective.losses import get_loss
from decoupled_descent.tables.columns.frames import as_frame
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.estimators import DecoupledClassifier, DecoupledRegressor
from decoupled_descent.tables.estimators.base import DecoupledEstimator
from decoupled_descent.tables.estimators.newton_model import NewtonModel
from decoupled_descent.tables.estimators.parts import describe_estimator, rebuild_estimator
from decoupled_descent.tables.prediction.saved import check_format, opened, refused
from decoupled_descent.tables.schema import check_model, require
from decoupled_descent.tensor_file import MODEL_FORMAT, model_file, read_tensors, write_tensors

ESTIMATORS: dict[str, type[DecoupledEstimator]] = {
    "classification": DecoupledClassifier,
    "regression": DecoupledRegressor,
}


@dataclass(frozen=True)
class SavedModel:
    """A model that was read from a file.

    Attributes:
        estimator: The fitted estimator, with its estimates, curves and diagnosis.
            ``corrected_proba_``, ``corrected_prediction_`` and ``algorithm_`` are not saved.
        columns: The rules that turn a table into a matrix; None if it was trained on a matrix.
        target: Name of the column that is predicted, or None.
        task: ``"classification"`` or ``"regression"``.
        metadata: The version of the library, the settings, the chosen values, the versions and
            threads of the training, and the verdict.
    """

    estimator: DecoupledClassifier | DecoupledRegressor
    columns: Columns | None
    target: str | None
    task: Target
    metadata: Mapping[str, Any]

    def features(self, frame: Any) -> Any:
        """Turn a table into the estimator's matrix, or return a matrix as it is."""
        table = as_frame(frame)
        if self.columns is None:
            if table is None or hasattr(self.estimator, "feature_names_in_"):
                return frame
            return table.to_numpy()
        return self.columns.apply(frame if table is None else table)

    @property
    def on_matrix(self) -> Any:
        """The estimator for the matrix that ``columns`` makes of a table."""
        if self.estimator.columns_ is None:
            return self.estimator
        estimator = copy.copy(self.estimator)
        estimator.n_features_in_, estimator.columns_ = estimator._width, None
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return estimator

    def predict(self, frame: Any) -> NDArray[Any]:
        """Predict the target.

        Args:
            frame: A table of pandas or polars with the columns of training, in any order; a matrix
                if ``columns`` is None.

        Returns:
            One label or number per row.
        """
        result: NDArray[Any] = self.on_matrix.predict(self.features(frame))
        return result

    def predict_proba(self, frame: Any) -> NDArray[np.float64]:
        """Probabilities of the classes, in the order of ``estimator.classes_``, shape (m, K)."""
        self._require("predict_proba", "classification", "predict or predict_interval")
        result: NDArray[np.float64] = self.on_matrix.predict_proba(self.features(frame))
        return result

    def predict_interval(self, frame: Any, level: float = 0.9) -> NDArray[np.float64]:
        """Ends of the prediction interval of each row, shape (m, 2); for numbers only."""
        self._require("predict_interval", "regression", "predict_proba")
        result: NDArray[np.float64] = self.on_matrix.predict_interval(self.features(frame), level)
        return result

    def _require(self, method: str, task: str, instead: str) -> None:
        if self.task != task:
            raise ValueError(f"{method} is for {task}, but this is a {self.task}; use {instead}")


def save_model(
    estimator: Any,
    path: str | os.PathLike[str],
    columns: Columns | None = None,
    target: str | None = None,
    *,
    left_out: str | None = None,
) -> Path:
    """Save a trained estimator to a file, completely or not at all.

    Args:
        estimator: The fitted estimator.
        path: The file; ``.safetensors`` is the usual suffix.
        columns: The rules that turn a table into the matrix of ``fit``. The rules of an estimator
            that was trained on a raw table are saved without this.
        target: Name of the column that is predicted.
        left_out: SHA-256 of the table of leave-one-out predictions that belongs to the model.

    Returns:
        The path.

    Raises:
        ValueError: If the estimator is not fitted, or its members or classes cannot be described.
        OSError: If the file cannot be written.

    Example:
        >>> import tempfile, decoupled_descent as dd
        >>> X, y = dd.mixtures.flipped_classes(5, 3.0, labels=(0.0, 1.0)).sample(60, seed=0)
        >>> model = dd.DecoupledClassifier(ridge=1.0).fit(X, y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     loaded = dd.load_model(dd.save_model(model, Path(folder, "model.safetensors")))
        >>> bool((loaded.predict(X) == model.predict(X)).all()), loaded.task
        (True, 'classification')
    """
    if not isinstance(estimator, DecoupledEstimator) or not hasattr(
        estimator, "estimated_test_error_"
    ):
        raise ValueError(f"estimator={estimator!r:.80} must be a fitted classifier or regressor")
    if columns is not None and estimator.columns_ is not None:
        raise ValueError("the estimator has rules for its columns in columns_; leave out columns=")
    path, columns = Path(path), columns or estimator.columns_
    tensors, content = _described(estimator)
    content |= {
        "columns": None if columns is None else columns.to_dict(),
        "raw": _describe_raw(estimator),
        "target": None if target is None else str(target),
        "left_out": left_out,
    }
    _rebuild(json.loads(json.dumps(content, allow_nan=False)), tensors)  # it can be read again
    try:
        with written_whole(path) as partial:
            write_tensors(partial, tensors, content)
    except OSError as error:
        raise OSError(f"{path}: cannot be written ({error.strerror or error})") from error
    return path


def _described(estimator: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a model, and its description for the header."""
    tensors, description = describe_estimator(estimator)
    parts, about = estimator.model_.state()
    description |= about | {
        "format": MODEL_FORMAT,
        "library": decoupled_descent.__version__,
        "made_with": dict(estimator.metadata_),
    }
    return tensors | parts, description


def _describe_raw(estimator: Any) -> dict[str, Any] | None:
    """The columns of the raw table of ``fit``; None if the estimator was trained on a matrix."""
    if estimator.columns_ is None:
        return None
    return {"count": int(estimator.n_features_in_), "names": estimator._raw_names}


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model from a file, and check it.

    Args:
        path: The file, or a folder with ``model.safetensors`` in it, such as ``decoupled train``
            writes.

    Returns:
        The model. Its ``predict`` takes the raw table that the model was trained on; its
        predictions are bit for bit those of the saved one.

    Raises:
        OSError: If there is no such file, or it cannot be read.
        ValueError: If it is not a model, has an unknown version, or was damaged or edited.

    Example:
        >>> import tempfile, decoupled_descent as dd, pandas as pd
        >>> table = pd.DataFrame({"size": [1.0, None, 3.0, 5.0] * 9, "town": [*"abcd"] * 9})
        >>> model = dd.DecoupledRegressor(ridge=1.0).fit(table, table["size"].fillna(0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     loaded = dd.load_model(dd.save_model(model, Path(folder, "model.safetensors")))
        >>> bool((loaded.predict(table) == model.predict(table)).all())
        True
    """
    path = model_file(path)
    with refused(path):
        tensors, content = opened(path, read_tensors)
        check_format(content)
        return _rebuild(content, tensors)


def _rebuild(content: dict[str, Any], tensors: dict[str, Tensor]) -> SavedModel:
    task, target = content["task"], content["target"]
    require(isinstance(task, str) and task in ESTIMATORS, f"its task is {task!r:.40}")
    check_model(content, {name: value.numpy() for name, value in tensors.items()})
    described = content["columns"]
    columns = None if described is None else Columns.from_dict(described)
    estimator: Any = ESTIMATORS[task]()
    rebuild_estimator(estimator, content, tensors)
    _rebuild_model(estimator, content, tensors)
    made = estimator.n_features_in_ if columns is None else len(columns.names)
    require(
        made == estimator.n_features_in_,
        f"its columns make {made} features but it has {estimator.n_features_in_}",
    )
    _rebuild_raw(estimator, content["raw"], columns)
    estimator.metadata_ = dict(content["made_with"])
    kept = ("library", "settings", "chosen", "made_with")
    metadata = {name: content[name] for name in kept} | {"verdict": estimator.diagnostics_.verdict}
    return SavedModel(estimator, columns, target, task, metadata)


def _rebuild_raw(estimator: Any, raw: Any, columns: Columns | None) -> None:
    """Set the rules of an estimator that was trained on a raw table, and the names of its columns.

    ``raw`` is what :func:`_describe_raw` returned.
    """
    if raw is None:
        return
    require(columns is not None, "it was trained on a raw table, but has no rules for columns")
    assert columns is not None
    count, names = raw["count"], raw["names"]
    used = {column.name for column in columns.columns}
    right = type(count) is int and count == len(columns.columns) + len(columns.dropped)
    if names is not None:
        right = right and len(names) == count and {*names} == used | {*columns.dropped}
        estimator.feature_names_in_ = np.array(names, dtype=object)
    require(right, "the names of the columns do not match the rules for them")
    estimator.n_features_in_, estimator.columns_ = count, columns


def _rebuild_model(estimator: Any, content: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Set the model of an estimator, and predict two rows to check that its parts match."""
    loss, outputs = estimator._loss
    try:
        model = NewtonModel.restore(content, tensors, get_loss(loss), outputs)
        with np.errstate(all="ignore"):
            predictions = model.predict(np.zeros((2, estimator.n_features_in_)))
    except (RuntimeError, IndexError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"its features do not match ({reason}); train again") from error
    right = len(predictions) == 2 and np.isfinite(predictions).all()
    require(right, "its predictions are not finite")
    estimator.model_ = model
