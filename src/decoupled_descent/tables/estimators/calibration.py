"""Calibration of leave-one-out probabilities, and standard errors of shares of rows."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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


def reliability(
    chances: Floats,
    codes: NDArray[Any],
    weights: Floats | None = None,
    groups: NDArray[Any] | None = None,
) -> Calibration:
    """Compare predicted probabilities with observed frequencies.

    Args:
        chances: Probabilities of all classes, shape (n, K).
        codes: The index of the right class of each row, shape (n,).
        weights: The weight of each row; equal by default.
        groups: The group of each row, a whole number; errors within a group are not independent.

    Returns:
        The table by bins and the expected calibration error.

    Example:
        >>> chances = np.repeat([[0.75, 0.25]], 40, axis=0)
        >>> result = reliability(chances, np.arange(40) % 2)
        >>> result.count, round(result.error, 6)
        ((40,), 0.25)
    """
    n, classes = chances.shape
    chosen = np.ones(n, dtype=int) if classes == 2 else chances.argmax(1)
    stated, seen = chances[np.arange(n), chosen], (codes == chosen).astype(float)
    shares = np.ones(n) / n if weights is None else weights / weights.sum()
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


def share_of(
    right: NDArray[np.bool_],
    weights: Floats | None = None,
    groups: NDArray[Any] | None = None,
    expected: Floats | None = None,
) -> tuple[float, float]:
    r"""A share of rows and its standard error, which is above 0 even if all are right.

    ``expected`` is a better guess of how often each row is right, shape (n,). Its mean replaces the
    share; the standard error follows from what was counted.

    The variance of the share p is Σ_g (Σ_{i∈g} s_i (r_i − p))², with shares s of the weight and
    groups g. It equals that of m = p(1 − p)/variance independent rows. Two right and two wrong rows
    are added to them (Agresti and Coull). If all rows agree, m is (Σ_g s_g)²/Σ_g s_g².
    """
    shares = np.full(len(right), 1 / len(right)) if weights is None else weights / weights.sum()
    share = float(np.average(right, weights=weights))
    variance = float((_group_sums(shares * (right - share), groups) ** 2).sum())
    alone = 1 / float((_group_sums(shares, groups) ** 2).sum())
    rows = min(share * (1 - share) / variance, 1 / float(shares @ shares)) if variance else alone
    if expected is not None:
        share = min(1.0, max(0.0, float(np.average(expected, weights=weights))))
    towards = (rows * share + 2) / (rows + 4)
    return share, math.sqrt(towards * (1 - towards) / (rows + 4))
