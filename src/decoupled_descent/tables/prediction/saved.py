"""Model files, read for predictions with NumPy alone: importing PyTorch takes longer than those."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.checks import Target, verdict_of
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.prediction.jackknife import Jackknife
from decoupled_descent.tables.prediction.predictor import (
    LINKS,
    Mixture,
    decided,
    in_units,
    probabilities,
    read_mixture,
)
from decoupled_descent.tables.schema import MAPS, MEMBERS, check_model, require
from decoupled_descent.tensor_file import MODEL_FORMAT, model_file, read_arrays

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class PredictionModel:
    """A model that was read from a file, for predictions of the matrix of a table.

    Attributes:
        content: The description in the file.
        columns: The rules that turn a table into a matrix; None if it was trained on a matrix.
        rule: For classes, the threshold, the number of the class to find, and whether classes are
            grades in order.
    """

    content: Mapping[str, Any]
    columns: Columns | None
    mixture: Mixture
    jackknife: Jackknife
    medians: Floats | None
    rule: tuple[float, int, bool] | None

    @property
    def task(self) -> Target:
        """``"classification"`` or ``"regression"``."""
        return Target(self.content["task"])

    @property
    def target(self) -> str | None:
        """The name of the column that is predicted."""
        target: str | None = self.content["target"]
        return target

    @property
    def verdict(self) -> str:
        """The verdict of the checks at training."""
        return verdict_of(one["status"] for one in self.content["findings"])

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes; None for numbers."""
        if not self.mixture.has_classes:
            return None
        return np.array(self.content["classes"]["labels"], dtype=self.content["classes"]["dtype"])

    @property
    def has_logarithm(self) -> bool:
        """Whether the logarithm of the target was fitted."""
        return bool(self.content["settings"].get("log_target", False))

    @property
    def has_squared_errors(self) -> bool:
        """Whether errors are squares of numbers."""
        return self.mixture.loss == "squared"

    @property
    def has_one_output(self) -> bool:
        """Whether it predicts one number."""
        return not self.mixture.has_classes and not isinstance(self.content["scale"][0], list)

    @property
    def error(self) -> tuple[float, float, tuple[float, float]]:
        """The error estimated at training, its standard error and interval; nan if not finite."""
        return self._estimate("estimated_test_error_")

    @property
    def score(self) -> tuple[float, float, tuple[float, float]]:
        """The accuracy or R² estimated at training, in the same form."""
        return self._estimate(self.task.score)

    def _estimate(self, name: str) -> tuple[float, float, tuple[float, float]]:
        numbers, ends = self.content["estimates"], self.content["intervals"][f"{name}interval_"]
        low, high = map(_number, ends)
        return _number(numbers[name]), _number(numbers[f"{name}stderr_"]), (low, high)

    def with_threshold(self, threshold: float) -> PredictionModel:
        """The same model with another threshold."""
        if self.rule is None or self.classes is None or len(self.classes) != 2:
            raise ValueError("a threshold is for two classes")
        return replace(self, rule=(threshold, *self.rule[1:]))

    def outputs(self, X: Any) -> Floats:
        """Probabilities of the classes (m, K), or numbers in the units of the target, (m, K)."""
        return self._in_units(self.mixture.predict(self._filled(X)))

    def intervals(self, X: Any, level: float) -> Floats:
        """Ends of prediction intervals of one target in its units, shape (m, 2)."""
        X = self._filled(X)
        ends = self.jackknife.intervals(self.mixture, X, self.mixture.predict(X), level)
        return self._in_units(ends[:, 0])

    def decide(self, outputs: Floats) -> NDArray[np.intp]:
        """The number of the class of each row, from the probabilities."""
        assert self.rule is not None
        return np.asarray(decided(outputs, *self.rule), np.intp)

    def _in_units(self, outputs: Floats) -> Floats:
        if self.mixture.has_classes:
            return outputs
        centre, width = self.content["scale"]
        result: Floats = in_units(outputs, np.array(centre), np.array(width), self.has_logarithm)
        return result

    def _filled(self, X: Any) -> Floats:
        """The rows with medians of the training for missing numbers."""
        X = np.asarray(X, np.float64)
        return X if self.medians is None else np.where(np.isnan(X), self.medians, X)


def read_model(path: Path) -> PredictionModel:
    """Read a model for predictions; raise ``ValueError`` or ``OSError`` as ``load_model`` does."""
    path = model_file(path)
    with refused(path):
        arrays, content = opened(path, read_arrays)
        check_format(content)
        check_model(content, arrays)
        described, classes = content["columns"], Target(content["task"]).has_classes
        columns = None if described is None else Columns.from_dict(described)
        require(
            columns is None or content["columns_in"] == len(columns.names),
            f"its columns make another number of features than {content['columns_in']!r:.20}",
        )
        loss = content["mixture"]["loss"]
        right = loss in LINKS and (LINKS[loss].mean is probabilities) == classes
        require(right, f"it has the loss {loss!r:.20}")
        require(
            is_covered(content["mixture"]),
            "it has features or members of your own, which decoupled_descent.load_model reads",
        )
        constant = content["jackknife"]["constant"]
        model = PredictionModel(
            content, columns, read_mixture(content["mixture"], arrays),
            Jackknife.read(constant, arrays), arrays.get("medians"),
            tuple(content["decision_rule"]) if classes else None,
        )  # fmt: skip
        for each in (model.verdict, *model.error[2], *model.score[2]):  # read later
            require(isinstance(each, str | float), f"its estimates have {each!r:.20}")
        with np.errstate(all="ignore"):
            tried = model.outputs(np.zeros((2, content["columns_in"])))
        require(np.isfinite(tried).all(), "its predictions are not finite")
        return model


def is_covered(about: Any) -> bool:
    """Whether NumPy code has the feature maps and members of a mixture."""
    kernels = all(one.get("map", MAPS[0]) in MAPS for one in about["maps"])
    return kernels and {one["model"]["kind"] for one in about["others"]} <= set(MEMBERS)


def opened(path: Path, read: Callable[[Path], tuple[dict[str, Any], Any]]) -> tuple[Any, Any]:
    """Read the numbers and the description of a model file."""
    try:
        return read(path)
    except ValueError as error:
        raise ValueError(f"{error}; copy it again, or train again") from error


def check_format(content: Any) -> None:
    """Raise ``ValueError`` for models of another version."""
    given = content.get("format") if isinstance(content, dict) else None
    if given != MODEL_FORMAT:
        raise ValueError(
            f"it has format {given!r:.20} and this version reads {MODEL_FORMAT}; update "
            "decoupled-descent, or train the model again"
        )


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """Whatever a model file lacks becomes one clear ``ValueError``."""
    try:
        yield
    except RecursionError:
        raise ValueError(f"{path}: nested too deeply; train the model again") from None
    except (LookupError, TypeError, AttributeError, OverflowError, RuntimeError) as error:
        raise ValueError(
            f"{path}: incomplete or inconsistent ({type(error).__name__}: {error!s:.200}); train "
            "the model again"
        ) from error
    except ValueError as error:
        named = str(error).startswith(str(path))
        raise ValueError(str(error) if named else f"{path}: {error}") from error


def described(content: Any, columns: Columns) -> dict[str, Any]:
    """What the exported predictor needs beside the numbers of a model file."""
    mixture, classes = content["mixture"], Target(content["task"]).has_classes
    return {
        "columns": columns.to_dict()["columns"],
        "classes": content["classes"]["labels"] if classes else None,
        "rule": content["decision_rule"] if classes else None,
        "scale": None if classes else content["scale"],
        "log": bool(content["settings"].get("log_target", False)),
        **{name: mixture[name] for name in ("loss", "rows", "maps", "members", "others")},
    }


def _number(value: Any) -> float:
    """A number of a file; None stands for one that is not finite."""
    return math.nan if value is None else float(value)
