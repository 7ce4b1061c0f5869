"""Classification."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from decoupled_descent.checks import (
    LIKELY_CLASSES,
    ROWS_PER_CLASS,
    outside,
    real_number,
    share_interval,
)
from decoupled_descent.evaluation.estimate import Estimate, Metric
from decoupled_descent.evaluation.output_scale import OutputScale
from decoupled_descent.objective.losses import class_loss
from decoupled_descent.tables.estimators.base import DecoupledEstimator
from decoupled_descent.tables.estimators.calibration import reliability, share_of
from decoupled_descent.tables.estimators.inputs import check_level
from decoupled_descent.tables.estimators.jackknife import Jackknife
from decoupled_descent.tables.estimators.metrics import estimate_metric
from decoupled_descent.tables.estimators.model import Encoded, Floats, Training
from decoupled_descent.tables.estimators.row_weights import RowWeights
from decoupled_descent.tables.estimators.threshold import Threshold, choose_threshold
from decoupled_descent.tables.search.fits import SearchResult
from decoupled_descent.tables.search.stacking import folds_of


@dataclass(eq=False, repr=False, kw_only=True)
class DecoupledClassifier(ClassifierMixin, DecoupledEstimator):
    r"""Classifier that estimates its own test error without a hold-out set.

    Linear and kernel models are compared and mixed by their leave-one-out errors
    (:class:`DecoupledNewton`). So all rows are used both for training and for the estimate of the
    error on new rows. Columns are centred, scaled and clipped at five standard deviations
    internally.

    X may be a raw table of pandas or polars, with text, categories, dates, truth values and
    missing values, or an array with NaN. Its columns become numbers as in ``decoupled train``.

    Args:
        features: ``"auto"``; the name of a kernel (``"linear"``, ``"rbf"``, ``"matern(2)/ranks"``);
            a kernel function, a scikit-learn transformer, or a list of these.
        stack: Whether to mix all candidates; otherwise the best one is the model.
        members: Further members of the mixture, by predictions of rows that they did not see:
            ``"auto"`` has all with a name if ``features`` is ``"auto"`` too, and none otherwise; or
            a list of ``"random forest"``, ``"extra trees"``, ``"quadratic discriminant"``,
            ``"naive Bayes"`` and ``"constant"`` (the shares of the classes; all three for classes),
            ``"sparse linear"`` (which "auto" has for wide tables), and estimators of scikit-learn,
            which are fitted eleven times, and cannot be saved.
        time_limit: Seconds after which ``fit`` stops to add candidates; None for no limit. The
            linear model is always fitted; kernels and their ridges come next, then further members.
            Candidates that are expected to take more than the remaining time are left out as well.
            The limit is not exact: the clock is read between candidates, forecasts are rough, and
            the mixture and the diagnosis take further time. With ``time=``, each model of the past
            has the same limit.
        class_weight: ``"balanced"``, or a weight for each class.
        ridge: Strength of the ridge penalty, or ``"auto"``: chosen by the leave-one-out error.
        random_state: Seed of all random numbers.
        verbose: Whether to draw a progress bar.
        plain_columns: Names of columns of a table whose values are taken as they are: -999 is no
            code for a missing value, 01067 is a number, and 120/80 is a text.
        time_columns: Columns of a matrix X that are times of the rows, as numbers of columns by
            name. A check looks for drift along them. By default they are recognised by their
            names, and in tables as dates too.

    Attributes:
        estimated_test_error_: Expected log loss on new rows.
        estimated_test_error_stderr_: Its standard error.
        estimated_test_error_interval_: Its 95 % interval.
        estimated_accuracy_: Expected accuracy on new rows.
        estimated_accuracy_stderr_: Its standard error.
        estimated_accuracy_interval_: Its 95 % interval.
        train_error_curve_: The error estimate at every ridge of the best features, shape (T,).
        train_error_stderr_curve_: Its standard error.
        corrected_proba_: Out-of-sample class probabilities of the training rows, (n, K).
        calibration_: Calibration of these probabilities: a table with the expected calibration
            error.
        diagnostics_: Whether to trust the estimate, and why: see :func:`diagnose`.
        best_iter_: The ridge that was kept, a position in the curve.
        n_iter_: The number of ridges.
        stop_reason_: Why training ended.
        candidates_: The settings that were tried and their results, a list of dictionaries.
        skipped_candidates_: What the time limit left out: names of kernels and members.
        selected_columns_: The columns of a sparse linear model, if one has a share.
        algorithm_: The algorithm of the best candidate.
        metadata_: Versions, threads, block size, device and dtype of the training.
        classes_: The labels.
        columns_: What was done with the columns of a raw table: ``columns_.summary()``,
            ``columns_.notes`` and ``columns_.apply(table)``; None for a matrix of numbers.
        n_features_in_: The number of columns of X.
        feature_names_in_: Column names, if X has them.

    Example:
        >>> from sklearn.datasets import load_breast_cancer
        >>> import decoupled_descent as dd
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = dd.DecoupledClassifier(features="linear").fit(X[::2], y[::2])
        >>> miss = model.score(X[1::2], y[1::2]) - model.estimated_accuracy_
        >>> abs(miss) < 3 * 2**0.5 * model.estimated_accuracy_stderr_  # both halves have an error
        True
    """

    _task, _error_name, _takes_several = "classification", "log loss", False

    class_weight: Any = None

    def _cleaned(self, labels: NDArray[Any]) -> NDArray[Any]:
        check_classification_targets(labels)
        return labels

    def _learn_labels(self, labels: NDArray[Any], weights: RowWeights) -> None:
        """Find the classes."""
        classes, n = np.unique(labels), len(labels)
        if len(classes) < 2:
            raise ValueError(f"y has one class only, {classes[0]}; at least two are needed")
        many = len(classes) > LIKELY_CLASSES and len(classes) * ROWS_PER_CLASS > n
        if classes.dtype.kind in "iu" and many:
            warnings.warn(
                f"y has {len(classes)} different whole numbers in {n} rows, taken as "
                "classes, which takes long; if they are quantities, use DecoupledRegressor",
                UserWarning,
                stacklevel=outside(),
            )
        self.classes_: NDArray[Any] = classes

    def _conclude(
        self, training: Training, every: Floats, targets: Tensor, weights: RowWeights
    ) -> None:
        """Accuracy, calibration and scores from out-of-sample probabilities of the rows used."""
        chances = training.predictions
        codes, counted = targets.long().numpy(), weights.in_estimates()
        self.corrected_proba_ = every
        self._mixture_codes = self._of_all_rows(training.mixture_codes)
        self._widening = training.widening
        right = chances.argmax(1) == codes
        self.estimated_accuracy_, stderr = share_of(right, *counted, training.right)
        self.estimated_accuracy_stderr_ = training.widening * stderr
        self.estimated_accuracy_interval_ = share_interval(
            self.estimated_accuracy_, self.estimated_accuracy_stderr_
        )
        self.calibration_ = reliability(chances, codes, *counted)
        scores = 1 - chances[np.arange(len(codes)), codes]
        self._jackknife = Jackknife.plain(scores[:, None], weights.shares)

    def _of_all_rows(self, codes: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """The mixtures that predict the rows; rows of weight zero are predicted by the model."""
        if codes is None or self._kept is None:
            return codes
        full = np.full(len(self._kept), -1)
        full[self._kept] = codes
        return full

    def _errors_of(
        self, model: Any, X: Any, labels: NDArray[Any], every: NDArray[Any]
    ) -> tuple[Floats, Floats]:
        """Log losses of rows, and which are right, by a model that may not have all classes.

        A class that the model has not seen gets a share of one row: 1 / (n + 1).
        """
        chances = np.zeros((len(labels), len(self.classes_)))
        seen = np.isin(self.classes_, model.classes_)
        chances[:, seen] = model.predict_proba(X)
        if not seen.all():
            left = 1 / (len(model.corrected_proba_) + 1)
            chances *= 1 - left
            chances[:, ~seen] = left / (~seen).sum()
        codes = np.searchsorted(self.classes_, labels)
        own = chances[np.arange(len(codes)), codes]
        return -np.log(np.maximum(own, 1e-300)), 1.0 * (chances.argmax(1) == codes)

    def _out_of_sample(self, result: SearchResult) -> Floats:
        """Probabilities by mixtures that were chosen without the row."""
        chances: Floats = result.predictions.numpy()
        return chances

    def _own_weights(self, labels: NDArray[Any]) -> Floats | None:
        """The class weight of each row."""
        if self.class_weight is None:
            return None
        classes, codes = np.unique(labels, return_inverse=True)
        weights: Floats = compute_class_weight(self.class_weight, classes=classes, y=labels)
        return weights[codes.reshape(-1)]

    def _encoded(self, labels: NDArray[Any]) -> Encoded:
        """Encoded labels, the name of the loss, and the number of outputs."""
        codes = np.searchsorted(self.classes_, labels)
        if not (self.classes_[np.minimum(codes, len(self.classes_) - 1)] == labels).all():
            raise ValueError("y has labels that are not in classes_; pass the labels of fit")
        loss, outputs = self._loss
        targets = torch.from_numpy(codes)
        return Encoded(targets.double() if outputs == 1 else targets, loss, outputs)

    @property
    def _loss(self) -> tuple[str, int]:
        return class_loss(len(self.classes_))

    def _strata(self, encoded: Encoded) -> NDArray[np.intp]:
        """The classes."""
        classes: NDArray[np.intp] = encoded.targets.long().numpy()
        return classes

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return logits: shape (m,) for two classes, positive for the second; else (m, K)."""
        return self._piecewise(X, lambda rows: self.model_.logits(rows))

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return class probabilities, shape (m, K), in the order of ``classes_``."""
        return self._outputs(X)

    def predict_set(self, X: ArrayLike, level: float = 0.9) -> NDArray[np.bool_]:
        """Return a set of classes for each row that has the right class with a given probability.

        A class is in the set if its probability is at least a threshold. The threshold is chosen
        such that the leave-one-out probability of the right class was above it for a share
        ``level`` of the training rows. The most probable class is always in the set.

        Args:
            X: Features, shape (m, d).
            level: The share of sets that should contain the right class, between 0 and 1.

        Returns:
            Shape (m, K), True where the class is in the set, in the order of ``classes_``.
        """
        chances = self.predict_proba(X)
        limit = float(self._jackknife.widths(check_level(level)))
        sets: NDArray[np.bool_] = 1 - chances <= limit
        sets[np.arange(len(sets)), chances.argmax(1)] = True  # no set is empty
        return sets

    def suspicious_rows(self, y: ArrayLike) -> tuple[NDArray[np.intp], Floats]:
        """Rank the training rows by the leave-one-out probability of their labels, lowest first.

        The probability does not depend on the row's own label, so wrong labels have low values.

        Args:
            y: The labels of ``fit``.

        Returns:
            Indices of the rows, most suspicious first, and the probability of each row's label.
        """
        labels = self._labels_of_fit(y)
        own = labels.reshape(-1, 1) == self.classes_  # rows of weight zero may have other labels
        chances = np.where(own, self.corrected_proba_, 0.0).sum(1)
        order = np.argsort(chances)
        return order, chances[order]

    def estimate(
        self, metric: Metric, y: ArrayLike, sample_weight: Any = None, groups: Any = None
    ) -> Estimate:
        """Estimate any metric on new rows from the leave-one-out probabilities.

        Args:
            metric: ``"auc"``, ``"sensitivity"``, ``"specificity"``, ``"ppv"``, ``"npv"`` (of the
                second of two classes), ``"brier"``, ``"balanced_accuracy"``, …, or a function of
                labels (class indices) and probabilities such as those of ``sklearn.metrics``.
            y: The labels of ``fit``.
            sample_weight: The weights of ``fit``.
            groups: The groups of ``fit``; the standard error is then one over groups.

        Returns:
            ``.value``, ``.stderr`` and ``.interval``. The standard error is a jackknife over rows,
            or groups, widened because each row trains the models that predict the others.

        Example:
            >>> import decoupled_descent as dd
            >>> X, y = dd.mixtures.flipped_classes(5, 3.0, labels=(0.0, 1.0)).sample(60, seed=0)
            >>> model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y)
            >>> 0.5 < model.estimate("auc", y).value <= 1
            True
        """
        codes = self._codes_of_fit(y)
        kind = OutputScale.PROBABILITIES
        counted = estimate_metric(
            metric, codes, self.corrected_proba_, kind, sample_weight, groups, self._mixture_codes
        )
        return replace(counted, stderr=self._widening * counted.stderr)

    def choose_threshold(
        self, y: ArrayLike, cost_ratio: float = 1.0, sample_weight: Any = None, groups: Any = None,
        *, positive: Any = None,
    ) -> Threshold:  # fmt: skip
        """Choose the probability from which a row is given to the class to find.

        The estimates allow for the choice: the rows of a fold are decided by the threshold that
        the other folds choose.

        Args:
            y: The labels of ``fit``; there must be two classes.
            cost_ratio: The cost of a missed row of this class, in units of a false alarm.
            sample_weight: The weights of ``fit``.
            groups: The groups of ``fit``.
            positive: The class to find; ``classes_[1]`` by default.

        Returns:
            The threshold, and its cost, sensitivity, specificity and predictive values on new
            rows, each with a standard error and an interval.

        Example:
            >>> import decoupled_descent as dd
            >>> X, y = dd.mixtures.flipped_classes(5, 1.0, labels=(0.0, 1.0)).sample(90, seed=0)
            >>> model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y)
            >>> one, ten = (model.choose_threshold(y, ratio) for ratio in (1.0, 10.0))
            >>> ten.value < one.value, ten.sensitivity.value >= one.sensitivity.value
            (True, True)
        """
        codes = self._codes_of_fit(y)
        if len(self.classes_) != 2:
            raise ValueError(f"a threshold is for two classes; the model has {len(self.classes_)}")
        if not real_number("cost_ratio", cost_ratio) > 0:
            raise ValueError(f"cost_ratio={cost_ratio!r} must be larger than 0")
        units = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
        together = None if units is None else torch.from_numpy(units.reshape(-1))
        folds = folds_of(len(codes), together, self._seed(), torch.from_numpy(codes)).numpy()
        matches = np.flatnonzero(
            self.classes_ == (self.classes_[1] if positive is None else positive)
        )
        if len(matches) != 1:
            raise ValueError(f"positive={positive!r} must be one of {self.classes_.tolist()}")
        p = np.asarray(self.corrected_proba_[:, matches[0]], np.float64)
        cases = (codes == matches[0]).astype(np.int64)
        weights = {"sample_weight": sample_weight, "groups": groups}
        return choose_threshold(p, cases, folds, float(cost_ratio), self._widening, **weights)

    def _labels_of_fit(self, y: ArrayLike) -> NDArray[Any]:
        """Labels as an array, one for each row of ``fit``, or ``ValueError``."""
        check_is_fitted(self)
        if not hasattr(self, "corrected_proba_"):
            raise ValueError("a model from a file does not have its training rows; fit it again")
        labels = np.asarray(y)
        if labels.shape != (len(self.corrected_proba_),):
            raise ValueError(
                f"y has shape {labels.shape} but the model was trained on "
                f"{len(self.corrected_proba_)} rows; pass the labels of fit"
            )
        return labels

    def _codes_of_fit(self, y: ArrayLike) -> NDArray[np.intp]:
        """The class of each row of ``fit``, or ``ValueError`` for other labels."""
        labels = self._labels_of_fit(y)
        codes = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        if not (self.classes_[codes] == labels).all():
            raise ValueError("y has labels that are not among classes_; pass the labels of fit")
        return codes

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row, shape (m,)."""
        codes = self.predict_proba(X).argmax(1)
        chosen: NDArray[Any] = self.classes_[codes]
        return chosen
