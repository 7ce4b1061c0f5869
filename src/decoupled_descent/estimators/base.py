"""Base class of classifier and regressor: options, choice of the method, search, predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor, from_numpy, nn

from decoupled_descent.checks import whole_number
from decoupled_descent.descent import check_method
from decoupled_descent.diagnostics.diagnosis import diagnose
from decoupled_descent.estimators.learning_curve import (
    LearningCurve,
    learning_curve,
    measured_losses,
)
from decoupled_descent.estimators.mixture import Mixture
from decoupled_descent.estimators.network import Floats, NetworkTraining
from decoupled_descent.estimators.newton import (
    Weighing,
    candidate_records,
    check_groups,
    judged_run,
    ridge_curve,
    standardised,
    weigh,
)
from decoupled_descent.plotting.runs import plot_curve
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.gathered import all_labels, is_divided, whole
from decoupled_descent.rows.scaling import as_rows, is_sparse
from decoupled_descent.rows.sources import Source, as_source, read_size
from decoupled_descent.rows.store import SMALL
from decoupled_descent.rows.tensors import check_plain
from decoupled_descent.validation.found import Candidate, Search
from decoupled_descent.validation.search import search
from decoupled_descent.validation.tuning import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Options of networks and descents, with their defaults. With any other value, ``"auto"`` means
#: ``"orthogonal"``.
DESCENT = {
    "hidden": "auto", "activation": "tanh", "head": None, "lr": "auto", "damping": "auto",
    "max_iter": 500, "early_stopping": True, "warm_start": False, "device": "cpu",
}  # fmt: skip
#: Larger arrays are predicted in parts of about so many numbers, which bounds memory.
PREDICTED = 2**18
#: float32 stays as it is; all other types become float64. Sums are always in float64.
PRECISIONS = [np.float64, np.float32]
#: Formats of sparse matrices that linear features support.
SPARSE = ("csr", "csc")


@dataclass(eq=False, repr=False)
class DecoupledEstimator(NetworkTraining, BaseEstimator):
    """The common base; see :class:`DecoupledClassifier` for the options and attributes."""

    _task: ClassVar[str]
    _error_name: ClassVar[str]
    _encoded: ClassVar[Callable[[Any, Any], tuple[Tensor, str, int]]]

    hidden: int | tuple[int, ...] | str = "auto"
    activation: str = "tanh"
    _: KW_ONLY
    head: nn.Module | None = None
    method: str = "auto"
    features: Any = "auto"
    stack: bool = True
    lr: Setting = "auto"
    damping: Setting = "auto"
    ridge: Setting = "auto"
    max_iter: int = 500
    early_stopping: bool = True
    warm_start: bool = False
    random_state: Any = 0
    device: str = "cpu"
    verbose: bool = False

    def __sklearn_tags__(self) -> Any:
        """Declare that the Newton method supports sparse matrices and several targets."""
        tags = super().__sklearn_tags__()
        newton = self._chosen_method() == "newton"
        tags.input_tags.sparse = newton
        tags.target_tags.multi_output = newton and self._task == "regression"
        return tags

    def plot_training(self) -> Figure:
        """Draw the estimated test error over the steps (or ridges), with its 95 % interval.

        Returns:
            A figure; ``figure.savefig(path)`` writes it to a file.
        """
        check_is_fitted(self)
        return plot_curve(
            self.train_error_curve_,
            self.train_error_stderr_curve_,
            title=f"{type(self).__name__}, {self.method_}",
            ylabel=self._error_name,
            xlabel="ridge, from strong to weak" if self.method_ == "newton" else "step",
        )

    def learning_curve(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        repeats: int = 2,
    ) -> LearningCurve:
        """Predict the error with twice as many rows, from fits to quarters and halves of the rows.

        Every part is fitted with the features of largest weight in the model. Its ridge is chosen
        again, and its errors are leave-one-out errors. Each division of the rows takes about as
        long as ``fit``.

        Args:
            X: Features of ``fit``, shape (n, d), n at least 40.
            y: Labels or targets of ``fit``.
            sample_weight: Weights of ``fit``.
            groups: Groups of ``fit``; parts consist of whole groups.
            repeats: How often the rows are divided at random.

        Returns:
            A table of errors, the expected error, its interval, and ``.plot()``.
        """
        check_is_fitted(self)
        whole_number("repeats", repeats)
        if self.method_ != "newton":
            raise ValueError(f"learning_curve needs method='newton', not {self.method_!r}")
        if streamed(X) is not None:
            raise ValueError("learning_curve needs X in memory, but it is read block by block")
        rows, labels = validate_data(
            self, X, y, dtype=np.float64, reset=False, accept_sparse=SPARSE,
            multi_output=self._task == "regression",
        )  # fmt: skip
        weighing, codes = self._weighing(
            rows, sample_weight, self._own_weights(labels), groups, rows.shape[0]
        )
        if weighing.kept is not None:
            rows, labels = rows[weighing.kept], labels[weighing.kept]
        targets = self._encoded(labels)[0]
        n, seed = len(targets), int(check_random_state(self.random_state).randint(2**31 - 1))
        strata = targets.long().numpy() if self._task == "classification" else np.zeros(n, int)
        together = np.arange(n) if codes is None else codes.numpy()
        shares = np.ones(n) if weighing.shares is None else weighing.shares.numpy()
        judge = self._judge_of_parts(rows, labels, weighing, codes, seed)
        losses = measured_losses(judge, together, strata, repeats, seed)
        now = self.estimated_test_error_, self.estimated_test_error_stderr_
        return learning_curve(losses, together, shares, now, self._error_name, seed)

    def _judge_of_parts(
        self, rows: Any, labels: Any, weighing: Weighing, codes: Tensor | None, seed: int
    ) -> Callable[[NDArray[np.intp]], Floats]:
        """A function that fits some of the rows alone, and returns their leave-one-out losses."""
        targets, loss, outputs = self._encoded(labels)
        features = self.mixture_.main_features()

        def judge(part: NDArray[np.intp]) -> Floats:
            given = [None if v is None else v[part] for v in (*weighing[1:3], codes)]
            found = search(
                rows[part], targets[part], loss, outputs=outputs, features=features,
                ridge=self.ridge, weights=given[0], removed=given[1], groups=given[2],
                stack=bool(self.stack), seed=seed, progress=False,
            )  # fmt: skip
            losses: Floats = self._row_errors(found).numpy()
            return losses

        return judge

    def _search(
        self, X: Any, targets: Tensor, loss: str, outputs: int, weighing: Weighing, groups: Any
    ) -> Floats:
        """Train by the Newton method; return the left-out predictions of the rows."""
        self._check_settings()
        self._check_unused()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        inputs = X if is_sparse(X) else as_rows(X)
        found = search(
            inputs, targets, loss, outputs=outputs, features=self.features, ridge=self.ridge,
            weights=weighing.weights, removed=weighing.removed, groups=groups,
            stack=bool(self.stack), seed=seed, progress=bool(self.verbose) or None,
        )  # fmt: skip
        best = found.best
        self.mixture_ = Mixture.of(found)
        self._estimate(found, weighing, seed)
        self.ridges_, errors, stderrs, self.best_iter_ = ridge_curve(found, self._measured)
        self.train_error_curve_, self.train_error_stderr_curve_ = errors, stderrs
        self.n_iter_ = len(errors)
        self.stop_reason_ = "interrupted" if found.interrupted else str(best.run.stop_reason)
        self.candidates_ = candidate_records(found, self._measured)
        self.algorithm_, self.metadata_ = best.run.algorithm, best.run.metadata
        self.diagnostics_ = diagnose(
            *judged_run(best),
            task=self._task,
            optimism=found.estimate.optimism,
            columns=standardised(whole(inputs, targets) if is_divided(inputs) else inputs),
            stderr=found.estimate.stderr,
        )
        left_out: Floats = found.left_out.numpy()
        return left_out

    def _estimate(self, found: Search, weighing: Weighing, seed: int) -> None:
        """Set the expected error and its standard error."""
        self.estimated_test_error_ = found.estimate.error
        self.estimated_test_error_stderr_ = found.estimate.stderr

    def _own_weights(self, labels: NDArray[Any]) -> Floats | None:
        """Weights that follow from the labels; none unless a task has them."""
        return None

    def _row_errors(self, found: Search) -> Tensor:
        """Leave-one-out losses of the rows, shape (n,)."""
        return found.losses

    def _measured(self, candidate: Candidate) -> tuple[float, float]:
        """Leave-one-out error of one candidate, and its standard error."""
        return candidate.error, candidate.run.best.train_error_stderr

    def _completed(self, judged: Floats, X: Any, kept: NDArray[np.bool_] | None) -> Floats:
        """Add predictions of rows of weight zero, which were not used for training."""
        if kept is None:
            return judged
        full = np.empty((len(kept), judged.shape[1]))
        full[kept], full[~kept] = judged, self.mixture_.predict(X[~kept])
        return full

    def _chosen_method(self) -> str:
        """The method. "auto" is Newton's, unless an option of networks or descents is given.

        With class weights it is always Newton's, because no other method supports them.
        """
        if self.method != "auto":
            check_method(self.method)
            return str(self.method)
        if getattr(self, "class_weight", None) is not None:
            return "newton"
        given = [name for name, usual in DESCENT.items() if _differs(getattr(self, name), usual)]
        return "orthogonal" if given else "newton"

    def _weighing(
        self, X: Any, sample_weight: Any, class_weight: Floats | None, groups: Any, n: int
    ) -> tuple[Weighing, Tensor | None]:
        """Check weights and groups, which only the Newton method supports."""
        given = {"sample_weight": sample_weight, "class_weight": class_weight, "groups": groups}
        for name, value in given.items():
            if value is not None and self.method_ != "newton":
                raise ValueError(f"{name} needs method='newton', not {self.method_!r}")
        sample_weight = _of_all(X, "sample_weight", sample_weight)
        groups = _of_all(X, "groups", groups)
        weighing, codes = weigh(sample_weight, class_weight, n), check_groups(groups, n)
        if codes is not None and weighing.kept is not None:
            codes = codes[from_numpy(weighing.kept)]
        return weighing, codes

    def _check_unused(self) -> None:
        """Raise ``ValueError`` for options of networks, which the Newton method does not train."""
        for name in ("hidden", "activation", "head", "warm_start"):
            given = getattr(self, name)
            if _differs(given, DESCENT[name]):
                raise ValueError(
                    f"{name}={given!r} has no effect with method='newton'; leave it out, or use "
                    "method='orthogonal' to train a network"
                )

    def _outputs(self, X: Any) -> Floats:
        """Evaluate the model on new rows, in float64; large arrays some rows at a time."""
        return self._piecewise(X, self._predicted)

    def _piecewise(self, X: Any, function: Callable[[Any], Floats]) -> Floats:
        """Apply a function to checked rows, in parts if there are many, (m, …)."""
        check_is_fitted(self)
        source = streamed(X)
        if source is not None:
            blocks = (part.X.numpy() for part in source.parts(read_size(X, 8 * source.d)))
            return np.concatenate([self._piecewise(block, function) for block in blocks])
        if not isinstance(X, np.ndarray) or X.ndim != 2 or X.size <= PREDICTED:
            return function(self._checked(X))
        size = max(1, PREDICTED // X.shape[1])
        first = function(self._checked(X[:size]))
        # one array for all: many small results would fragment the memory
        found = np.empty((len(X), *first.shape[1:]))
        found[:size] = first
        for start in range(size, len(X), size):
            part = slice(start, start + size)
            found[part] = function(self._checked(X[part]))
        return found

    def _checked(self, X: ArrayLike) -> Any:
        """New rows as a checked matrix, or ``ValueError``."""
        check_plain("X", X)
        return validate_data(self, X, dtype=np.float64, reset=False, accept_sparse=SPARSE)

    def _given(self, X: Any, y: Any, several: bool = False) -> tuple[Any, NDArray[Any]]:
        """Check rows and labels of ``fit``; the rows become a matrix, sparse or not, or Rows."""
        check_plain("X", X)
        check_plain("y", y)
        source = X if isinstance(X, Rows) else streamed(X)
        if source is None:
            rows, labels = validate_data(
                self, X, y, dtype=PRECISIONS, ensure_min_samples=2, multi_output=several,
                y_numeric=several, accept_sparse=SPARSE if self.method_ == "newton" else False,
            )  # fmt: skip
            return rows, labels
        if y is not None:
            labels = check_array(y, ensure_2d=False, dtype=np.float64 if several else None)
            labels = labels if several else column_or_1d(labels)
        if not isinstance(source, Rows):
            source = Rows(source, None if y is None else torch.zeros(len(labels)))
        elif y is not None and len(labels) != source.here:
            raise ValueError(f"y has {len(labels)} labels, and X has {source.here} rows")
        self.n_features_in_ = source.d
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        labels = source.y.cpu().numpy() if y is None else labels
        return source, all_labels(source, labels) if is_divided(source) else labels

    def _check_divided(self, X: Any) -> None:
        """Raise ``ValueError`` for methods that cannot use rows divided among processes."""
        if is_divided(X) and self.method_ != "newton":
            raise ValueError(
                f"method={self.method_!r} needs all rows in one process, but these are divided; "
                "use method='newton', or dd.fit, which takes such rows"
            )

    def _predicted(self, rows: Any) -> Floats:
        return self.mixture_.predict(rows) if self.method_ == "newton" else self._evaluate(rows)


def streamed(X: Any) -> Source | None:
    """The source of rows that are not in memory; None for arrays and sparse matrices.

    Small memory maps are read into memory, so they have no source either.
    """
    small = isinstance(X, np.memmap) and X.nbytes <= SMALL
    return None if small or is_sparse(X) else as_source(X)


def _of_all(X: Any, name: str, values: Any) -> Any:
    """Weights or groups of the rows of all processes, from those of this process."""
    if values is None or not is_divided(X):
        return values
    own = np.asarray(values)
    if own.shape != (X.here,) or pd.isna(own).any():
        raise ValueError(
            f"{name} has shape {own.shape} and {int(pd.isna(own).sum())} missing value(s); pass "
            f"one value for each of the {X.here} rows of this process"
        )
    return all_labels(X, own)


def selected(X: Any, kept: NDArray[np.bool_]) -> Any:
    """The rows of positive weight, or ``ValueError`` for rows that are read block by block."""
    if isinstance(X, Rows):
        row = int(np.argmin(kept))
        raise ValueError(
            f"sample_weight is 0 in row {row}; rows that are read block by block cannot be left "
            "out here: leave them out of X"
        )
    return X[kept]


def _differs(given: Any, usual: Any) -> bool:
    """Whether an option differs from its default, in value or type."""
    return given is not usual and (type(given) is not type(usual) or bool(given != usual))


def check_level(level: Any) -> float:
    """Return a level of confidence, or raise ``ValueError``."""
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(f"level={level!r} must be between 0 and 1, such as 0.9")
    return float(level)
