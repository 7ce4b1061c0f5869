"""A saved model that predicts with NumPy alone, so that ``decoupled predict`` answers at once.

Importing PyTorch and scikit-learn takes longer than predicting a small table. This module reads the
models that ``decoupled train`` writes by default, and predicts as :class:`Predictor` does. For any
other model, and for a file that is not as it should be, :func:`load_light` returns None:
:func:`decoupled_descent.load_model` then reads the file, or says what is wrong with it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.app.export.light_intervals import LightJackknife
from decoupled_descent.app.export.predictor import CLIP, Predictor
from decoupled_descent.checks import LARGEST, SCORES, is_finite_number, verdict_of
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.schema import MEMBERS, check_model
from decoupled_descent.tensor_file import MODEL_FORMAT, model_file, read_arrays

Floats = NDArray[np.float64]

#: Tables with more bytes are predicted with PyTorch: NumPy needs longer for them than the import
#: of PyTorch takes.
MOST_BYTES = 1_000_000


class LightRule(NamedTuple):
    """How probabilities become decisions."""

    threshold: float
    positive: int
    decide: Callable[[Floats], Any]


class LightEstimator(Predictor):
    """The attributes of a fitted estimator that predictions need, and its predictions."""

    def __init__(self, content: Any, arrays: dict[str, Any], columns: Columns) -> None:
        self.arrays, self.about = arrays, described(content, columns)
        self.classes, self.log_target = self.about["classes"], self.about["log"]
        task = content["task"]
        self._error_name = "log loss" if self.classes else "mean squared error"
        if self.classes is None:
            self.target_mean_, self.target_scale_ = content["scale"]
            self._jackknife = LightJackknife(self, content["jackknife"]["constant"])
        else:
            self.classes_ = np.array(self.classes, dtype=content["classes"]["dtype"])
        numbers = {name: _number(one) for name, one in content["estimates"].items()}
        ends = {name: tuple(map(_number, pair)) for name, pair in content["intervals"].items()}
        self.estimated_test_error_ = numbers["estimated_test_error_"]
        self.estimated_test_error_stderr_ = numbers["estimated_test_error_stderr_"]
        self.estimated_test_error_interval_ = ends["estimated_test_error_interval_"]
        score, self.n_features_in_ = SCORES[task], int(content["columns_in"])
        vars(self).update({score: numbers[score], f"{score}interval_": ends[f"{score}interval_"]})

    def predict_proba(self, X: Any) -> Floats:  # type: ignore[override]
        """Class probabilities of the rows of a matrix, shape (m, K)."""
        result: Floats = self.outputs(self._filled(X))
        return result

    def predict(self, X: Any) -> Floats:  # type: ignore[override]
        """Numbers for the rows of a matrix, in the units of the target, shape (m,)."""
        result: Floats = self.in_units(self.outputs(self._filled(X)))[:, 0]
        return result

    def predict_interval(self, X: Any, level: float) -> Floats:
        """Ends of prediction intervals, in the units of the target, shape (m, 2)."""
        X = self._filled(X)
        result: Floats = self.in_units(self._jackknife.intervals(X, self.outputs(X), level))
        return result

    @property
    def decision_rule_(self) -> LightRule:
        """The threshold and the class to find."""
        threshold, positive = self.about["rule"]
        return LightRule(threshold, positive, self.decide)

    def with_threshold(self, threshold: float) -> LightEstimator:
        """The same model with another threshold."""
        result = copy.copy(self)
        result.about = self.about | {"rule": [threshold, self.about["rule"][1]]}
        return result

    def _filled(self, X: Any) -> Any:
        """The rows with medians of the training for missing numbers."""
        medians = self.arrays.get("medians")
        return X if medians is None else np.where(np.isnan(X), medians, X)


@dataclass(frozen=True)
class LightModel:
    """A model that was read from a file, with the names of :class:`SavedModel`."""

    estimator: LightEstimator
    columns: Columns
    target: str | None
    task: str
    metadata: Mapping[str, Any]

    @property
    def on_matrix(self) -> LightEstimator:
        """The estimator for the matrix that ``columns`` makes of a table."""
        return self.estimator


def load_light(path: Path) -> LightModel | None:
    """Read a model that NumPy can predict with; None for any other file."""
    try:
        arrays, content = read_arrays(model_file(path))
        return _rebuilt(content, arrays)
    except Exception:  # whatever is wrong, the loader of all models finds it, and says it
        return None


def _rebuilt(content: Any, arrays: dict[str, Any]) -> LightModel | None:
    mixture = content.get("mixture")
    usual = content["format"] == MODEL_FORMAT and content["clip"] == CLIP and mixture is not None
    usual = usual and content["columns"] is not None
    if not usual or not is_covered(mixture):
        return None
    check_model(content, arrays)
    columns, task = Columns.from_dict(content["columns"]), content["task"]
    if content["columns_in"] != len(columns.names) or isinstance(content.get("scale"), int):
        return None
    if task == "regression" and not all(map(is_finite_number, content["scale"])):
        return None  # several targets
    estimator = LightEstimator(content, arrays, columns)
    with np.errstate(all="ignore"):
        tried = estimator.outputs(np.zeros((2, len(columns.names))))
    width = 1 if estimator.classes is None else len(estimator.classes)
    if tried.shape != (2, width) or not np.isfinite(tried).all():
        return None
    verdict = verdict_of(one["status"] for one in content["findings"])
    return LightModel(estimator, columns, content["target"], task, {"verdict": verdict})


def is_covered(mixture: Any) -> bool:
    """Whether NumPy code has the features and members of a mixture."""
    kernels = all("kind" in one.get("kernel", one) for one in mixture["maps"])
    return kernels and {one["model"]["kind"] for one in mixture["others"]} <= set(MEMBERS)


def described(content: Any, columns: Columns) -> dict[str, Any]:
    """What :class:`Predictor` needs beside the numbers of a model file."""
    mixture, classes = content["mixture"], content["task"] == "classification"
    return {
        "columns": columns.to_dict()["columns"],
        "classes": content["classes"]["labels"] if classes else None,
        "rule": content["decision_rule"] if classes else None,
        "scale": None if classes else content["scale"],
        "log": bool(content["settings"].get("log_target", False)),
        "largest": math.log(LARGEST),
        **{name: mixture[name] for name in ("rows", "maps", "members", "others")},
    }


def _number(value: Any) -> float:
    """A number of a file; None stands for one that is not finite."""
    return math.nan if value is None else float(value)
