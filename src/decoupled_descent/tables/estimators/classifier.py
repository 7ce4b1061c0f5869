"""Classification."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from decoupled_descent.checks import LIKELY_CLASSES, ROWS_PER_CLASS, Target, outside, real_number
from decoupled_descent.evaluation.calibration import reliability
from decoupled_descent.evaluation.decision_rule import DecisionRule
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.kinds import PROBABILITIES, Kind
from decoupled_descent.objective.losses import class_loss
from decoupled_descent.tables.estimators.base import DecoupledEstimator
from decoupled_descent.tables.estimators.inputs import check_level
from decoupled_descent.tables.estimators.left_out_rows import counted
from decoupled_descent.tables.estimators.model import EncodedLabels, Floats
from decoupled_descent.tables.estimators.row_weights import RowWeights
from decoupled_descent.tables.estimators.threshold import Threshold, choose_threshold
from decoupled_descent.tables.prediction.jackknife import Jackknife
from decoupled_descent.tables.search.fits import SearchResult


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
        cost_ratio: For two classes, the cost of a missed row of the class to find in units of a
            false alarm: the threshold with the lowest cost is chosen. By default a row belongs to
            the more probable class.
        positive: The class to find, of two; by default the second of ``classes_``. Sensitivity,
            specificity and predictive values are about it.
        ordered: Whether classes are grades in the order of ``classes_``, such as 1 to 5. Then
            ``predict`` returns the median grade, which is missed by the fewest grades on average.
            See the metrics "weighted_kappa" and "grade_error".
        ridge: Strength of the ridge penalty, or ``"auto"``: chosen by the leave-one-out error.
        random_state: Seed of all random numbers.
        verbose: Whether to draw a progress bar.
        plain_columns: Names of columns of a table whose values are taken as they are: -999 is no
            code for a missing value, 01067 is a number, and 120/80 is a text.
        time_columns: Columns of a matrix X that are times of the rows, as numbers of columns by
            name. A check looks for drift along them. By default they are recognised by their
            names, and in tables as dates too.

    Attributes:
        evaluation_: The predictions of the rows as if they were new, and what follows from them:
            errors, any metric, verdict; see :class:`~decoupled_descent.evaluation.Evaluation`. The
            next attributes show parts of it.
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
        decision_rule_: The threshold and the class to find, which ``predict`` and ``evaluation_``
            use.
        threshold_: What ``cost_ratio`` chose, with its estimates; None without.
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

    _task, _takes_several = Target.CLASSES, False

    class_weight: Any = None
    cost_ratio: float | None = None
    positive: Any = None
    ordered: bool = False

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

    def _evaluated(
        self, result: SearchResult, labels: NDArray[Any], weights: RowWeights
    ) -> Evaluation:
        """Probabilities of the rows by mixtures that were chosen without them."""
        shares, groups = weights.in_estimates()
        evaluation = Evaluation.of(
            np.searchsorted(self.classes_, labels),
            result.predictions.numpy(),
            losses=result.losses.numpy(),
            how="formula",
            weights=shares,
            groups=groups,
            classes=self.classes_,
            rule=DecisionRule(positive=self._positive_code(), ordered=bool(self.ordered)),
            right=None if result.right is None or self.ordered else result.right.numpy(),
            models=result.mixture_codes.numpy(),
            pairs=result.pairs,
            optimism=result.optimism,
        )
        self.decision_rule_, self.threshold_ = evaluation.rule, None
        if self.cost_ratio is None:
            return evaluation
        self.threshold_, evaluation = choose_threshold(evaluation, self.cost_ratio, self._seed())
        self.decision_rule_ = evaluation.rule
        return evaluation

    @property
    def _kind(self) -> Kind:
        return PROBABILITIES

    def _positive_code(self) -> int:
        """The number of the class to find, the second one by default."""
        if self.positive is None:
            return 1
        return position_of(self.positive, self.classes_)

    def _conclude(self, result: SearchResult, every: Floats, weights: RowWeights) -> None:
        """Calibration and scores from out-of-sample probabilities of the rows used."""
        self.corrected_proba_ = every
        self.calibration_ = reliability(self.evaluation_)
        codes, chances = self.evaluation_.labels, self.evaluation_.predictions
        scores = 1 - chances[np.arange(len(codes)), codes]
        shares = counted(weights.shares, len(scores))
        self._jackknife = Jackknife.plain(scores[:, None], shares)

    def _predicted_by(self, model: Any, X: Any) -> Floats:
        """Probabilities of all classes by a model that may not have all of them.

        A class that the model has not seen gets a share of one row: 1 / (n + 1).
        """
        chances = np.zeros((len(X), len(self.classes_)))
        seen = np.isin(self.classes_, model.classes_)
        chances[:, seen] = model.predict_proba(X)
        if not seen.all():
            left = 1 / (len(model.corrected_proba_) + 1)
            chances *= 1 - left
            chances[:, ~seen] = left / (~seen).sum()
        return chances

    def _own_weights(self, labels: NDArray[Any]) -> Floats | None:
        """The class weight of each row."""
        if self.class_weight is None:
            return None
        classes, codes = np.unique(labels, return_inverse=True)
        weights: Floats = compute_class_weight(self.class_weight, classes=classes, y=labels)
        return weights[codes.reshape(-1)]

    def _encoded(self, labels: NDArray[Any]) -> EncodedLabels:
        """Encoded labels, the name of the loss, and the number of outputs."""
        codes = np.searchsorted(self.classes_, labels)
        if not (self.classes_[np.minimum(codes, len(self.classes_) - 1)] == labels).all():
            raise ValueError("y has labels that are not in classes_; pass the labels of fit")
        loss, outputs = self._loss
        targets = torch.from_numpy(codes)
        return EncodedLabels(targets.double() if outputs == 1 else targets, loss, outputs)

    @property
    def _loss(self) -> tuple[str, int]:
        return class_loss(len(self.classes_))

    @property
    def _unit_of_outputs(self) -> tuple[float, str]:
        """What outputs of linear members are multiplied by, and their unit then."""
        return 1.0, f"log-odds of “{self.classes_[1]}”"

    def _strata(self, encoded: EncodedLabels) -> NDArray[np.intp]:
        """The classes."""
        classes: NDArray[np.intp] = encoded.targets.long().numpy()
        return classes

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return logits: shape (m,) for two classes, positive for the second; else (m, K)."""
        return self._piecewise(X, lambda rows: self.model_.logits(rows))

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return class probabilities, shape (m, K), in the order of ``classes_``."""
        return self._outputs(X)

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithms of class probabilities, shape (m, K)."""
        logs: Floats = np.log(self.predict_proba(X))
        return logs

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
        limit = self._jackknife.widths(check_level(level)).item()
        sets: NDArray[np.bool_] = 1 - chances <= limit
        sets[np.arange(len(sets)), chances.argmax(1)] = True  # no set is empty
        return sets

    def suspicious_rows(self) -> tuple[NDArray[np.intp], Floats]:
        """Rank the training rows by the leave-one-out probability of their labels, lowest first.

        The probability does not depend on the row's own label, so wrong labels have low values.

        Returns:
            Numbers of the rows of ``fit``, most suspicious first, and the probability of each
            row's label. Rows of weight zero are left out.
        """
        self._rows_of_fit()
        chances, codes = self._left_out.predictions, self._left_out.labels
        own = chances[np.arange(len(codes)), codes]
        rows = np.arange(len(own)) if self._kept is None else np.flatnonzero(self._kept)
        order = np.argsort(own)
        return rows[order], own[order]

    def choose_threshold(self, cost_ratio: float = 1.0) -> Threshold:
        """Choose the probability from which a row is given to the class to find.

        The class to find is the option ``positive``, by default ``classes_[1]``. The estimates
        allow for the choice: the rows of a fold are decided by the threshold that the other folds
        choose. The model does not change; ``with_threshold(chosen.value)`` is one that uses it,
        and the option ``cost_ratio`` chooses in ``fit``.

        Args:
            cost_ratio: The cost of a missed row of this class, in units of a false alarm.

        Returns:
            The threshold, and its cost, sensitivity, specificity and predictive values on new
            rows, each with a standard error and an interval.

        Example:
            >>> import decoupled_descent as dd
            >>> X, y = dd.mixtures.flipped_classes(5, 1.0, labels=(0.0, 1.0)).sample(90, seed=0)
            >>> model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y)
            >>> one, ten = (model.choose_threshold(ratio) for ratio in (1.0, 10.0))
            >>> ten.value < one.value, ten.sensitivity.value >= one.sensitivity.value
            (True, True)
        """
        return choose_threshold(self._rows_of_fit(), cost_ratio, self._seed())[0]

    def with_threshold(self, threshold: float, positive: Any = None) -> Self:
        """A copy that gives rows to the class to find from this probability on.

        Args:
            threshold: Between 0 and 1.
            positive: The class to find; that of this model by default.

        Returns:
            A model with the same probabilities, whose ``predict`` and evaluation use the threshold.
        """
        check_is_fitted(self)
        if len(self.classes_) != 2:
            raise ValueError(f"a threshold is for two classes; the model has {len(self.classes_)}")
        if not 0 < real_number("threshold", threshold) < 1:
            raise ValueError(f"threshold={threshold!r} must be between 0 and 1")
        one = self.decision_rule_.positive
        code = one if positive is None else position_of(positive, self.classes_)
        result = copy.copy(self)
        result.decision_rule_, result.threshold_ = DecisionRule(float(threshold), code), None
        if hasattr(self, "evaluation_"):
            result.evaluation_ = self.evaluation_.with_rule(result.decision_rule_)
            result._set_estimates()
        return result

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each row, by the threshold of the model if it has one, shape (m,)."""
        codes = self.decision_rule_.decide(self.predict_proba(X).astype(np.float64))
        chosen: NDArray[Any] = self.classes_[codes]
        return chosen


def position_of(label: Any, classes: NDArray[Any]) -> int:
    """The number of the class to find, or ``ValueError``."""
    matches = np.flatnonzero(classes == label)
    if len(matches) != 1:
        raise ValueError(f"positive={label!r} must be one of {classes.tolist()}")
    return int(matches[0])
