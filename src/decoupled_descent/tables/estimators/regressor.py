"""Regression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor

from decoupled_descent.checks import Target
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.kinds import OF_LOSS, Kind
from decoupled_descent.objective.links import Link
from decoupled_descent.objective.losses import get_loss
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.estimators.base import DecoupledEstimator
from decoupled_descent.tables.estimators.inputs import check_level
from decoupled_descent.tables.estimators.left_out_rows import jackknife_of
from decoupled_descent.tables.estimators.model import EncodedLabels, Floats
from decoupled_descent.tables.estimators.row_weights import RowWeights
from decoupled_descent.tables.prediction.predictor import LARGEST, in_units
from decoupled_descent.tables.search.fits import SearchResult

#: The losses that users choose.
LOSSES = ("squared", "poisson", "proportion")
#: The most rows whose relative errors are exchanged.
MIXED = 1000


@dataclass(eq=False, repr=False, kw_only=True)
class DecoupledRegressor(RegressorMixin, DecoupledEstimator):
    r"""Regressor that estimates its own test error without a hold-out set.

    Like :class:`DecoupledClassifier`, also for raw tables, for real targets and squared error.
    Targets are standardised internally; errors are mean squared errors in the units of the target,
    or what ``loss`` says.

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
        loss: ``"squared"``; ``"poisson"`` for counts and other amounts from 0 on: linear members
            fit the logarithm of the expected count, and errors are Poisson deviances;
            ``"proportion"`` for shares from 0 to 1: linear members fit the log-odds, and errors are
            binomial deviances. Predictions are means in each case. Forests of regression trees
            take part with all losses, boosted trees with ``"squared"`` and ``"poisson"``, sparse
            linear models with ``"squared"`` only.
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
        estimated_test_error_: Expected mean squared error on new rows, the mean over outputs; or
            deviance.
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

    _task, _takes_several = Target.NUMBERS, True

    loss: str = "squared"
    log_target: bool = False

    @property
    def _kind(self) -> Kind:
        return OF_LOSS[self.loss]

    def _check_options(self) -> None:
        """Raise ``ValueError`` for a wrong option."""
        super()._check_options()
        if not isinstance(self.loss, str) or self.loss not in LOSSES:
            raise ValueError(f"loss={self.loss!r:.40} must be one of {', '.join(LOSSES)}")
        if self.log_target and self._link is not None:
            raise ValueError(
                f"log_target=True is for loss='squared'; leave it out, or loss={self.loss!r}"
            )

    def _cleaned(self, labels: NDArray[Any]) -> Floats:
        """Targets of shape (n,), or (n, K) for several."""
        if labels.ndim == 1 or labels.shape[1] == 1:
            labels = column_or_1d(labels, warn=True)
        return labels.astype(np.float64)

    def _evaluated(self, result: SearchResult, labels: Floats, weights: RowWeights) -> Evaluation:
        """Predictions of the rows by mixtures that were chosen without them; R² is set as well."""
        self._jackknife = jackknife_of(result, weights.shares, self._seed())
        y, predictions = labels.reshape(len(labels), -1), self._rescaled(result.predictions.numpy())
        if self._link is None:
            errors = np.square(predictions - y)
            errors -= self._excess(result.excess.numpy(), predictions)
        else:
            errors = self._unit * result.losses.numpy()[:, None]
        shares, groups = weights.in_estimates()
        given: dict[str, Any] = {"how": "formula", "weights": shares, "groups": groups}
        mean = float(np.average(result.losses, weights=shares))

        def of(truth: Floats, said: Floats, losses: Floats) -> Evaluation:
            """The evaluation of some outputs, with pairs and optimism in their units."""
            own = float(np.average(losses, weights=shares))
            unit = own / mean if mean > 0 else self._unit
            one = Evaluation.of(
                truth, said, self._kind, losses=losses, pairs=result.pairs * unit**2,
                optimism=result.optimism * unit, **given,
            )  # fmt: skip
            if not self.log_target:
                return one
            wider = self._skewness_factor(result.left_out, result.best.rows)
            return replace(one, variance=wider**2 * one.least_variance)

        self._outputs_apart = [of(*one) for one in zip(y.T, predictions.T, errors.T, strict=True)]
        if not self._several:
            return self._outputs_apart[0]
        return of(y, predictions, errors.mean(1))

    def _excess(self, variance: Floats, predictions: Floats) -> Floats:
        """By how much squared errors are too large because predictions have excess variance."""
        factor = predictions if self.log_target else np.asarray(self.target_scale_)
        return variance * np.square(factor)

    def _score_of(self, evaluation: Evaluation) -> tuple[float, float, tuple[float, float]]:
        """R², the mean over outputs; that of each output is set as well."""
        apart = self._outputs_apart if self._several else [evaluation]
        scores = [one.estimate("r2") for one in apart]
        self.output_r2_ = np.array([one.value for one in scores])
        self.output_r2_stderr_ = np.array([one.stderr for one in scores])
        ends = np.array([one.interval for one in scores]).mean(0)
        low, high = float(ends[0]), float(ends[1])
        return float(self.output_r2_.mean()), float(self.output_r2_stderr_.mean()), (low, high)

    def _conclude(self, result: SearchResult, every: Floats, weights: RowWeights) -> None:
        """Set the out-of-sample predictions of the training rows."""
        self.corrected_prediction_ = self._shaped(every)

    def _predicted_by(self, model: Any, X: Any) -> Floats:
        """Numbers in the units of the target."""
        predictions: Floats = model.predict(X)
        return predictions

    def _encoded(self, labels: Floats) -> EncodedLabels:
        """Scaled targets, the loss, and the number of outputs."""
        labels = self._fitted_scale(labels)
        shaped = labels if self._several else labels.reshape(-1)
        scaled = (shaped - self.target_mean_) / self.target_scale_
        scaled = np.where(self._varies, scaled, 0.0)  # no rounding errors of a constant target
        return EncodedLabels(torch.from_numpy(scaled), *self._loss)

    @property
    def _loss(self) -> tuple[str, int]:
        return self.loss, np.size(self.target_mean_)

    @property
    def _link(self) -> Link | None:
        return get_loss(self.loss).link

    @property
    def _unit_of_outputs(self) -> tuple[float, str]:
        """What outputs of linear members are multiplied by, and their unit then."""
        if self._link is not None:
            return 1.0, self._link.unit
        scale = float(np.mean(self.target_scale_))
        return scale, "logarithm of the target" if self.log_target else "units of the target"

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
        if self._link is not None:
            self._learn_mean(labels, self._link, weights)
            return
        labels, shares = self._fitted_scale(labels), weights.in_estimates()[0]
        mean = np.average(labels, axis=0, weights=shares)
        deviation = np.sqrt(np.average((labels - mean) ** 2, axis=0, weights=shares))
        rounding = 4 * np.finfo(float).eps * np.abs(labels.mean(0))
        self._varies = np.atleast_1d(labels.std(0) > rounding)
        scale = np.where(self._varies & (np.atleast_1d(deviation) > 0), deviation, 1.0)
        several = labels.ndim == 2
        self.target_mean_ = mean if several else float(mean)
        self.target_scale_ = scale if several else float(scale[0])
        self._unit = 2 * float((scale**2).mean())  # the loss is ½ (u − y)² of scaled targets

    def _learn_mean(self, labels: Floats, link: Link, weights: RowWeights) -> None:
        """The mean of counts, which is their unit."""
        given = f"loss={self.loss!r}"
        if labels.ndim == 2:
            raise ValueError(
                f"y has {labels.shape[1]} columns, but {given} takes one; pass y[:, 0]"
            )
        outside = np.flatnonzero((labels < link.low) | (labels > link.high))
        if len(outside):
            limits = f"from {link.low:g} " + (f"to {link.high:g}" if link.high < np.inf else "on")
            raise ValueError(
                f"y is {labels[outside[0]]:g} in row {outside[0]}, but {given} is for numbers "
                f"{limits}; use loss='squared'"
            )
        mean = float(np.average(labels, weights=weights.in_estimates()[0]))
        if mean in (link.low, link.high):
            raise ValueError(f"y is {mean:g} in every row; there is nothing to learn")
        self.target_mean_, self.target_scale_ = 0.0, mean if link.scales else 1.0
        self._varies, self._unit = np.array([True]), 2 * self.target_scale_

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

    def _skewness_factor(self, outputs: Tensor, rows: Rows) -> float:
        """The factor by which the standard error is widened for a skewed target.

        Large predictions with large relative errors are rare and dominate the error, and a small
        sample may contain none. So relative errors are exchanged among rows, and the larger
        standard deviation is used.
        """
        generator = torch.Generator().manual_seed(self._seed())
        some = torch.randperm(rows.n, generator=generator)[:MIXED]
        missed = (rows.y.reshape(rows.n, -1) - outputs)[some]
        exchanged = outputs[some].unsqueeze(1) + missed
        predicted = self._in_units(outputs[some]).unsqueeze(1)
        squares = (self._in_units(exchanged) - predicted).square().mean(2)
        own = float(squares.diagonal().std())
        return max(1.0, float(squares.std()) / own) if own > 0 else 1.0

    def _losses_of(self, predictions: Tensor, result: SearchResult) -> Tensor:
        """Squared errors of predictions of the rows in the units of the targets, shape (n,)."""
        if self._link is not None:
            return self._unit * super()._losses_of(predictions, result)
        return self._squares(predictions, result.best.rows).mean(1)

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> Floats:
        """Return prediction intervals for new rows.

        The method is the jackknife+. It uses the leave-one-out models of at most 500 training rows.
        For counts and proportions the widths are quantiles of leave-one-out errors, divided by the
        standard deviation that the loss assumes (as in split conformal prediction).
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
            mixture = self.mixture_.numbers
            ends = self._jackknife.intervals(mixture, rows, mixture.predict(rows), level)
            return self._rescaled_ends(ends)

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
            rows = np.flatnonzero(self._kept)[rows]
        left_out = self._fitted_scale(self.corrected_prediction_[rows])
        scaled = ((left_out - self.target_mean_) / self.target_scale_).reshape(len(rows), -1)
        ends = self._jackknife.own_intervals(self.mixture_.numbers, scaled, level)
        intervals = self._rescaled_ends(ends)
        return rows, intervals if self._several else intervals[:, 0]

    def predict(self, X: ArrayLike) -> Floats:
        """Return predictions, shape (m,) or (m, K), in the units of the targets."""
        return self._shaped(self._outputs(X))

    @property
    def _several(self) -> bool:
        return isinstance(self.target_mean_, np.ndarray)

    def _rescaled(self, outputs: Floats) -> Floats:
        """Outputs in the units of the targets, shape (m, K)."""
        scale = self.target_mean_, self.target_scale_
        rescaled: Floats = in_units(outputs, *scale, self.log_target)
        return rescaled

    def _rescaled_ends(self, ends: Floats) -> Floats:
        """Ends of intervals in the units of the targets, shape (m, K, 2)."""
        return np.stack([self._rescaled(ends[:, :, k]) for k in (0, 1)], 2)

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
