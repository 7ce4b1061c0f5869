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

from decoupled_descent.checks import LARGEST, error_interval
from decoupled_descent.evaluation.estimate import Estimate, Metric
from decoupled_descent.evaluation.heavy_tail import mean_interval
from decoupled_descent.evaluation.output_scale import OutputScale
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.estimators.base import DecoupledEstimator
from decoupled_descent.tables.estimators.inputs import check_level
from decoupled_descent.tables.estimators.jackknife import Jackknife
from decoupled_descent.tables.estimators.metrics import estimate_metric
from decoupled_descent.tables.estimators.model import Encoded, Floats, Training
from decoupled_descent.tables.estimators.row_weights import RowWeights
from decoupled_descent.tables.features.scaling import ROUNDING
from decoupled_descent.tables.search.fits import CandidateFit, SearchResult
from decoupled_descent.tables.search.mixing import variance_of_new

#: The most rows whose relative errors are exchanged.
MIXED = 1000


@dataclass(eq=False, repr=False, kw_only=True)
class DecoupledRegressor(RegressorMixin, DecoupledEstimator):
    r"""Regressor that estimates its own test error without a hold-out set.

    Like :class:`DecoupledClassifier`, also for raw tables, for real targets and squared error.
    Targets are standardised internally; errors are mean squared errors in the units of the target.

    Args:
        features: As in :class:`DecoupledClassifier`.
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
        log_target: Whether to fit the logarithm of the target, which must be positive: for prices,
            incomes and the like, whose errors grow with their size. Predictions, intervals and
            estimates are in the units of the target; predictions are medians, not means.
        ridge: Strength of the ridge penalty, or ``"auto"``: chosen by the leave-one-out error.
        random_state: Seed of all random numbers.
        verbose: Whether to draw a progress bar.
        plain_columns: Names of columns of a table whose values are taken as they are: -999 is no
            code for a missing value, 01067 is a number, and 120/80 is a text.
        time_columns: Columns of a matrix X that are times of the rows, as numbers of columns by
            name. A check looks for drift along them. By default they are recognised by their
            names, and in tables as dates too.

    Attributes:
        estimated_test_error_: Expected mean squared error on new rows, the mean over outputs.
        estimated_test_error_stderr_: Its standard error.
        estimated_test_error_interval_: Its 95 % interval; a few rows may hold much of the error.
        estimated_r2_: Expected R² on new rows, the mean over outputs.
        estimated_r2_stderr_: Its standard error; the variance of the target counts as exact.
        estimated_r2_interval_: Its 95 % interval.
        output_r2_: Expected R² of each output, shape (K,).
        output_r2_stderr_: Their standard errors.
        corrected_prediction_: Out-of-sample predictions of the training rows, (n,) or (n, K).
        train_error_curve_: The error estimate at every ridge of the best features, shape (T,).
        diagnostics_: Whether to trust the estimate, and why.

    The other attributes are those of :class:`DecoupledClassifier`.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> import decoupled_descent as dd
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = dd.DecoupledRegressor(ridge=1.0).fit(X[::2], y[::2])
        >>> miss = model.score(X[1::2], y[1::2]) - model.estimated_r2_
        >>> abs(miss) < 3 * 2**0.5 * model.estimated_r2_stderr_  # both halves have such an error
        True
    """

    _task, _error_name, _takes_several = "regression", "mean squared error", True

    log_target: bool = False

    def _cleaned(self, labels: NDArray[Any]) -> Floats:
        """Targets of shape (n,), or (n, K) for several."""
        if labels.ndim == 1 or labels.shape[1] == 1:
            labels = column_or_1d(labels, warn=True)
        return labels.astype(np.float64)

    def _conclude(
        self, training: Training, every: Floats, targets: Tensor, weights: RowWeights
    ) -> None:  # fmt: skip
        """Set the out-of-sample predictions of the training rows."""
        self.corrected_prediction_ = self._shaped(every)

    def _errors_of(
        self, model: Any, X: Any, labels: Floats, every: Floats
    ) -> tuple[Floats, Floats]:
        """Squared errors of rows, and one minus their shares of the variance of all targets."""
        squares = np.square(model.predict(X) - labels)
        return squares, 1 - squares / (float(every.var()) or 1.0)

    def _encoded(self, labels: Floats) -> Encoded:
        """Scaled targets, the loss, and the number of outputs."""
        labels = self._fitted_scale(labels)
        shaped = labels if self._several else labels.reshape(-1)
        scaled = (shaped - self.target_mean_) / self.target_scale_
        scaled = np.where(self._varies, scaled, 0.0)  # no rounding errors of a constant target
        return Encoded(torch.from_numpy(scaled), *self._loss)

    @property
    def _loss(self) -> tuple[str, int]:
        return "squared", np.size(self.target_mean_)

    def _fitted_scale(self, labels: Floats) -> Floats:
        """The targets on the scale of the fit: as they are, or their logarithms."""
        if not self.log_target:
            return labels
        if not labels.min() > 0:
            row = int(np.argmax((labels <= 0).reshape(len(labels), -1).any(1)))
            raise ValueError(
                f"y has the value {labels.min():g} (the first such row is {row}), which has no "
                "logarithm; leave out log_target=True, or predict y plus a constant"
            )
        logarithms: Floats = np.log(labels)
        return logarithms

    def _learn_labels(self, labels: Floats, weights: RowWeights) -> None:
        """Means and deviations of the targets, numbers or, for several outputs, arrays."""
        _check_range(labels)
        labels, shares = self._fitted_scale(labels), weights.in_estimates()[0]
        mean = np.average(labels, axis=0, weights=shares)
        deviation = np.sqrt(np.average((labels - mean) ** 2, axis=0, weights=shares))
        self._varies = np.atleast_1d(labels.std(0) > ROUNDING * np.abs(labels.mean(0)))
        scale = np.where(self._varies & (np.atleast_1d(deviation) > 0), deviation, 1.0)
        several = labels.ndim == 2
        self.target_mean_ = mean if several else float(mean)
        self.target_scale_ = scale if several else float(scale[0])
        self._unit = 2 * float((scale**2).mean())  # the loss is ½ (u − y)² of scaled targets

    def _search_error(
        self, result: SearchResult, weights: RowWeights, seed: int
    ) -> tuple[float, float, tuple[float, float]]:
        """The error of a mixture; R² is set as well, for each output by its residuals."""
        self._jackknife = Jackknife.of(result, weights.shares, seed)
        rows, estimate = result.best.rows, result.estimate
        squares = self._squares(result.left_out, rows)
        count, loss = squares.shape[1], result.objective.loss
        total = rows.averaged(loss.of_predictions(result.left_out, rows.y))
        variances = self._variances(rows, weights.shares)

        def part(factors: Tensor) -> tuple[float, float]:
            """Estimate and standard error of the squared errors, with a factor for each output."""
            values, usual = rows.averaged(squares @ factors), 2 * float(factors @ variances)
            error = estimate.error * _ratio(values.mean(), total.mean(), usual)
            return error, estimate.stderr * _ratio(_deviation(values), total.std(), usual)

        apart = variance_of_new(loss, total) / len(total)  # if no two rows had anything in common
        paired = 1 - apart / max(estimate.stderr**2, 1e-300)

        def ends(factors: Tensor, error: float, stderr: float) -> tuple[float, float]:
            """The 95 % interval of such an error, of which a few rows may hold much."""
            values = rows.averaged(squares @ factors)
            values = values * (error / max(float(values.mean()), 1e-300))
            return mean_interval(values.numpy(), stderr * math.sqrt(max(0.0, paired)), seed)

        equal, factors = torch.ones(count).double() / count, 1 / variances
        error, stderr = part(equal)
        interval = ends(equal, error, stderr)
        if self.log_target:
            wider = self._skewness_factor(result.left_out, rows, seed)
            stderr *= wider
            low, high = (error + wider * (end - error) for end in interval)
            interval = max(0.0, low), high
        self._set_r2(*zip(*(part(one) for one in torch.diag(factors)), strict=True))
        shares = factors * torch.from_numpy(self._varies) / count
        lost, self.estimated_r2_stderr_ = part(shares)
        low, high = ends(shares, lost, self.estimated_r2_stderr_)
        most = float(self._varies.mean())
        self.estimated_r2_interval_ = most - high, most - low
        return error, stderr, interval

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

    def _skewness_factor(self, outputs: Tensor, rows: Rows, seed: int) -> float:
        """The factor by which the standard error is widened for a skewed target.

        Large predictions with large relative errors are rare and dominate the error, and a small
        sample may contain none. So relative errors are exchanged among rows, and the larger
        standard deviation is used.
        """
        generator = torch.Generator().manual_seed(seed)
        some = torch.randperm(rows.n, generator=generator)[:MIXED]
        missed = (rows.y.reshape(rows.n, -1) - outputs)[some]
        exchanged = outputs[some].unsqueeze(1) + missed
        predicted = self._in_units(outputs[some]).unsqueeze(1)
        squares = (self._in_units(exchanged) - predicted).square().mean(2)
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
        variances = part @ (truth - part @ truth).square()
        return torch.where(torch.from_numpy(self._varies) & (variances > 0), variances, 1.0)

    def _losses_of(self, predictions: Tensor, result: SearchResult) -> Tensor:
        """Squared errors of predictions of the rows in the units of the targets, shape (n,)."""
        return self._squares(predictions, result.best.rows).mean(1)

    def _fit_error(self, fit: CandidateFit) -> tuple[float, float]:
        """Leave-one-out mean squared error of a candidate, and its standard error."""
        return self._square_error(fit.outputs, fit.rows)

    def _prediction_error(self, predictions: Tensor, result: SearchResult) -> tuple[float, float]:
        """Mean squared error of honest predictions of the rows, and its standard error."""
        return self._square_error(predictions, result.best.rows)

    def _square_error(self, outputs: Tensor, rows: Rows) -> tuple[float, float]:
        values = rows.averaged(self._squares(outputs, rows).mean(1))
        return float(values.mean()), float(_deviation(values)) / math.sqrt(len(values))

    def _set_r2(self, errors: Sequence[float], stderrs: Sequence[float]) -> None:
        """R² of each output and their mean, from squared errors of scaled targets."""
        self.output_r2_ = np.where(self._varies, 1 - np.array(errors), 0.0)
        self.output_r2_stderr_ = np.where(self._varies, stderrs, 0.0)
        self.estimated_r2_ = float(self.output_r2_.mean())
        self.estimated_r2_stderr_ = float(self.output_r2_stderr_.mean())
        low, high = error_interval(1 - self.estimated_r2_, self.estimated_r2_stderr_)
        self.estimated_r2_interval_ = 1 - high, 1 - low

    def estimate(
        self, metric: Metric, y: ArrayLike, sample_weight: Any = None, groups: Any = None
    ) -> Estimate:
        """Estimate any metric on new rows from the leave-one-out predictions.

        ``estimated_test_error_`` allows for the choice among candidates as well, and is slightly
        larger than ``"mse"`` here.

        Args:
            metric: ``"mse"``, ``"rmse"``, ``"mae"``, ``"median_absolute_error"`` (its interval is
                from order statistics), ``"r2"``, or a function of targets and predictions such as
                those of ``sklearn.metrics``.
            y: The targets of ``fit``.
            sample_weight: The weights of ``fit``.
            groups: The groups of ``fit``; the standard error is then one over groups.

        Returns:
            ``.value``, ``.stderr`` and ``.interval``, in the units of the target.

        Example:
            >>> from sklearn.datasets import load_diabetes
            >>> import decoupled_descent as dd
            >>> X, y = load_diabetes(return_X_y=True)
            >>> model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(X, y)
            >>> half = model.estimate("median_absolute_error", y)
            >>> half.interval[0] < half.value < half.interval[1] < model.estimate("rmse", y).value
            True
        """
        check_is_fitted(self)
        if not hasattr(self, "corrected_prediction_"):
            raise ValueError("a model from a file does not have its training rows; fit it again")
        targets = np.asarray(y, np.float64)
        predictions = self.corrected_prediction_
        if targets.shape == (len(predictions), 1):
            targets = targets[:, 0]
        if targets.shape != predictions.shape:
            raise ValueError(
                f"y has shape {targets.shape} but the model was trained on targets of shape "
                f"{predictions.shape}; pass the targets of fit"
            )
        return estimate_metric(
            metric, targets, predictions, OutputScale.VALUES, sample_weight, groups
        )

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> Floats:
        """Return prediction intervals for new rows.

        The method is the jackknife+. It uses the leave-one-out models of at most 500 training rows.
        If rows are exchangeable, the coverage is at least ``2 * level - 1``, and usually close to
        ``level``. With groups, the intervals are for rows of new groups.

        Args:
            X: Features, shape (m, d).
            level: The share of intervals that should cover the target, between 0 and 1.

        Returns:
            Shape (m, 2): lower and upper ends, in the units of the target; infinite if there are
            too few rows for the level. With K targets (m, K, 2), each interval at that level.
        """
        level = check_level(level)

        def ends_of(rows: Any) -> Floats:
            centre = torch.from_numpy(self.model_.predict(rows))
            ends = self._jackknife.intervals(self.model_.mixture, rows, centre, level)
            return np.stack([self._rescaled(end.numpy()) for end in ends.unbind(2)], 2)

        intervals = self._piecewise(X, ends_of)
        return intervals if self._several else intervals[:, 0]

    def training_intervals(self, level: float = 0.9) -> tuple[NDArray[np.intp], Floats]:
        """Return leave-one-out intervals for training rows, to check the coverage.

        Args:
            level: As in :meth:`predict_interval`.

        Returns:
            Indices of the rows, at most 500 drawn at random, and the ends of
            their intervals, shape (s, 2) or (s, K, 2).
        """
        level = check_level(level)
        check_is_fitted(self)
        rows = self._jackknife.rows
        if rows is None:
            raise ValueError("a model from a file does not have its training rows; fit it again")
        if self._kept is not None:
            rows = torch.from_numpy(np.flatnonzero(self._kept))[rows]
        left_out = self._fitted_scale(self.corrected_prediction_[rows.numpy()])
        scaled = torch.from_numpy((left_out - self.target_mean_) / self.target_scale_)
        scaled = scaled.reshape(len(rows), -1)
        ends = self._jackknife.own_intervals(self.model_.mixture, scaled, level)
        intervals = np.stack([self._rescaled(end.numpy()) for end in ends.unbind(2)], 2)
        return rows.numpy(), intervals if self._several else intervals[:, 0]

    def predict(self, X: ArrayLike) -> Floats:
        """Return predictions, shape (m,) or (m, K), in the units of the targets."""
        return self._shaped(self._outputs(X))

    @property
    def _several(self) -> bool:
        return isinstance(self.target_mean_, np.ndarray)

    def _rescaled(self, outputs: Floats) -> Floats:
        """Outputs in the units of the targets, shape (m, K)."""
        rescaled: Floats = outputs * self.target_scale_ + self.target_mean_
        if self.log_target:  # y cannot be larger; the end of an interval can be infinite
            largest = np.where(np.isposinf(rescaled), np.inf, math.log(LARGEST))
            rescaled = np.exp(np.minimum(rescaled, largest))
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


def _deviation(squares: Tensor) -> Tensor:
    """Standard deviation of squared errors, without overflow of their squares."""
    largest = squares.abs().max()
    return largest * (squares / largest).std() if 0 < float(largest) < math.inf else squares.std()


def _ratio(part: Tensor, total: Tensor, otherwise: float) -> float:
    return float(part / total) if float(total) > 0 else otherwise
