"""How good a model is on new rows, and how sure that is: one object for all models."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.checks import error_interval
from decoupled_descent.evaluation.checks.check import Finding
from decoupled_descent.evaluation.checks.diagnosis import Diagnosis
from decoupled_descent.evaluation.checks.of_evaluations import findings_of
from decoupled_descent.evaluation.comparison import Comparison, all_pairs, compare
from decoupled_descent.evaluation.decision_rule import DecisionRule
from decoupled_descent.evaluation.estimate import Estimate, Metric
from decoupled_descent.evaluation.estimation import BLOCKS, metered
from decoupled_descent.evaluation.forecast import Next, next_mean
from decoupled_descent.evaluation.kinds import PROBABILITIES, Kind
from decoupled_descent.evaluation.means import (
    Mean,
    effective_count,
    mean_with_stderr,
    unit_values,
)
from decoupled_descent.evaluation.showing import as_dict, as_html, drawn

if TYPE_CHECKING:
    from typing import Self

    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Predictions of rows as if they were new, with their labels, and all that follows from them.

    ``run.evaluation``, ``model.evaluation_`` and :func:`evaluate` return one.

    Attributes:
        labels: Classes as 0, 1, 2, …, shape (n,), or numbers, (n,) or (n, m).
        predictions: Predictions of the rows by models that did not see them: probabilities (n, K),
            classes (n,), or numbers (n,) or (n, m).
        kind: What the predictions are, with their loss.
        losses: The loss of each row, shape (n,).
        how: How the predictions were obtained: "formula", "path", "out of bag", "folds", …
        loss: The name of the metric that the losses are; empty for a loss of one's own.
        weights: Weights of the rows, shape (n,), or None.
        groups: The number of the group of each row: 0, 1, 2, …, shape (n,), or None.
        classes: The names of the classes, or None.
        rule: How probabilities become decisions.
        decided: Decisions that do not follow from the rule, such as those of thresholds that were
            chosen without the row, shape (n,), or None.
        right: A better guess of how often each row is decided rightly, shape (n,), or None.
        models: The number of the model that predicted each row; only rows of the same model are
            compared by "auc". None compares all.
        periods: The number of the period of each row, 0, 1, …, if models of the past predicted it.
            All estimates are then for the period after the last one. None if rows have no order.
        pairs: The variance of the error because each row is in the training set of the models for
            the others.
        variance: The variance of the loss of a new row, if it is known better than by the losses.
        optimism: By how much the error is higher because of a choice among models; it is in the
            error already. None if nothing was chosen.
        refits: How many models were fitted for this.
        notes: Numbers that the training measured, by name, for the checks.
        given: Findings of checks that were made elsewhere.
        influence: How far the prediction of each row moves when the row is left out, shape (n,);
            None if that was not computed.
        reason: Why the predictions were not obtained by a formula; empty if they were.
        candidates: The evaluations of all models among which this one was chosen, by name …
        chosen: … and its own name.

    Example:
        >>> from decoupled_descent.evaluation import Evaluation
        >>> y, p = np.array([0, 1, 1, 0]), np.array([0.2, 0.7, 0.4, 0.1])
        >>> evaluation = Evaluation.of(y, np.stack([1 - p, p], 1))
        >>> round(evaluation.error, 3), evaluation.estimate("accuracy").value
        (0.4..., 0.75)
    """

    labels: Any
    predictions: Any
    kind: Kind
    losses: Floats
    how: str = "given"
    loss: str = ""
    weights: Floats | None = None
    groups: Codes | None = None
    classes: Sequence[Any] | None = None
    rule: DecisionRule = field(default_factory=DecisionRule)
    decided: Codes | None = None
    right: Floats | None = None
    models: Codes | None = None
    periods: Codes | None = None
    pairs: float = 0.0
    variance: float | None = None
    optimism: float | None = None
    refits: int = 0
    notes: Mapping[str, float] = field(default_factory=dict)
    given: tuple[Finding, ...] = ()
    influence: Floats | None = None
    reason: str = ""
    candidates: Mapping[str, Evaluation] = field(default_factory=dict)
    chosen: str = ""

    @classmethod
    def of(cls, labels: Any, predictions: Any, kind: Kind = PROBABILITIES, **others: Any) -> Self:
        """The evaluation of predictions by the loss of their kind.

        Args:
            labels: Labels of the rows.
            predictions: Predictions of the rows by models that did not see them.
            kind: What the predictions are.
            others: Further attributes, by name.
        """
        labels, predictions = np.asarray(labels), np.asarray(predictions)
        if len(labels) != len(predictions) or len(labels) < 2:
            raise ValueError(
                f"y has {len(labels)} rows and predictions {len(predictions)}; give the same 2 or "
                "more"
            )
        losses = others.pop("losses", None)
        if losses is None:
            losses = kind.losses(labels, predictions)
        loss = others.pop("loss", kind.metric)
        return cls(labels, predictions, kind, np.asarray(losses, np.float64), loss=loss, **others)

    def __repr__(self) -> str:
        """Summarise in one line."""
        low, high = self.interval
        return (
            f"Evaluation({self.error_name} {self.error:.4g} ({low:.4g} to {high:.4g}), "
            f"{len(self.losses)} rows, {self.how}, {self.verdict})"
        )

    def _repr_html_(self) -> str:
        """The error and the verdict as a table, for notebooks."""
        return as_html(self)

    def plot(self) -> Figure:
        """Draw what the predictions are worth, with 95 % intervals.

        Probabilities: how often classes occur where they are predicted, and the ROC curve of two
        classes. Classes: how many rows of each class are recognised. Numbers: true and predicted
        numbers, and the mean error by the prediction.

        Returns:
            A figure; ``dd.plotting.save_figure`` writes it to a file.
        """
        return drawn(self)

    # The error

    @property
    def error_name(self) -> str:
        """The loss in words."""
        return self.kind.error_name if self.loss == self.kind.metric else "loss"

    @property
    def error(self) -> float:
        """The mean loss on new rows."""
        return self._mean.value

    @property
    def stderr(self) -> float:
        """The standard error of the error."""
        return self._mean.stderr

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the error."""
        common = math.sqrt(max(0.0, self.pairs))
        if not (math.isfinite(self.error) and math.isfinite(self.stderr)):
            return math.nan, math.nan
        if self.periods is not None:
            return error_interval(self.error, self.stderr)
        if self.variance is not None:  # known to be larger than the losses show
            seen = self.kind.least_variance(self.values, self.predictions, self.weights)
            common = math.hypot(common, math.sqrt(max(0.0, self.variance - seen) / self.count))
        return self.kind.interval(self.values, self.error, self.stderr, common)

    @cached_property
    def values(self) -> Floats:
        """One loss for each unit: for each row, or for each group."""
        return unit_values(self.losses, self.weights, self.groups)

    @cached_property
    def least_variance(self) -> float:
        """The variance of the loss of a new row, with large losses that have not occurred."""
        if self.variance is not None:
            return self.variance
        if self.loss != self.kind.metric or np.ndim(self.labels) > 1 or not self.is_finite:
            return 0.0
        return self.kind.least_variance(self.values, self.predictions, self.weights)

    @property
    def is_finite(self) -> bool:
        """Whether all losses are finite."""
        return bool(np.isfinite(self.losses).all())

    @cached_property
    def _mean(self) -> Mean:
        if self.periods is not None:
            value, stderr, _ = self.trend
            return Mean(max(0.0, value) if self.losses.min() >= 0 else value, stderr)
        return mean_with_stderr(
            self.losses, self.weights, self.groups,
            least_variance=self.least_variance, pairs=self.pairs,
        )  # fmt: skip

    @cached_property
    def by_period(self) -> tuple[Evaluation, ...]:
        """The evaluation of each period, in order; none if rows have no order."""
        if self.periods is None:
            return ()
        numbers = range(int(self.periods.max()) + 1)
        return tuple(self.part(self.periods == one) for one in numbers)

    @cached_property
    def trend(self) -> Next:
        """The mean loss of the period after the last one."""
        return self.next_of([(one.error, one.stderr) for one in self.by_period])

    @staticmethod
    def next_of(means: Sequence[tuple[float, float]]) -> Next:
        """The next of some means with standard errors, without those that are not known."""
        known = [one for one in means if math.isfinite(one[0]) and math.isfinite(one[1])]
        values = np.array(known).reshape(-1, 2)
        return next_mean(values[:, 0], values[:, 1])

    def part(self, rows: NDArray[np.bool_]) -> Evaluation:
        """The evaluation of some rows by themselves."""
        parts: dict[str, Any] = {
            name: None if (given := getattr(self, name)) is None else given[rows]
            for name in ("labels", "predictions", "losses", "weights", "decided", "right", "models")
        }
        if self.groups is not None:
            parts["groups"] = np.unique(self.groups[rows], return_inverse=True)[1].reshape(-1)
        return replace(self, **parts, periods=None)

    @property
    def widening(self) -> float:
        """The standard error, divided by what it were if rows had nothing in common."""
        alone = math.sqrt(max(0.0, self.stderr**2 - max(0.0, self.pairs)))
        return self.stderr / alone if alone > 0 else 1.0

    @property
    def count(self) -> float:
        """The number of rows or groups of equal weight that would know the error as well."""
        return effective_count(self.weights, self.groups, len(self.losses))

    # Rows as metrics need them

    @property
    def row_weights(self) -> Floats:
        """The weight of each row, shape (n,)."""
        return np.ones(len(self.losses)) if self.weights is None else self.weights

    @property
    def units(self) -> Codes:
        """The number of the unit of each row, shape (n,)."""
        return np.arange(len(self.losses)) if self.groups is None else self.groups

    @cached_property
    def decisions(self) -> Codes | None:
        """The class that is decided for in each row, shape (n,); None for numbers."""
        if self.decided is not None:
            return self.decided
        return self.kind.decisions(self.predictions, self.rule)

    @property
    def _is_flipped(self) -> bool:
        return self.kind.has_classes and self.rule.positive == 0

    @property
    def positive_labels(self) -> Any:
        """Labels with the class to find as class 1."""
        return 1 - self.labels if self._is_flipped else self.labels

    @property
    def positive_decisions(self) -> Codes | None:
        """Decisions with the class to find as class 1."""
        found = self.decisions
        return 1 - found if self._is_flipped and found is not None else found

    @property
    def positive_predictions(self) -> Any:
        """Predictions with the class to find as class 1."""
        flips = self._is_flipped and np.ndim(self.predictions) == 2
        return self.predictions[:, ::-1] if flips else self.predictions

    # Metrics

    def estimate(self, metric: Metric, blocks: int = BLOCKS) -> Estimate:
        """Estimate a metric on new rows.

        Args:
            metric: "accuracy", "error_rate", "sensitivity", "specificity", "ppv", "npv",
                "balanced_accuracy", "f1", "auc", "brier", "log_loss"; "weighted_kappa" and
                "grade_error" (of classes in their order); "mse", "rmse", "mae",
                "median_absolute_error", "r2"; "poisson_deviance" (of counts), "binomial_deviance"
                (of proportions); a function of labels and predictions such as those of
                ``sklearn.metrics``; or a metric of torchmetrics. Functions get probabilities (of
                class 1 where there are two) or numbers; those of ``sklearn.metrics`` that need
                classes get decisions.
            blocks: How often a metric that is any function may be computed.

        Returns:
            The value with a standard error and an interval, and the verdict. The standard error
            is a jackknife over rows, or groups, widened because each row trains the models that
            predict the others.
        """
        name, found = metered(self, metric, blocks)
        ends = found.ends
        if ends is None:
            ends = math.nan, math.nan
            if math.isfinite(found.value) and math.isfinite(found.stderr):
                ends = found.interval(found.value, found.stderr)
        verdict, reasons = self.verdict, self.reasons
        if found.doubt:
            verdict = "caution" if verdict == "trust" else verdict
            reasons = (*reasons, found.doubt)
        return Estimate(found.value, found.stderr, ends, name, found.units, verdict, reasons)

    def compare(self, other: Evaluation, metric: Metric | None = None) -> Comparison:
        """Compare with another model on the same rows.

        The rows are the same, so the standard error of the difference is smaller than that of
        either error.

        Args:
            other: The evaluation of the other model.
            metric: What to compare; the loss by default.

        Returns:
            The difference (positive: this one is larger), its standard error and its 95 %
            interval.
        """
        return compare(self, other, metric)

    @property
    def comparisons(self) -> dict[tuple[str, str], Comparison]:
        """All pairs of candidates, by their names."""
        return all_pairs(self.candidates)

    # Whether to believe it

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """All findings, the most serious first, and the verdict."""
        return Diagnosis(()).with_findings(findings_of(self)).with_findings(self.given)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the checks found, the most serious first."""
        return self.diagnosis.findings

    @property
    def verdict(self) -> str:
        """``"trust"``, ``"caution"`` or ``"do not trust"``."""
        return self.diagnosis.verdict

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the verdict is no better, in sentences."""
        return self.diagnosis.reasons

    def with_findings(self, findings: Sequence[Finding]) -> Evaluation:
        """The same evaluation with further findings, instead of those of the same name."""
        names = {one.name for one in findings}
        kept = tuple(one for one in self.given if one.name not in names)
        return replace(self, given=(*kept, *findings))

    def with_rule(self, rule: DecisionRule, decided: Codes | None = None) -> Evaluation:
        """The same predictions with another rule for decisions."""
        right = self.right if rule.is_usual and decided is None else None
        return replace(self, rule=rule, decided=decided, right=right)

    def to_dict(self) -> dict[str, Any]:
        """Error, score, how, and the verdict with its findings, for JSON."""
        return as_dict(self)

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), default=float, indent=2)
