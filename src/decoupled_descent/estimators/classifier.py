"""Classification."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from decoupled_descent.estimators.base import DecoupledEstimator, Floats


class DecoupledClassifier(ClassifierMixin, DecoupledEstimator):
    r"""Classifier that estimates its own test error without a hold-out set.

    A small network of one wide input layer and a head is trained on all rows by orthogonal
    decoupled descent. Its train error is taken at pre-activations in which each row's own influence
    is removed, so it estimates the error on new rows; the step to stop at and the ridge are chosen
    by it as well. Columns are centred, scaled and cut off at five standard deviations inside.

    Args:
        hidden: Width of the hidden layer, or several widths; ``"auto"``: 8 for two classes, else
            four per class, and at least 12.
        activation: ``"tanh"``, ``"sigmoid"``, ``"softplus"``, ``"gelu"``, ``"silu"``, ``"relu"``.
        head: Your own ``nn.Module`` from (n, L) pre-activations to (n,) logits for two classes or
            (n, K) for K; replaces ``hidden`` and ``activation``.
        method: ``"orthogonal"`` for data of any covariance; ``"decoupled"``, the paper's method for
            white noise; ``"gradient"``, plain gradient descent, whose train error estimates
            nothing.
        lr: Learning rate, or ``"auto"``: chosen by the train error, like the next two.
        damping: Factor on the parameters at every step, or ``"auto"``; gradient descent has none.
        ridge: How strongly directions of small variance are held back, or ``"auto"``; only the
            orthogonal method has one.
        max_iter: The most iterates per candidate.
        early_stopping: Whether to stop, after 100 steps, when the train error has not fallen by a
            hundredth of its standard error in 30. The best iterate is kept in either case.
        warm_start: Whether ``fit`` on the same rows goes on from where the last one ended. On other
            rows training starts anew: parameters that have seen some of them cannot judge them.
        random_state: Draws the starting point.
        device: Where to train, such as ``"cpu"`` or ``"cuda"``.
        verbose: Whether to draw a progress bar.

    Attributes:
        estimated_test_error_: Log loss to expect on new rows.
        estimated_test_error_stderr_: Its standard error.
        estimated_accuracy_: Accuracy to expect on new rows.
        estimated_accuracy_stderr_: Its standard error.
        train_error_curve_: The error estimate over the iterates, shape (T,).
        train_error_stderr_curve_: Its standard error.
        corrected_proba_: Class probabilities of the training rows as if they were new, (n, K).
        diagnostics_: Whether to trust the estimate, and why: see :func:`diagnose`.
        best_iter_: The iterate that was kept, n_iter_ iterates having been made.
        stop_reason_: Why training ended.
        candidates_: The settings that were tried and what came of each, a list of dictionaries.
        algorithm_: The winner.
        classes_: The labels.
        theta_: Weights of the input layer for scaled columns, shape (L, d).
        head_: The trained head.
        mean_: Column means.
        scale_: Column deviations; infinite for constant columns.
        n_features_in_: d.
        feature_names_in_: Column names, when X has them.

    Example:
        >>> from sklearn.datasets import load_breast_cancer
        >>> import decoupled_descent as dd
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = dd.DecoupledClassifier(ridge=1.0, max_iter=100).fit(X[::2], y[::2])
        >>> abs(model.score(X[1::2], y[1::2]) - model.estimated_accuracy_) < 0.03
        True
    """

    _task, _error_name, _unit = "classification", "log loss", 1.0
    classes_: NDArray[Any]

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on all rows.

        Args:
            X: Features, shape (n, d): numbers, none missing.
            y: Class labels, shape (n,), of any kind.

        Returns:
            The fitted classifier.
        """
        features, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has one class only, {classes[0]}; at least two are needed")
        self.classes_ = classes
        binary = len(classes) == 2
        targets = torch.from_numpy(codes.reshape(-1))
        loss, outputs = ("logistic", 1) if binary else ("cross_entropy", len(classes))
        run = self._train(features, targets.float() if binary else targets, loss, outputs)
        logits = run.best_outputs.double().cpu().numpy().reshape(len(codes), -1)
        self.corrected_proba_ = _probabilities(logits)
        right = self.corrected_proba_.argmax(1) == codes
        self.estimated_accuracy_ = float(right.mean())
        self.estimated_accuracy_stderr_ = self.diagnostics_.widening * _share_stderr(right)
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return logits: shape (m,) for two classes, positive for the second; else (m, K)."""
        outputs = self._outputs(X)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return class probabilities, shape (m, K), in the order of ``classes_``."""
        return _probabilities(self._outputs(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row, shape (m,)."""
        codes = self.predict_proba(X).argmax(1)
        chosen: NDArray[Any] = self.classes_[codes]
        return chosen


def _share_stderr(right: NDArray[np.bool_]) -> float:
    """Standard error of a share, after Agresti and Coull: above 0 even where all are right."""
    n = len(right) + 4
    share = (float(right.sum()) + 2) / n
    return math.sqrt(share * (1 - share) / n)


def _probabilities(logits: Floats) -> Floats:
    """Sigmoid of one column of logits, softmax of several."""
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], 1)
    powers = np.exp(logits - logits.max(1, keepdims=True))
    probabilities: Floats = powers / powers.sum(1, keepdims=True)
    return probabilities
