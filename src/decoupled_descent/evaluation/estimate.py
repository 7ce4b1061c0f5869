"""A metric on new rows with its standard error and interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: A metric by its name, a function of labels and predictions, or a metric of torchmetrics.
Metric = str | Callable[..., Any]


@dataclass(frozen=True)
class Estimate:
    """A metric on rows that the model did not see.

    Attributes:
        value: The metric of all rows.
        stderr: Its standard error.
        interval: Its 95 % interval.
        metric: Its name.
        units: How many rows, groups or blocks it was computed from.
        verdict: "trust", "caution" or "do not trust".
        reasons: Why it is no other, in sentences.

    Example:
        >>> print(Estimate(0.75, 0.02, (0.71, 0.79), "accuracy", 400))
        accuracy 0.75 ± 0.02 (trust)
    """

    value: float
    stderr: float
    interval: tuple[float, float]
    metric: str
    units: int
    verdict: str = "trust"
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.metric} {self.value:.4g} ± {self.stderr:.2g} ({self.verdict})"

    def __float__(self) -> float:
        """The value."""
        return self.value
