"""Base class of classifier and regressor: rows in, a model, its estimates and predictions out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from decoupled_descent.checks import Target, whole_number
from decoupled_descent.evaluation.decision_rule import DecisionRule
from decoupled_descent.evaluation.estimate import Estimate, Metric
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.kinds import Kind
from decoupled_descent.evaluation.means import Mean, mean_with_stderr
from decoupled_descent.plotting.runs import plot_curve
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.gathered import all_labels, is_divided
from decoupled_descent.rows.sources import as_source, read_size
from decoupled_descent.rows.tensors import checkable
from decoupled_descent.rows.threads import ENOUGH as MANY
from decoupled_descent.rows.threads import threads_for
from decoupled_descent.tables.columns.frames import tabular
from decoupled_descent.tables.columns.times import times_of_rows
from decoupled_descent.tables.estimators.forward import TimeEstimate, forward_estimate
from decoupled_descent.tables.estimators.inputs import (
    check_label_values,
    check_names,
    of_all_processes,
    selected,
    streamed,
    without_named,
)
from decoupled_descent.tables.estimators.learning_curve import (
    LearningCurve,
    learning_curve,
    measured_losses,
    random_quarters,
)
from decoupled_descent.tables.estimators.mixture import Mixture
from decoupled_descent.tables.estimators.model import EncodedLabels, Floats, Training
from decoupled_descent.tables.estimators.newton_model import NewtonModel, diagnosed, search_rows
from decoupled_descent.tables.estimators.past import Past
from decoupled_descent.tables.estimators.raw_inputs import RawInputs
from decoupled_descent.tables.estimators.row_weights import RowWeights, combine_weights
from decoupled_descent.tables.estimators.threshold import Threshold
from decoupled_descent.tables.features.candidates import as_features
from decoupled_descent.tables.features.scaling import is_sparse
from decoupled_descent.tables.search.fits import SearchResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Larger arrays are predicted in parts of about this many numbers, which bounds memory.
PREDICTED = 2**18
#: float32 stays as it is; all other types become float64. Sums are always in float64.
PRECISIONS = [np.float64, np.float32]
#: Formats of sparse matrices that are used as they are.
SPARSE = ("csr", "csc")


class DecoupledEstimator(RawInputs):
    """The common base; see :class:`DecoupledClassifier` for the options and attributes."""

    _unit: float = 1.0
    model_: NewtonModel
    evaluation_: Evaluation
    time_estimate_: TimeEstimate | None = None
    _set_aside: Sequence[str] = ()  # columns with labels, weights and groups
    decision_rule_ = DecisionRule()
    threshold_: Threshold | None = None
    train_error_curve_: Floats
    train_error_stderr_curve_: Floats

    # What classification and regression define
    _task: ClassVar[Target]
    _takes_several: ClassVar[bool]  # whether there may be several targets
    _cleaned: ClassVar[Callable[[Any, Any], NDArray[Any]]]  # labels of fit, checked
    _learn_labels: ClassVar[Callable[[Any, Any, RowWeights], None]]  # of the rows that are used
    _encoded: ClassVar[Callable[[Any, Any], EncodedLabels]]
    _evaluated: ClassVar[Callable[..., Evaluation]]  # predictions of the rows as if new
    _conclude: ClassVar[Callable[..., None]]  # sets what only one of the tasks has
    _predicted_by: ClassVar[Callable[..., Floats]]  # predictions by a model of some of the rows

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, time: Any = None
    ) -> Self:
        """Train on all rows.

        Args:
            X: Features, shape (n, d): a table of pandas or polars with text, dates, categories and
                missing values, or an array of numbers; may be sparse. ``columns_`` tells what was
                done with each column of a table.
                Large memory maps, HDF5 and Zarr arrays, datasets of PyTorch and objects that yield
                blocks of rows are read block by block (docs/big.md).
            y: Class labels of any kind; or targets, shape (n,), or K targets, shape (n, K); or the
                name of a column of a table X. None if X yields rows with their labels.
            sample_weight: How much each row counts, shape (n,); 1 by default. A row is left out
                with all of its weight. Or the name of a column of a table X, which is then not
                used to predict.
            groups: Rows that belong together (of one patient, say) have the same value here, shape
                (n,), or the name of a column. They are left out together, so that the estimate is
                for new groups.
            time: The time of each row, numbers or dates of shape (n,), or the name of a column of
                a table X. Then the estimated error and score are for rows after the last one:
                models of the past predict the next tenth of the rows, five times, and choose
                features and ridges from the past alone (``time_estimate_``). The final model is
                trained on all rows. Leave-one-out predictions stay those of all rows.

        Returns:
            The fitted estimator.
        """
        self._check_options()
        self._in_order = time is not None
        self._set_aside = [one for one in (y, sample_weight, groups) if isinstance(one, str)]
        X = tabular(X)
        X, y, sample_weight, groups = without_named(
            X, y=y, sample_weight=sample_weight, groups=groups
        )
        self._rows, self._importances = X, None
        rows, labels = self._given(X, y)
        order = None if time is None else times_of_rows(time, X, len(labels))
        every_label = labels
        weights = self._row_weights(X, labels, sample_weight, groups)
        features, kept = rows, weights.kept
        if kept is not None:
            features, labels = selected(rows, kept), labels[kept]
        self._learn_labels(labels, weights)
        encoded = self._encoded(labels)
        entries = len(encoded.targets) * self._width
        with threads_for(entries, encoded.outputs):
            self.model_, training = NewtonModel.fit(self, features, encoded, weights)
            self._record(training)
            self._kept, self._weights = kept, weights
            result = training.result
            self._folds = result.folds
            own = self._evaluated(result, labels, weights)
            checks = diagnosed(self, own, result.best, features, encoded.targets)
        self._left_out = self.evaluation_ = own.with_findings(checks.findings)
        self._conclude(result, self._completed(result.predictions.numpy(), rows, kept), weights)
        self.time_estimate_ = None
        if order is not None:
            given = {"sample_weight": sample_weight, "groups": groups}
            self._look_forward(order, rows, every_label, given)
        self._set_estimates()
        return self

    def _look_forward(
        self, order: tuple[Floats, list[str]], rows: Any, labels: NDArray[Any], given: Any
    ) -> None:
        """Replace the evaluation by that of rows after the last one."""
        if isinstance(rows, Rows) or labels.ndim > 1:
            raise ValueError("time needs X in memory and one target; leave it out")
        past = Past(self, rows, labels, **given)
        self.time_estimate_ = forward_estimate(*order, past, self.evaluation_.given)
        self.evaluation_ = self.time_estimate_.evaluation

    @property
    def _kind(self) -> Kind:
        """What predictions are, and the loss that they are judged by."""
        raise NotImplementedError

    def _record(self, training: Training) -> None:
        """Set the fitted attributes of the training that both tasks have."""
        self.train_error_curve_ = training.curve
        self.train_error_stderr_curve_ = training.stderr_curve
        self.best_iter_, self.n_iter_ = training.best, len(training.curve)
        self.stop_reason_ = training.stop_reason
        self.skipped_candidates_ = list(training.result.skipped)
        self.candidates_, self.ridges_ = list(training.candidates), training.ridges
        run = training.result.best.run
        self.algorithm_, self.metadata_ = run.algorithm, run.metadata

    def _set_estimates(self) -> None:
        """Set the attributes that show the evaluation."""
        evaluation, score = self.evaluation_, self._task.score
        self.estimated_test_error_ = evaluation.error
        self.estimated_test_error_stderr_ = evaluation.stderr
        self.estimated_test_error_interval_ = evaluation.interval
        value = self._score_of(evaluation)
        for name, one in zip(("", "stderr_", "interval_"), value, strict=True):
            setattr(self, score + name, one)
        self.diagnostics_ = evaluation.diagnosis

    def _score_of(self, evaluation: Evaluation) -> tuple[float, float, tuple[float, float]]:
        """Accuracy or R² on new rows, its standard error and its interval."""
        score = evaluation.estimate(evaluation.kind.score)
        return score.value, score.stderr, score.interval

    def estimate(self, metric: Metric) -> Estimate:
        """Estimate any metric on new rows; see :meth:`Evaluation.estimate`.

        Args:
            metric: ``"auc"``, ``"sensitivity"``, ``"brier"``, ``"rmse"``, ``"r2"``, …, or a
                function of labels (numbers of classes) and predictions such as those of
                ``sklearn.metrics``.

        Returns:
            ``.value``, ``.stderr``, ``.interval`` and the verdict.

        Example:
            >>> import decoupled_descent as dd
            >>> X, y = dd.mixtures.flipped_classes(5, 3.0, labels=(0.0, 1.0)).sample(60, seed=0)
            >>> model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y)
            >>> 0.5 < model.estimate("auc").value <= 1
            True
        """
        return self._rows_of_fit().estimate(metric)

    def _encoded_rows(self) -> tuple[EncodedLabels, RowWeights]:
        """The labels of the rows that count as the loss takes them, and weights and groups."""
        labels = self._left_out.labels
        classes = self._left_out.classes
        return self._encoded(labels if classes is None else classes[labels]), self._weights

    def _rows_of_fit(self) -> Evaluation:
        """The evaluation, or ``ValueError`` for a model that has none."""
        check_is_fitted(self)
        if not hasattr(self, "evaluation_"):
            raise ValueError("a model from a file does not have its training rows; fit it again")
        return self.evaluation_

    @property
    def mixture_(self) -> Mixture:
        """The mixture of models."""
        return self.model_.mixture

    @property
    def selected_columns_(self) -> list[dict[str, Any]]:
        """Columns of the sparse linear model with the largest share, the largest effect first.

        Each has its ``column`` (the name, or the number), its ``coefficients`` (of each class, or
        of each target on the scale of the fit), and ``stays_selected``: how often it is selected if
        a tenth of the rows is left out. The list is empty if no such model has a share.
        """
        selected, names = self.mixture_.selected_columns(), getattr(self, "feature_names_in_", None)
        return [
            one._asdict() | ({} if names is None else {"column": str(names[one.column])})
            for one in selected
        ]

    def __sklearn_tags__(self) -> Any:
        """Declare the supported inputs."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = tags.input_tags.string = True
        tags.target_tags.multi_output = self._takes_several
        return tags

    def plot_training(self) -> Figure:
        """Draw the estimated test error over the ridges, with its 95 % interval.

        Returns:
            A figure; ``figure.savefig(path)`` writes it to a file.
        """
        check_is_fitted(self)
        return plot_curve(
            self.train_error_curve_,
            self.train_error_stderr_curve_,
            title=type(self).__name__,
            ylabel=self._kind.error_name,
            xlabel="ridge, from strong to weak",
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
        """Predict the error with twice as many rows, from models of fewer rows.

        The features of largest weight in the model are fitted to all rows once more, for several
        ridges. Models of one, two and three quarters of the rows follow by formula, and their
        mixture is chosen again. All errors are multiplied to agree with that of the model, which
        may have further members.

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
        if streamed(X) is not None:
            raise ValueError("learning_curve needs X in memory, but it is read block by block")
        rows, labels = check_X_y(
            self._checked(X), y, accept_sparse=SPARSE, multi_output=self._takes_several
        )
        weights = self._row_weights(rows, labels, sample_weight, groups)
        if weights.kept is not None:
            rows, labels = rows[weights.kept], labels[weights.kept]
        encoded = self._encoded(labels)
        n, seed, features = len(labels), self._seed(), self.mixture_.main_features()
        together = np.arange(n) if weights.groups is None else weights.groups.numpy()
        shares = np.ones(n) if weights.shares is None else weights.shares.numpy()
        generator, strata = np.random.default_rng(seed), self._strata(encoded)
        quarters = [random_quarters(together, strata, generator) for _ in range(repeats)]
        result = search_rows(self, rows, encoded, weights, features, seed, False)

        def row_losses(predictions: Tensor) -> Tensor:
            return self._losses_of(predictions, result)

        losses = measured_losses(result, row_losses, quarters, bool(self.stack))
        now = self._left_out.error, self._left_out.stderr
        return learning_curve(losses, together, shares, now, self._kind.error_name, seed)

    def _strata(self, encoded: EncodedLabels) -> NDArray[np.intp]:
        """The stratum of each row, which parts of the rows have equal shares of."""
        return np.zeros(len(encoded.targets), int)

    def _candidate_error(self, predictions: Tensor, result: SearchResult) -> Mean:
        """The mean loss of honest predictions of the rows, shape (n, K), and its stderr."""
        rows = result.best.rows
        return mean_with_stderr(self._losses_of(predictions, result), rows.weights, rows.groups)

    def _own_weights(self, labels: NDArray[Any]) -> Floats | None:
        """Weights that follow from the labels; none unless a task has them."""
        return None

    def _losses_of(self, predictions: Tensor, result: SearchResult) -> Tensor:
        """Losses of predictions of the rows, (n, K), in the units of the error, shape (n,)."""
        return result.objective.loss.of_predictions(predictions, result.best.rows.y)

    def _completed(self, predictions: Floats, X: Any, kept: NDArray[np.bool_] | None) -> Floats:
        """Add predictions of rows of weight zero, which were not used for training."""
        if kept is None:
            return predictions
        full = np.empty((len(kept), predictions.shape[1]))
        full[kept], full[~kept] = predictions, self.model_.predict(X[~kept])
        return full

    def _row_weights(
        self, X: Any, labels: NDArray[Any], sample_weight: Any, groups: Any
    ) -> RowWeights:
        """Check weights and groups."""
        class_weight = self._own_weights(labels)
        sample_weight = of_all_processes(X, "sample_weight", sample_weight)
        groups = of_all_processes(X, "groups", groups)
        return combine_weights(sample_weight, class_weight, groups, len(labels))

    def _outputs(self, X: Any) -> Floats:
        """Predictions for new rows, in float64; large arrays some rows at a time."""
        return self._piecewise(X, lambda rows: self.model_.predict(rows))

    def _piecewise(self, X: Any, function: Callable[[Any], Floats]) -> Floats:
        """Apply a function to checked rows, in parts if there are many, (m, …)."""
        check_is_fitted(self)
        with threads_for(MANY, 1):
            return self._in_pieces(X, function)

    def _in_pieces(self, X: Any, function: Callable[[Any], Floats]) -> Floats:
        source = as_source(X.tocsr()) if is_sparse(X) and not self.model_.sparse else streamed(X)
        if source is not None:
            blocks = (part.X.numpy() for part in source.parts(read_size(X, 8 * source.d)))
            return np.concatenate([self._in_pieces(block, function) for block in blocks])
        if not isinstance(X, np.ndarray) or X.ndim != 2 or X.size <= PREDICTED:
            return function(self._checked(X))
        size = max(1, PREDICTED // X.shape[1])
        first = function(self._checked(X[:size]))
        # one array for all: many small results would fragment the memory
        result = np.empty((len(X), *first.shape[1:]))
        result[:size] = first
        for start in range(size, len(X), size):
            part = slice(start, start + size)
            result[part] = function(self._checked(X[part]))
        return result

    def _checked(self, X: Any) -> Any:
        """New rows as a checked matrix, or ``ValueError``."""
        X = tabular(X)
        if self._set_aside and hasattr(X, "drop"):  # columns that fit did not use
            X = X.drop(columns=[name for name in self._set_aside if name in X.columns])
        if self.columns_ is not None:
            return self._encoded_table(X)
        finite = True if self._medians is None else "allow-nan"
        rows = validate_data(
            self, checkable("X", X), dtype=np.float64, reset=False, accept_sparse=SPARSE,
            ensure_all_finite=finite,
        )  # fmt: skip
        return self._filled(rows)

    def _given(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Check rows and labels of ``fit``; the rows become a matrix, sparse or not, or Rows."""
        several = self._takes_several
        check_names(X)
        X, y = checkable("X", X), checkable("y", y)
        if y is not None:
            check_label_values(y)
        table = self._learn_table(X)
        if table is not None:
            rows, labels = check_X_y(
                table, y, ensure_min_samples=2, multi_output=several, y_numeric=several,
                estimator=self,
            )  # fmt: skip
            return rows, self._cleaned(labels)
        source = X if isinstance(X, Rows) else streamed(X)
        if is_sparse(X) and not self._takes_sparse():
            source = as_source(X.tocsr())
        if source is None:
            rows, labels = validate_data(
                self, X, y, dtype=PRECISIONS, ensure_min_samples=2, multi_output=several,
                y_numeric=several, accept_sparse=SPARSE,
            )  # fmt: skip
            self._learn_medians(rows)
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
        maps = [] if self._usual_features else as_features(self.features)
        return all(one.takes_sparse for one in maps)
