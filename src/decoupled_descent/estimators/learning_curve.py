r"""The learning curve: errors at n/4, n/2 and n rows, and the expected error with 2n.

The rows are divided into four quarters and two halves, several times at random. Each part is fitted
alone, and its leave-one-out errors are computed. So every row has errors from models of n/4, n/2
and n rows. Errors are compared row by row, and their differences are far less noisy than the
errors. They are extrapolated by a power law, E(m) = a + b m^{−c}: each doubling lowers the error by
q = 2^{−c} times the decrease of the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from decoupled_descent.checks import Z95, interval
from decoupled_descent.plotting.runs import plot_learning_curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.floating[Any]]
Rows = NDArray[np.intp]

#: Exponents c that are considered: about 1 for models of few parameters, less for rich ones. Other
#: exponents would depend on single differences, which are noisy.
EXPONENTS = np.linspace(0.4, 1.2, 17)
#: Bootstrap draws of the differences for their standard error.
DRAWS = 1000
#: This share of the standard error of the present error is added to that of its change, because the
#: change also depends on how typical the present training rows are. On eight real tables of 100 to
#: 200 rows, 24 fits, the change missed by 0.7 such standard errors (root mean square).
TRAINING_SET_SHARE = 0.7
#: The fewest rows of a quarter.
LEAST = 10


@dataclass(frozen=True)
class LearningCurve:
    """Errors at n/4, n/2 and n rows, and the expected error with 2n.

    Attributes:
        rows: n/4, n/2, n and 2n.
        errors: The expected error on new rows for each size; the last is extrapolated.
        stderrs: Standard errors; that of the last includes the uncertainty of the extrapolation.
        change: Expected error with twice the rows minus the present one; at most 0.
        change_stderr: Its standard error; smaller than that of the errors, because they share their
            rows.
        error_name: The name of the error.
    """

    rows: tuple[int, ...]
    errors: tuple[float, ...]
    stderrs: tuple[float, ...]
    change: float
    change_stderr: float
    error_name: str

    @property
    def expected(self) -> float:
        """The expected error with twice the rows."""
        return self.errors[-1]

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval."""
        return interval(self.errors[-1], self.stderrs[-1])

    @property
    def table(self) -> pd.DataFrame:
        """One row per size: rows, error, stderr, and whether it was measured."""
        measured = [True, True, True, False]
        columns = {"rows": self.rows, "error": self.errors, "stderr": self.stderrs}
        return pd.DataFrame(columns | {"measured": measured})

    def plot(self) -> Figure:
        """Draw the errors with their 95 % intervals over the number of rows."""
        return plot_learning_curve(self.rows, self.errors, self.stderrs, self.error_name)

    def __str__(self) -> str:
        low, high = (self.change - Z95 * self.change_stderr, self.change + Z95 * self.change_stderr)
        return (
            f"with {self.rows[3]} rows instead of {self.rows[2]}, expect a {self.error_name} of "
            f"{self.expected:.3g} instead of {self.errors[2]:.3g}: a change of {self.change:.2g} "
            f"({low:.2g} to {min(0.0, high):.2g})"
        )


def measured_losses(
    judge: Callable[[Rows], Floats], codes: Rows, strata: Rows, repeats: int, seed: int
) -> Floats:
    """Losses of the rows under models of n/4, n/2 and n rows, shape (3, n).

    ``judge`` returns the leave-one-out losses of a part that is fitted alone. Rows with the same
    code stay together, and every part gets its share of each stratum.
    """
    losses = np.zeros((3, len(codes)))
    losses[2] = judge(np.arange(len(codes)))
    generator = np.random.default_rng(seed)
    for _ in range(repeats):
        quarters = _quarters(codes, strata, generator)
        for place, parts in ((0, quarters), (1, quarters // 2)):
            for part in np.unique(parts):
                rows = np.flatnonzero(parts == part)
                losses[place, rows] += judge(rows) / repeats
    return losses


def _quarters(codes: Rows, strata: Rows, generator: np.random.Generator) -> Rows:
    """A number from 0 to 3 for each row; groups stay whole, classes are divided evenly."""
    groups, first = np.unique(codes, return_index=True)
    order = generator.permutation(len(groups))
    order = order[np.argsort(strata[first][order], kind="stable")]
    quarters = np.empty(len(groups), dtype=np.intp)
    quarters[order] = np.arange(len(groups)) % 4
    result: Rows = quarters[np.searchsorted(groups, codes)]
    smallest = min(len(np.unique(strata[result == part])) for part in range(4))
    if smallest < len(np.unique(strata)) or min(np.bincount(result)) < LEAST:
        raise ValueError(
            f"a quarter of the {len(codes)} rows has fewer than {LEAST} rows or lacks a class; a "
            "learning curve needs at least 40 rows, and four rows or groups of every class"
        )
    return result


def extrapolated(means: Floats, precisions: Floats) -> Floats:
    """The change of the error by the next doubling, (B,), for errors at n/4, n/2 and n, (B, 3).

    The decreases D₁ and D₂ are fitted by A and Aq with A ≥ 0, for all exponents c. The best fit
    predicts the next decrease, Aq². ``precisions`` are the inverse variances of D₁ and D₂. Errors
    stay positive for any number of rows: the next one is at least q times the last.
    """
    falls = means[:, :2] - means[:, 1:]
    shapes = np.stack([np.ones_like(EXPONENTS), 2.0**-EXPONENTS])  # (2, C)
    sizes = (falls * precisions) @ shapes / (precisions @ shapes**2)
    sizes = np.maximum(sizes, 0)  # (B, C)
    misses = ((falls[:, :, None] - sizes[:, None] * shapes) ** 2 * precisions[:, None]).sum(1)
    best = misses.argmin(1)
    rates = 2.0 ** -EXPONENTS[best]
    falls_next = sizes[np.arange(len(sizes)), best] * rates**2
    changes: Floats = -np.minimum(falls_next, (1 - rates) * np.maximum(means[:, 2], 0))
    return changes


def learning_curve(
    losses: Floats, codes: Rows, shares: Floats, now: tuple[float, float], name: str, seed: int
) -> LearningCurve:
    """Average row losses (3, n) and extrapolate, with standard errors.

    ``now`` is the model's own estimate at n rows, with its standard error. The model is a mixture
    and better than the single features used here, so all errors are multiplied to agree with it.
    """
    weights = shares / shares.sum()
    means = losses @ weights
    pulls = np.stack([np.bincount(codes, row) for row in (losses - means[:, None]) * weights])
    steps = pulls[:2] - pulls[1:]
    precisions = 1 / np.maximum((steps**2).sum(1), 1e-30)
    generator = np.random.default_rng(seed)
    drawn = means + generator.normal(size=(DRAWS, pulls.shape[1])) @ pulls.T
    scale = now[0] / means[2] if means[2] > 0 else 0.0
    change = scale * float(extrapolated(means[None], precisions)[0])
    drawn = drawn[drawn[:, 2] > 0] if means[2] > 0 else means[None]
    spread = now[0] * float((extrapolated(drawn, precisions) / drawn[:, 2].clip(1e-300)).std())
    doubt = math.hypot(spread, TRAINING_SET_SHARE * now[1])
    errors = scale * means
    rises = [scale * float(np.linalg.norm(pulls[k] - pulls[2])) for k in range(3)]
    stderrs = [math.hypot(now[1], rise) for rise in rises]
    n = losses.shape[1]
    return LearningCurve(
        (n // 4, n // 2, n, 2 * n),
        (*errors.tolist(), now[0] + change),
        (*stderrs, math.hypot(now[1], doubt)),
        change,
        doubt,
        name,
    )
