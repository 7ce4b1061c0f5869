"""Calibration: predicted probabilities beside observed frequencies."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from decoupled_descent.evaluation.evaluation import Evaluation

Floats = NDArray[np.floating[Any]]

#: The most bins, and the fewest rows in each.
BINS, LEAST = 10, 20


@dataclass(frozen=True)
class Calibration:
    r"""Leave-one-out probabilities of the rows, and how often the class was the right one.

    With two classes these are the probabilities of the second class; with more, those of the most
    probable class of each row. Rows are sorted by them into bins of about equal size.

    Attributes:
        stated: Mean predicted probability in each bin.
        seen: The observed frequency: how often the class was the right one.
        count: Rows in each bin.
        error: The expected calibration error, Σ_b share_b abs(seen_b − stated_b).
        stderr: Its standard error.
        chance: Its expectation if all probabilities were perfect; above 0, because bins are
            finite.
    """

    stated: tuple[float, ...]
    seen: tuple[float, ...]
    count: tuple[int, ...]
    error: float
    stderr: float
    chance: float

    @property
    def table(self) -> pd.DataFrame:
        """One row per bin: stated, seen, count."""
        return pd.DataFrame({"stated": self.stated, "seen": self.seen, "count": self.count})

    @property
    def calibrated(self) -> bool:
        """Whether the error is at most two standard errors above its expectation by chance."""
        return self.error <= self.chance + 2 * self.stderr

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


def reliability(evaluation: Evaluation) -> Calibration:
    """Compare predicted probabilities with observed frequencies.

    Args:
        evaluation: Probabilities of classes with their labels.

    Returns:
        The table by bins and the expected calibration error.

    Example:
        >>> from decoupled_descent.evaluation import Evaluation
        >>> chances = np.repeat([[0.75, 0.25]], 40, axis=0)
        >>> result = reliability(Evaluation.of(np.arange(40) % 2, chances))
        >>> result.count, round(result.error, 6)
        ((40,), 0.25)
    """
    chances, codes, groups = evaluation.predictions, evaluation.labels, evaluation.groups
    n, classes = chances.shape
    chosen = np.ones(n, dtype=int) if classes == 2 else chances.argmax(1)
    stated, seen = chances[np.arange(n), chosen], (codes == chosen).astype(float)
    shares = evaluation.row_weights / evaluation.row_weights.sum()
    bins = _bins(stated)
    sizes = np.bincount(bins, shares)
    means = [np.bincount(bins, shares * values) / sizes for values in (stated, seen)]
    gaps = means[1] - means[0]
    pulls = shares * np.sign(gaps)[bins] * (seen - stated - gaps[bins])
    doubt = np.bincount(bins, shares**2 * stated * (1 - stated))  # if the probabilities are perfect
    return Calibration(
        tuple(means[0].tolist()),
        tuple(means[1].tolist()),
        tuple(np.bincount(bins).tolist()),
        float(sizes @ np.abs(gaps)),
        float(np.sqrt(_group_sums(pulls, groups) @ _group_sums(pulls, groups))),
        float(math.sqrt(2 / math.pi) * np.sqrt(doubt).sum()),
    )


def _bins(stated: Floats) -> NDArray[np.intp]:
    """Bins of about equal size; equal probabilities are in the same one."""
    count = max(1, min(BINS, len(stated) // LEAST))
    limits = np.quantile(stated, np.arange(1, count) / count)
    _, bins = np.unique(np.searchsorted(limits, stated), return_inverse=True)
    return bins.reshape(-1)


def _group_sums(values: Floats, groups: NDArray[Any] | None) -> Floats:
    return values if groups is None else np.bincount(groups, values).astype(float)
