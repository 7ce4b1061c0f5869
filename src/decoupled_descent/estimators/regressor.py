"""Regression."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d, validate_data

from decoupled_descent.estimators.base import SPARSE, DecoupledEstimator, Floats, check_level
from decoupled_descent.estimators.newton import quantile

#: Beyond this, and below its inverse, squares leave the range of float64.
LARGEST = 1e150


class DecoupledRegressor(RegressorMixin, DecoupledEstimator):
    r"""Regressor that estimates its own test error without a hold-out set.

    As :class:`DecoupledClassifier`, for a real target and squared error. The target is standardised
    inside; errors are mean squared errors in the target's own units.

    Args:
        hidden: Width of the hidden layer, or several widths; ``"auto"`` is 8.
        activation: ``"tanh"``, ``"sigmoid"``, ``"softplus"``, ``"gelu"``, ``"silu"``, ``"relu"``.
        head: Your own ``nn.Module`` from (n, L) pre-activations to (n,) outputs; replaces
            ``hidden`` and ``activation``.
        method: ``"orthogonal"``, ``"decoupled"`` or ``"gradient"``.
        lr: Learning rate, or ``"auto"``: chosen by the train error, like the next two.
        damping: Factor on the parameters at every step, or ``"auto"``; gradient descent has none.
        ridge: How strongly directions of small variance are held back, or ``"auto"``; only the
            orthogonal method has one.
        max_iter: The most iterates per candidate.
        early_stopping: Whether to stop, after 100 steps, when the train error has not fallen by a
            hundredth of its standard error in 30.
        warm_start: Whether ``fit`` on the same rows goes on from where the last one ended.
        random_state: Draws the starting point.
        device: Where to train.
        verbose: Whether to draw a progress bar.

    Attributes:
        estimated_test_error_: Mean squared error to expect on new rows.
        estimated_test_error_stderr_: Its standard error.
        estimated_r2_: R² to expect on new rows.
        estimated_r2_stderr_: Its standard error, the variance of the target being taken as known.
        corrected_prediction_: Predictions for the training rows as if they were new, (n,).
        train_error_curve_: The error estimate over the iterates, shape (T,).
        diagnostics_: Whether to trust the estimate, and why.

    The other attributes are those of :class:`DecoupledClassifier`.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> import decoupled_descent as dd
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = dd.DecoupledRegressor(ridge=1.0, max_iter=100).fit(X[::2], y[::2])
        >>> miss = model.score(X[1::2], y[1::2]) - model.estimated_r2_
        >>> abs(miss) < 3 * 2**0.5 * model.estimated_r2_stderr_  # both halves have such an error
        True
    """

    _task, _error_name = "regression", "mean squared error"

    def fit(self, X: Any, y: ArrayLike, sample_weight: Any = None, groups: Any = None) -> Self:
        """Train on all rows.

        Args:
            X: Features, shape (n, d): numbers, none missing; may be sparse for linear features.
            y: Targets, shape (n,).
            sample_weight: How often each row counts, shape (n,); once by default.
            groups: Rows that belong together have the same value here, shape (n,). They are left
                out together, so that the estimate is for new groups.

        Returns:
            The fitted regressor.
        """
        self.method_ = self._chosen_method()
        newton = self.method_ == "newton"
        features, labels = validate_data(
            self, X, y, dtype=np.float64, ensure_min_samples=2, y_numeric=True, multi_output=True,
            accept_sparse=SPARSE if newton else False,
        )  # fmt: skip
        labels = column_or_1d(labels, warn=True).astype(np.float64)
        weighing, groups = self._weighing(sample_weight, None, groups, len(labels))
        if weighing.kept is not None and not weighing.kept.all():
            features, labels = features[weighing.kept], labels[weighing.kept]
        _check_range(labels)
        shares = None if weighing.shares is None else weighing.shares.numpy()
        self.target_mean_ = float(np.average(labels, weights=shares))
        variance = float(np.average((labels - self.target_mean_) ** 2, weights=shares))
        variance = variance if _varies(labels) else 0.0
        self.target_scale_ = math.sqrt(variance) if variance > 0 else 1.0
        self._unit = 2 * self.target_scale_**2  # the loss is ½ (u − y)² of standardised targets
        targets = torch.from_numpy((labels - self.target_mean_) / self.target_scale_)
        if newton:
            judged = self._search(features, targets, "squared", 1, weighing, groups)[:, 0]
        else:
            run = self._train(features, targets.float(), "squared", 1)
            judged = run.best_outputs.double().cpu().numpy()
        self.corrected_prediction_ = self._rescaled(judged)
        self._left_out_residuals = np.sort(np.abs(labels - self.corrected_prediction_))
        share = self.estimated_test_error_ / variance if variance > 0 else 1.0
        self.estimated_r2_ = 1 - share
        self.estimated_r2_stderr_ = (
            self.estimated_test_error_stderr_ / variance if variance > 0 else 0.0
        )
        return self

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> Floats:
        """Return intervals that hold the target of a new row at a stated level of confidence.

        Their half width is the quantile of the absolute errors of the training rows, each judged as
        if it were new (the jackknife).

        Args:
            X: Features, shape (m, d).
            level: The share of intervals that shall hold the target, between 0 and 1.

        Returns:
            Shape (m, 2): lower and upper ends, in the target's units; infinite where there are too
            few rows for the level.
        """
        width = quantile(self._left_out_residuals, check_level(level))
        centre = self.predict(X)
        intervals: Floats = np.stack([centre - width, centre + width], 1)
        return intervals

    def predict(self, X: ArrayLike) -> Floats:
        """Return predictions, shape (m,), in the target's units."""
        return self._rescaled(self._outputs(X)[:, 0])

    def _rescaled(self, outputs: Floats) -> Floats:
        rescaled: Floats = outputs * self.target_scale_ + self.target_mean_
        return rescaled


def _check_range(labels: Floats) -> None:
    """Raise ``ValueError`` for targets whose squares are beyond float64."""
    largest, spread = float(np.abs(labels).max()), float(np.ptp(labels))
    if largest > LARGEST or 0 < spread < 1 / LARGEST:
        raise ValueError(
            f"y has values up to {largest:.3g} that differ by {spread:.3g}; multiply y so that "
            f"both are between {1 / LARGEST:g} and {LARGEST:g}"
        )


def _varies(labels: Floats) -> bool:
    """Whether a target varies by more than the rounding of its mean."""
    return bool(labels.std() > 1e-12 * abs(labels.mean()))
