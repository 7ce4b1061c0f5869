"""What predictions are, and by which loss they are judged: one class for each kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.checks import error_interval, share_interval
from decoupled_descent.evaluation.decision_rule import DecisionRule
from decoupled_descent.evaluation.heavy_tail import mean_interval
from decoupled_descent.evaluation.means import variance_with_one_more
from decoupled_descent.evaluation.metrics import METRICS, Takes
from decoupled_descent.objective.links import LEAST

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Kind(ABC):
    """What predictions are. A kind knows its loss, and what metrics can be computed of it.

    Attributes:
        metric: The name of its loss as a metric.
        error_name: The same in words.
        score: The metric that people read beside the loss.
        has_classes: Whether labels are classes.
    """

    metric: ClassVar[str]
    error_name: ClassVar[str]
    score: ClassVar[str]
    has_classes: ClassVar[bool] = True

    def __eq__(self, other: object) -> bool:
        """Whether the kind is the same, also after a copy to another process."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def losses(self, labels: Any, predictions: Any) -> Floats:
        """The loss of each row, shape (n,)."""
        return METRICS[self.metric].rows(labels, predictions)[:, 0]

    @abstractmethod
    def given(self, takes: Takes, predictions: Any, decisions: Codes | None) -> Any:
        """What a metric compares labels with; None if this kind does not have it."""

    def decisions(self, predictions: Any, rule: DecisionRule) -> Codes | None:
        """The class that is decided for in each row; None where there are no classes."""
        return None

    @abstractmethod
    def least_variance(self, values: Floats, predictions: Any, weights: Floats | None) -> float:
        """The variance of the loss of a new row, with large losses that have not occurred."""

    @abstractmethod
    def interval(
        self, values: Floats, error: float, stderr: float, common: float
    ) -> tuple[float, float]:
        """The 95 % interval of the mean loss.

        Args:
            values: One loss for each row or group.
            error: Their mean.
            stderr: Its standard error.
            common: The part of it that is not from the spread of the values.
        """


class Probabilities(Kind):
    """Probabilities of classes, shape (n, K), judged by the log loss."""

    metric, error_name, score = "log_loss", "log loss", "accuracy"

    def given(self, takes: Takes, predictions: Any, decisions: Codes | None) -> Any:
        """Probabilities, and the decisions that follow from them."""
        return {Takes.PROBABILITIES: predictions, Takes.DECISIONS: decisions}.get(takes)

    def decisions(self, predictions: Any, rule: DecisionRule) -> Codes | None:
        """The most probable class, or that of the threshold."""
        return rule.decide(predictions) if np.ndim(predictions) == 2 else None

    def least_variance(self, values: Floats, predictions: Any, weights: Floats | None) -> float:
        """The larger of two: if the probabilities were true, and with one more mistake.

        The first counts large losses as often as the probabilities say; a weight counts by its
        square, as it does in the variance of the values. The second counts one more row, whose
        class is not the most probable one: n rows cannot show that there are fewer such rows.
        """
        chances = np.maximum(predictions, LEAST)
        shares = np.ones(len(chances)) if weights is None else weights / weights.mean()
        losses = -np.log(chances)
        mean = (chances * losses).sum(1)
        own = (chances * np.square(losses)).sum(1) - np.square(mean)
        between = np.square(mean - shares @ mean / shares.sum())
        expected = float(np.square(shares) @ (own + between)) / len(mean)
        mistaken = -np.log(np.maximum(1 - chances.max(1), LEAST))
        return max(expected, variance_with_one_more(values, float(shares @ mistaken / len(mean))))

    def interval(
        self, values: Floats, error: float, stderr: float, common: float
    ) -> tuple[float, float]:
        """From the root of the error, which is nearly symmetric."""
        return error_interval(error, stderr)


class Decisions(Kind):
    """Classes without probabilities, a number for each row, judged by the share of wrong ones."""

    metric, error_name, score = "error_rate", "error rate", "accuracy"

    def given(self, takes: Takes, predictions: Any, decisions: Codes | None) -> Any:
        """Decisions alone."""
        return decisions if takes is Takes.DECISIONS else None

    def decisions(self, predictions: Any, rule: DecisionRule) -> Codes | None:
        """The predictions."""
        return np.asarray(predictions, np.int64)

    def least_variance(self, values: Floats, predictions: Any, weights: Floats | None) -> float:
        """That of a share with two right and two wrong rows added (Agresti and Coull)."""
        n = len(values)
        share = (n * min(1.0, max(0.0, float(values.mean()))) + 2) / (n + 4)
        return share * (1 - share) * n / (n + 4)

    def interval(
        self, values: Floats, error: float, stderr: float, common: float
    ) -> tuple[float, float]:
        """That of a share of rows."""
        return share_interval(min(1.0, max(0.0, error)), stderr)


class Numbers(Kind):
    """Numbers, shape (n,) or (n, m), judged by the mean squared error."""

    metric, error_name, score = "mse", "mean squared error", "r2"
    has_classes = False

    def given(self, takes: Takes, predictions: Any, decisions: Codes | None) -> Any:
        """The numbers."""
        return predictions if takes is Takes.NUMBERS else None

    def least_variance(self, values: Floats, predictions: Any, weights: Floats | None) -> float:
        """The largest loss counts once more."""
        return variance_with_one_more(values)

    def interval(
        self, values: Floats, error: float, stderr: float, common: float
    ) -> tuple[float, float]:
        """By the tail of the losses, of which a few rows may hold much."""
        if values.min() < 0 or not np.isfinite(values).all():
            return error_interval(error, stderr)
        return mean_interval(values, common)


class Counts(Numbers):
    """Expected counts, judged by the Poisson deviance."""

    metric, error_name = "poisson_deviance", "Poisson deviance"


class Proportions(Numbers):
    """Expected proportions, judged by the binomial deviance."""

    metric, error_name = "binomial_deviance", "binomial deviance"


class Answers(Probabilities):
    """Probabilities of several answers yes or no in each row, shape (n, m)."""

    def losses(self, labels: Any, predictions: Any) -> Floats:
        """The log loss of a row, the mean over its answers."""
        own = np.where(np.asarray(labels) > 0.5, predictions, 1 - predictions)
        return np.asarray(-np.log(np.maximum(own, LEAST)).mean(1))

    def given(self, takes: Takes, predictions: Any, decisions: Codes | None) -> Any:
        """Metrics with names are for one answer."""
        return None

    def decisions(self, predictions: Any, rule: DecisionRule) -> Codes | None:
        """Yes where the probability is above the threshold, shape (n, m)."""
        return np.asarray(predictions > rule.threshold, np.int64)


#: The kinds of predictions.
PROBABILITIES, DECISIONS, NUMBERS = Probabilities(), Decisions(), Numbers()
COUNTS, PROPORTIONS, ANSWERS = Counts(), Proportions(), Answers()
#: The kind of the predictions of a model, by the loss that it was fitted with.
OF_LOSS: dict[str, Kind] = {
    "squared": NUMBERS, "poisson": COUNTS, "proportion": PROPORTIONS, "logistic": PROBABILITIES,
    "cross_entropy": PROBABILITIES,
}  # fmt: skip
