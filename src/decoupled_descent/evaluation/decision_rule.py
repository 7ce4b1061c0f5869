"""The rule by which probabilities become decisions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class DecisionRule:
    """Decide for a class: for the most probable one, the middle one, or from a threshold on.

    Attributes:
        threshold: A row is given to the class to find if its probability is larger; for two
            classes only.
        positive: The number of the class to find, 0 or 1.
        ordered: Whether classes are grades in order. The median grade is then predicted, which is
            missed by the fewest grades on average.

    Example:
        >>> rule = DecisionRule(threshold=0.2)
        >>> rule.decide(np.array([[0.7, 0.3], [0.9, 0.1]])).tolist()
        [1, 0]
        >>> DecisionRule(ordered=True).decide(np.array([[0.4, 0.25, 0.35]])).tolist()
        [1]
    """

    threshold: float = 0.5
    positive: int = 1
    ordered: bool = False

    def decide(self, probabilities: Floats) -> Codes:
        """The number of the class of each row, from probabilities of shape (n, K)."""
        if self.ordered:
            return np.asarray((probabilities.cumsum(1)[:, :-1] < 0.5).sum(1), np.int64)
        if probabilities.shape[1] != 2:
            return np.asarray(probabilities.argmax(1), np.int64)
        found = probabilities[:, self.positive] > self.threshold
        return np.where(found, self.positive, 1 - self.positive).astype(np.int64)

    @property
    def is_usual(self) -> bool:
        """Whether the most probable class is chosen."""
        return self.threshold == 0.5
