"""Regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor

from decoupled_descent.estimators.base import DecoupledEstimator, check_level
from decoupled_descent.estimators.jackknife import Jackknife
from decoupled_descent.estimators.network import Floats
from decoupled_descent.estimators.newton import Weighing
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.selection.found import Candidate, Search

#: Squares of numbers above this, or below its inverse, are outside the range of float64.
LARGEST = 1e150
#: The most rows whose relative errors are exchanged.
MIXED = 1000


@dataclass(eq=False, repr=False, kw_only=True)
class DecoupledRegressor(RegressorMixin, DecoupledEstimator):
    r"""Regressor that estimates its own test error without a hold-out set.

    Like :class:`DecoupledClassifier`, for real targets and squared error. Targets are standardised
    internally; errors are mean squared errors in the units of the target.

    Args:
        hidden: Width of the hidden layer, or several widths; ``"auto"`` is 8.
        activation: ``"tanh"``, ``"sigmoid"``, ``"softplus"``, ``"gelu"``, ``"silu"``, ``"relu"``.
        head: Your own ``nn.Module`` from (n, L) pre-activations to (n,) outputs; replaces
            ``hidden`` and ``activation``.
        method: ``"auto"``, ``"newton"``, ``"orthogonal"``, ``"decoupled"`` or ``"gradient"``.
        features: ``"auto"``, or the features of the Newton method.
        stack: Whether to mix all candidates; otherwise the best one is the model.
        log_target: Whether to fit the logarithm of the target, which must be positive: for prices,
            incomes and the like, whose errors grow with their size. Predictions, intervals and
            estimates are in the units of the target; predictions are medians, not means. For
            Newton's method.
        lr: Learning rate, or ``"auto"``: chosen by the train error, like the next two.
        damping: Weight decay: a factor on the parameters at every step, or ``"auto"``; gradient
            descent has none.
        ridge: Strength of the ridge penalty, or ``"auto"``; for Newton's and the orthogonal method.
        max_iter: The largest number of steps per candidate.
        early_stopping: Whether to stop, after 100 steps, if the train error has not fallen by a
            hundredth of its standard error in 30 steps.
        warm_start: Whether ``fit`` on the same rows continues where the last one ended.
        random_state: Seed of all random numbers.
        device: Where to train.
        verbose: Whether to draw a progress bar.

    Attributes:
        estimated_test_error_: Expected mean squared error on new rows, the mean over outputs.
        estimated_test_error_stderr_: Its standard error.
        estimated_r2_: Expected R² on new rows, the mean over outputs.
        estimated_r2_stderr_: Its standard error; the variance of the target is taken as known.
        output_r2_: Expected R² of each output, shape (K,).
        output_r2_stderr_: Their standard errors.
        corrected_prediction_: Out-of-sample predictions of the training rows, (n,) or (n, K).
        train_error_curve_: The error estimate at every step (or ridge), shape (T,).
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

    log_target: bool = False

    def _cleaned(self, labels: NDArray[Any]) -> Floats:
        """Targets of shape (n,), or (n, K) for several with the Newton method."""
        if labels.ndim == 1 or labels.shape[1] == 1 or self.method_ != "newton":
            labels = column_or_1d(labels, warn=True)
        return labels.astype(np.float64)

    def _conclude(self, judged: Floats, every: Floats, targets: Tensor, weighing: Weighing) -> None:
        """Predictions of the training rows; for networks also R² and the errors of the rows."""
        self.corrected_prediction_ = self._shaped(every)
        if self.method_ != "newton":
            share = self.estimated_test_error_stderr_ / self._unit * 2
            self._set_r2([2 * self.estimated_test_error_ / self._unit], [share])
            self._jackknife = Jackknife.plain(judged - targets.numpy().reshape(-1, 1))

    def _encoded(self, labels: Floats) -> tuple[Tensor, str, int]:
        """Scaled targets, the loss, and the number of outputs."""
        labels = self._fitted_scale(labels)
        shaped = labels if self._several else labels.reshape(-1)
        scaled = torch.from_numpy((shaped - self.target_mean_) / self.target_scale_)
        return scaled, *self._loss

    @property
    def _loss(self) -> tuple[str, int]:
        return "squared", np.size(self.target_mean_)

    def _fitted_scale(self, labels: Floats) -> Floats:
        """The targets on the scale of the fit: as they are, or their logarithms."""
        if not self.log_target:
            return labels
        if self.method_ != "newton":
            raise ValueError(f"log_target=True needs method='newton', not {self.method_!r}")
        if not labels.min() > 0:
            row = int(np.argmax((labels <= 0).reshape(len(labels), -1).any(1)))
            raise ValueError(
                f"y has the value {labels.min():g} (the first such row is {row}), which has no "
                "logarithm; leave out log_target=True, or predict y plus a constant"
            )
        logarithms: Floats = np.log(labels)
        return logarithms

    def _learn_labels(self, labels: Floats, weighing: Weighing) -> None:
        """Means and deviations of the targets, numbers or, for several outputs, arrays."""
        _check_range(labels)
        labels, shares = self._fitted_scale(labels), weighing.counted()[0]
        mean = np.average(labels, axis=0, weights=shares)
        deviation = np.sqrt(np.average((labels - mean) ** 2, axis=0, weights=shares))
        self._varies = np.atleast_1d(labels.std(0) > 1e-12 * np.abs(labels.mean(0)))
        scale = np.where(self._varies & (np.atleast_1d(deviation) > 0), deviation, 1.0)
        several = labels.ndim == 2
        self.target_mean_ = mean if several else float(mean)
        self.target_scale_ = scale if several else float(scale[0])
        self._unit = 2 * float((scale**2).mean())  # the loss is ½ (u − y)² of scaled targets

    def _estimate(self, found: Search, weighing: Weighing, seed: int) -> None:
        """Set error and R²; the parts of the outputs are computed from their residuals."""
        self._jackknife = Jackknife.of(found, weighing.shares, seed)
        rows = found.best.rows
        squares = self._squares(found.left_out, rows)
        count, scaled = squares.shape[1], found.left_out - rows.y.reshape(rows.n, -1)
        whole = rows.averaged(0.5 * scaled.square().sum(1))
        variances = self._variances(rows, weighing.shares)

        def part(factors: Tensor) -> tuple[float, float]:
            """Estimate and standard error of the squared errors, with a factor for each output."""
            values, usual = rows.averaged(squares @ factors), 2 * float(factors @ variances)
            error = found.estimate.error * _ratio(values.mean(), whole.mean(), usual)
            return error, found.estimate.stderr * _ratio(_spread(values), whole.std(), usual)

        equal = torch.ones(count).double() / count
        self.estimated_test_error_, self.estimated_test_error_stderr_ = part(equal)
        if self.log_target:
            self.estimated_test_error_stderr_ *= self._unseen(found.left_out, rows, seed)
        factors = 1 / variances
        self._set_r2(*zip(*(part(one) for one in torch.diag(factors)), strict=True))
        self.estimated_r2_stderr_ = part(factors * torch.from_numpy(self._varies) / count)[1]

    def _in_units(self, outputs: Tensor) -> Tensor:
        """Outputs or scaled targets (n, K) in the units of the targets."""
        return torch.from_numpy(self._rescaled(outputs.numpy()))

    def _squares(self, outputs: Tensor, rows: Rows) -> Tensor:
        """Squared errors of outputs (n, K) in the units of the targets."""
        y = rows.y.reshape(rows.n, -1)
        if self.log_target:
            return (self._in_units(outputs) - self._in_units(y)).square()
        scales = torch.as_tensor(self.target_scale_, dtype=torch.float64)
        return ((outputs - y) * scales).square()

    def _unseen(self, outputs: Tensor, rows: Rows, seed: int) -> float:
        """The factor by which the standard error is widened for a skewed target.

        Large predictions with large relative errors are rare and dominate the error, and a small
        sample may contain none. So relative errors are exchanged among rows, and the larger
        standard deviation is used.
        """
        generator = torch.Generator().manual_seed(seed)
        some = torch.randperm(rows.n, generator=generator)[:MIXED]
        missed = (rows.y.reshape(rows.n, -1) - outputs)[some]
        exchanged = outputs[some].unsqueeze(1) + missed
        said = self._in_units(outputs[some]).unsqueeze(1)
        squares = (self._in_units(exchanged) - said).square().mean(2)
        own = squares.diagonal().std()
        return max(1.0, _ratio(squares.std(), own, 1.0))

    def _variances(self, rows: Rows, shares: Tensor | None) -> Tensor:
        """Variances of the targets in their units, shape (K,); 1 for a constant one."""
        scales = torch.as_tensor(np.atleast_1d(self.target_scale_))
        if not self.log_target:
            return scales.square()
        truth = self._in_units(rows.y.reshape(rows.n, -1))
        part = torch.ones_like(truth[:, 0]) if shares is None else shares
        part = part / part.sum()
        found = part @ (truth - part @ truth).square()
        return torch.where(torch.from_numpy(self._varies) & (found > 0), found, 1.0)

    def _row_errors(self, found: Search) -> Tensor:
        """Squared errors of the rows in the units of the targets, scaled to the corrected mean."""
        y = found.best.rows.y.reshape(len(found.losses), -1)
        fitted = 0.5 * (found.left_out - y).square().sum(1).mean()
        factor = _ratio(found.losses.mean(), fitted, 1.0)
        return factor * self._squares(found.left_out, found.best.rows).mean(1)

    def _measured(self, candidate: Candidate) -> tuple[float, float]:
        """Leave-one-out mean squared error of a candidate, and its standard error."""
        values = candidate.rows.averaged(self._squares(candidate.outputs, candidate.rows).mean(1))
        return float(values.mean()), float(_spread(values)) / math.sqrt(len(values))

    def _set_r2(self, errors: Sequence[float], stderrs: Sequence[float]) -> None:
        """R² of each output and their mean, from squared errors of scaled targets."""
        self.output_r2_ = np.where(self._varies, 1 - np.array(errors), 0.0)
        self.output_r2_stderr_ = np.where(self._varies, stderrs, 0.0)
        self.estimated_r2_ = float(self.output_r2_.mean())
        self.estimated_r2_stderr_ = float(self.output_r2_stderr_.mean())

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> Floats:
        """Return prediction intervals for new rows.

        The method is the jackknife+. It uses the leave-one-out models of at most 500 training rows.
        If rows are exchangeable, the coverage is at least ``2 * level - 1``, and usually close to
        ``level``. With groups, the intervals are for rows of new groups. Networks use only the
        errors of the training rows.

        Args:
            X: Features, shape (m, d).
            level: The share of intervals that should cover the target, between 0 and 1.

        Returns:
            Shape (m, 2): lower and upper ends, in the units of the target; infinite if there are
            too few rows for the level. With K targets (m, K, 2), each interval at that level.
        """
        level = check_level(level)
        mixture = self.mixture_ if getattr(self, "method_", "") == "newton" else None

        def ends_of(rows: Any) -> Floats:
            centre = torch.from_numpy(self._predicted(rows))
            ends = self._jackknife.intervals(mixture, rows, centre, level)
            return np.stack([self._rescaled(end.numpy()) for end in ends.unbind(2)], 2)

        intervals = self._piecewise(X, ends_of)
        return intervals if self._several else intervals[:, 0]

    def training_intervals(self, level: float = 0.9) -> tuple[NDArray[np.intp], Floats]:
        """Return leave-one-out intervals for training rows, to check the coverage.

        Args:
            level: As in :meth:`predict_interval`.

        Returns:
            Indices of the rows, at most 500 drawn at random for the Newton method, and the ends of
            their intervals, shape (s, 2) or (s, K, 2).
        """
        level = check_level(level)
        check_is_fitted(self)
        places = self._jackknife.places
        if places is None:
            raise ValueError("a model from a file does not know its training rows; fit it again")
        if self._kept is not None:
            places = torch.from_numpy(np.flatnonzero(self._kept))[places]
        judged = self._fitted_scale(self.corrected_prediction_[places.numpy()])
        scaled = ((judged - self.target_mean_) / self.target_scale_).reshape(len(places), -1)
        mixture = self.mixture_ if self.method_ == "newton" else None
        ends = self._jackknife.own_intervals(mixture, torch.from_numpy(scaled), level)
        intervals = np.stack([self._rescaled(end.numpy()) for end in ends.unbind(2)], 2)
        return places.numpy(), intervals if self._several else intervals[:, 0]

    def predict(self, X: ArrayLike) -> Floats:
        """Return predictions, shape (m,) or (m, K), in the units of the targets."""
        return self._shaped(self._outputs(X))

    @property
    def _several(self) -> bool:
        return isinstance(self.target_mean_, np.ndarray)

    def _rescaled(self, outputs: Floats) -> Floats:
        """Outputs in the units of the targets, shape (m, K)."""
        rescaled: Floats = outputs * self.target_scale_ + self.target_mean_
        if self.log_target:  # y cannot be larger
            rescaled = np.exp(np.minimum(rescaled, math.log(LARGEST)))
        return rescaled

    def _shaped(self, outputs: Floats) -> Floats:
        """Outputs in the units of the targets, of shape (m,) if y had that shape."""
        rescaled = self._rescaled(outputs)
        return rescaled if self._several else rescaled[:, 0]


def _check_range(labels: Floats) -> None:
    """Raise ``ValueError`` for targets whose squares are beyond float64."""
    for column in labels.reshape(len(labels), -1).T:
        largest, spread = float(np.abs(column).max()), float(np.ptp(column))
        if largest > LARGEST or 0 < spread < 1 / LARGEST:
            raise ValueError(
                f"y has values up to {largest:.3g} that differ by {spread:.3g}; multiply y so that "
                f"both are between {1 / LARGEST:g} and {LARGEST:g}"
            )


def _spread(squares: Tensor) -> Tensor:
    """Standard deviation of squared errors, without overflow of their squares."""
    largest = squares.abs().max()
    return largest * (squares / largest).std() if 0 < float(largest) < math.inf else squares.std()


def _ratio(part: Tensor, whole: Tensor, otherwise: float) -> float:
    return float(part / whole) if float(whole) > 0 else otherwise
