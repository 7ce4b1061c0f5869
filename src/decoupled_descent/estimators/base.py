"""Base class of classifier and regressor: options, choice of the method, search, predictions."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from decoupled_descent.checks import whole_number
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
    judged_run,
    ridge_curve,
    standardised,
    weigh,
)
from decoupled_descent.features.candidates import as_features
from decoupled_descent.features.scaling import as_rows, is_sparse
from decoupled_descent.plotting.runs import plot_curve
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.gathered import all_labels, gather_rows, is_divided
from decoupled_descent.rows.sources import Source, as_source, read_size
from decoupled_descent.rows.store import SMALL
from decoupled_descent.rows.tensors import plain
from decoupled_descent.selection.found import Candidate, Search
from decoupled_descent.selection.methods import check_method
from decoupled_descent.selection.search import search

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Options of networks, and those of networks and descents: with other values of these than their
#: defaults, ``"auto"`` means ``"orthogonal"``.
NETWORK = ("hidden", "activation", "head", "warm_start")
DESCENT = (*NETWORK, "lr", "damping", "max_iter", "early_stopping", "device")
#: Larger arrays are predicted in parts of about so many numbers, which bounds memory.
PREDICTED = 2**18
#: float32 stays as it is; all other types become float64. Sums are always in float64.
PRECISIONS = [np.float64, np.float32]
#: Formats of sparse matrices that are used as they are.
SPARSE = ("csr", "csc")


class DecoupledEstimator(NetworkTraining):
    """The common base; see :class:`DecoupledClassifier` for the options and attributes."""

    _error_name: ClassVar[str]
    _cleaned: ClassVar[Callable[[Any, Any], NDArray[Any]]]  # labels of fit, checked
    _learn_labels: ClassVar[Callable[[Any, Any, Weighing], None]]  # of the rows that are used
    _encoded: ClassVar[Callable[[Any, Any], tuple[Tensor, str, int]]]  # targets, loss, outputs
    _conclude: ClassVar[Callable[..., None]]  # sets what only one of the tasks has

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Train on all rows.

        Args:
            X: Features, shape (n, d): numbers, none missing; may be sparse.
                Large memory maps, HDF5 and Zarr arrays, datasets of PyTorch and objects that yield
                blocks of rows are read block by block (docs/big.md).
            y: Class labels of any kind, or targets, shape (n,); with the Newton method also K
                targets, shape (n, K). None if X yields rows with their labels.
            sample_weight: How much each row counts, shape (n,); 1 by default. A row is left out
                with all of its weight.
            groups: Rows that belong together (of one patient, say) have the same value here, shape
                (n,). They are left out together, so that the estimate is for new groups.

        Returns:
            The fitted estimator.
        """
        self.method_ = self._chosen_method()
        self._check_divided(X)
        rows, labels = self._given(X, y)
        weighing = self._weighing(X, labels, sample_weight, groups)
        features, kept = rows, weighing.kept
        if kept is not None:
            features, labels = selected(rows, kept), labels[kept]
        self._learn_labels(labels, weighing)
        encoded = self._encoded(labels)
        if self.method_ == "newton":
            judged = self._search(features, encoded, weighing)
        else:
            found = self._train(features, *encoded).best_outputs
            judged = self._predictions(found.double().cpu().numpy().reshape(len(labels), -1))
        self._kept = kept
        self._conclude(judged, self._completed(judged, rows, kept), encoded[0], weighing)
        return self

    def __sklearn_tags__(self) -> Any:
        """Declare that sparse matrices are supported, and several targets by the Newton method."""
        tags = super().__sklearn_tags__()
        newton = self._chosen_method() == "newton"
        tags.input_tags.sparse = True
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
        weighing = self._weighing(rows, labels, sample_weight, groups)
        if weighing.kept is not None:
            rows, labels = rows[weighing.kept], labels[weighing.kept]
        targets, *kind = self._encoded(labels)
        n, seed, features = len(targets), self._seed(), self.mixture_.main_features()

        def judge(part: NDArray[np.intp]) -> Floats:
            """Fit some of the rows alone, and return their leave-one-out losses."""
            encoded = (targets[part], *kind)
            found = self._find(rows[part], encoded, weighing, features, seed, False, part)
            losses: Floats = self._row_errors(found).numpy()
            return losses

        strata = targets.long().numpy() if self._task == "classification" else np.zeros(n, int)
        together = np.arange(n) if weighing.groups is None else weighing.groups.numpy()
        shares = np.ones(n) if weighing.shares is None else weighing.shares.numpy()
        losses = measured_losses(judge, together, strata, repeats, seed)
        now = self.estimated_test_error_, self.estimated_test_error_stderr_
        return learning_curve(losses, together, shares, now, self._error_name, seed)

    def _find(
        self,
        X: Any,
        encoded: Any,
        weighing: Weighing,
        features: Any,
        seed: int,
        progress: bool | None,
        part: Any = slice(None),
    ) -> Search:
        """Search among features and ridges, for all rows that are used or for some of them."""
        targets, loss, outputs = encoded
        ridge = self.ridge if isinstance(self.ridge, str) else self.ridge / weighing.unit
        return search(
            X, targets, loss, outputs=outputs, features=features, ridge=ridge,
            stack=bool(self.stack), seed=seed, progress=progress, **weighing.some(part),
        )  # fmt: skip

    def _search(self, X: Any, encoded: tuple[Tensor, str, int], weighing: Weighing) -> Floats:
        """Train by the Newton method; return the left-out predictions of the rows."""
        self._check_settings()
        self._check_unused()
        inputs, seed = X if is_sparse(X) else as_rows(X), self._seed()
        progress = bool(self.verbose) or None
        found = self._find(inputs, encoded, weighing, self.features, seed, progress)
        best = found.best
        self.mixture_ = Mixture.of(found)
        self._estimate(found, weighing, seed)
        self.ridges_, errors, stderrs, self.best_iter_ = ridge_curve(
            found, self._measured, weighing.unit
        )
        self.train_error_curve_, self.train_error_stderr_curve_ = errors, stderrs
        self.n_iter_ = len(errors)
        self.stop_reason_ = "interrupted" if found.interrupted else str(best.run.stop_reason)
        self.candidates_ = candidate_records(found, self._measured, weighing.unit)
        self.algorithm_, self.metadata_ = best.run.algorithm, best.run.metadata
        self.diagnostics_ = diagnose(
            *judged_run(best),
            task=self._task,
            optimism=found.estimate.optimism,
            columns=standardised(gather_rows(inputs, encoded[0]) if is_divided(inputs) else inputs),
            stderr=found.estimate.stderr,
        )
        return self._left_out(found)

    def _left_out(self, found: Search) -> Floats:
        """Predictions of the rows as if they were new, shape (n, K)."""
        left_out: Floats = found.left_out.numpy()
        return left_out

    def _estimate(self, found: Search, weighing: Weighing, seed: int) -> None:
        """Set the expected error and its standard error."""
        self.estimated_test_error_ = found.estimate.error
        self.estimated_test_error_stderr_ = found.estimate.stderr

    def _own_weights(self, labels: NDArray[Any]) -> Floats | None:
        """Weights that follow from the labels; none unless a task has them."""
        return None

    def _predictions(self, outputs: Floats) -> Floats:
        """Predictions of a network from its outputs, (m, K); a task may have others."""
        return outputs

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
        return "orthogonal" if self._changed(*DESCENT) else "newton"

    def _weighing(self, X: Any, labels: NDArray[Any], sample_weight: Any, groups: Any) -> Weighing:
        """Check weights and groups, which only the Newton method supports."""
        class_weight = self._own_weights(labels)
        given = {"sample_weight": sample_weight, "class_weight": class_weight, "groups": groups}
        for name, value in given.items():
            if value is not None and self.method_ != "newton":
                raise ValueError(f"{name} needs method='newton', not {self.method_!r}")
        sample_weight = _of_all(X, "sample_weight", sample_weight)
        return weigh(sample_weight, class_weight, _of_all(X, "groups", groups), len(labels))

    def _check_unused(self) -> None:
        """Raise ``ValueError`` for options of networks, which the Newton method does not train."""
        for name in self._changed(*NETWORK):
            raise ValueError(
                f"{name}={getattr(self, name)!r} has no effect with method='newton'; leave it out, "
                "or use method='orthogonal' to train a network"
            )

    def _outputs(self, X: Any) -> Floats:
        """Evaluate the model on new rows, in float64; large arrays some rows at a time."""
        return self._piecewise(X, self._predicted)

    def _piecewise(self, X: Any, function: Callable[[Any], Floats]) -> Floats:
        """Apply a function to checked rows, in parts if there are many, (m, …)."""
        check_is_fitted(self)
        source = as_source(X.tocsr()) if is_sparse(X) and self._dense else streamed(X)
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
        X = plain("X", X)
        return validate_data(self, X, dtype=np.float64, reset=False, accept_sparse=SPARSE)

    def _given(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Check rows and labels of ``fit``; the rows become a matrix, sparse or not, or Rows."""
        several = self._task == "regression"
        X, y = plain("X", X), plain("y", y)
        self._dense = not is_sparse(X) or not self._takes_sparse()
        source = X if isinstance(X, Rows) else streamed(X)
        if is_sparse(X) and self._dense:
            source = as_source(X.tocsr())
        if source is None:
            rows, labels = validate_data(
                self, X, y, dtype=PRECISIONS, ensure_min_samples=2, multi_output=several,
                y_numeric=several, accept_sparse=SPARSE,
            )  # fmt: skip
            return rows, self._cleaned(labels)
        if y is not None:
            labels = check_array(y, ensure_2d=False, dtype=np.float64 if several else None)
            labels = labels if several else column_or_1d(labels)
        if not isinstance(source, Rows):
            source = Rows(source)
            if y is not None and source.labels is not None:
                raise ValueError("y must be None when X yields rows with labels of their own")
        if y is not None and len(labels) != source.here:
            raise ValueError(f"y has {len(labels)} labels, and X has {source.here} rows")
        self.n_features_in_ = source.d
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        labels = source.y.cpu().numpy() if y is None else labels
        labels = all_labels(source, labels) if is_divided(source) else labels
        return source, self._cleaned(labels)

    def _takes_sparse(self) -> bool:
        """Whether sparse matrices are used as they are; otherwise in dense blocks."""
        unset = isinstance(self.features, str) and self.features == "auto"
        maps = [] if unset else as_features(self.features)
        return self.method_ == "newton" and all(one.takes_sparse for one in maps)

    def _check_divided(self, X: Any) -> None:
        """Raise ``ValueError`` for methods that cannot use rows divided among processes."""
        if is_divided(X) and self.method_ != "newton":
            raise ValueError(
                f"method={self.method_!r} needs all rows in one process, but these are divided; "
                "use method='newton', or dd.fit, which takes such rows"
            )

    def _predicted(self, rows: Any) -> Floats:
        """Predictions for checked rows: probabilities, or numbers on the scale of the fit."""
        if self.method_ == "newton":
            return self.mixture_.predict(rows)
        return self._predictions(self._evaluate(rows))


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


def check_level(level: Any) -> float:
    """Return a level of confidence, or raise ``ValueError``."""
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(f"level={level!r} must be between 0 and 1, such as 0.9")
    return float(level)
