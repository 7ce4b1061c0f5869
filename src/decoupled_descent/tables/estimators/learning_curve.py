r"""The learning curve: errors at n/4, n/2, 3n/4 and n rows, and the expected error with 2n.

The rows are divided into four quarters, several times at random. Models of one, two and three
quarters follow from the fits to all rows by formula
(:mod:`decoupled_descent.leave_one_out.fewer_rows`), and predict the other quarters. So every row
has errors from models of n/4, n/2, 3n/4 and, with itself left out, n rows. Errors are compared row
by row, and their differences are far less noisy than the errors. They are extrapolated by a power
law, E(m) = a + b m^{−c}.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.checks import interval
from decoupled_descent.leave_one_out.fewer_rows import outputs_without
from decoupled_descent.leave_one_out.newton import NewtonState
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.plotting.runs import plot_learning_curve
from decoupled_descent.tables.search.fits import (
    CandidateFit,
    SearchResult,
    row_count,
    smoothed_predictions,
)
from decoupled_descent.tables.search.stacking import stack_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.floating[Any]]
Rows = NDArray[np.intp]

#: The shares of the rows at which errors are computed.
SHARES = (0.25, 0.5, 0.75, 1.0)
#: The quarters that models are trained on, for all shares but the last.
KEPT = (((0,), (1,), (2,), (3,)), ((0, 1), (2, 3)), ((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)))
#: Exponents c that are considered: about 1 for models of few parameters, less for rich ones. Other
#: exponents would depend on single differences, which are noisy.
EXPONENTS = np.linspace(0.4, 1.2, 17)
#: Bootstrap draws of the differences for their standard error.
DRAWS = 1000
#: This share of the standard error of the present error is added to that of its change, because the
#: change also depends on how typical the present training rows are for their number. The error with
#: twice the rows does not. Chosen on the records of studies/learning_curves.py, where changes
#: miss by 1.1 standard errors with 0.5, and by 0.8 with 0.7 (root mean square).
TRAINING_SET_SHARE = 0.6
#: The fewest rows of a quarter.
LEAST = 10


@dataclass(frozen=True)
class LearningCurve:
    """Errors at n/4, n/2, 3n/4 and n rows, and the expected error with 2n.

    Attributes:
        rows: n/4, n/2, 3n/4, n and 2n.
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
        measured = [True] * len(SHARES) + [False]
        columns = {"rows": self.rows, "error": self.errors, "stderr": self.stderrs}
        return pd.DataFrame(columns | {"measured": measured})

    def plot(self) -> Figure:
        """Draw the errors with their 95 % intervals over the number of rows."""
        return plot_learning_curve(self.rows, self.errors, self.stderrs, self.error_name)

    def __str__(self) -> str:
        low, high = interval(self.change, self.change_stderr)
        return (
            f"with {self.rows[-1]} rows instead of {self.rows[-2]}, expect a {self.error_name} of "
            f"{self.expected:.3g} instead of {self.errors[-2]:.3g}: a change of {self.change:.2g} "
            f"({low:.2g} to {min(0.0, high):.2g})"
        )


def measured_losses(
    result: SearchResult,
    row_losses: Callable[[Tensor], Tensor],
    divisions: Sequence[Rows],
    stack: bool,
) -> Floats:
    """Losses of the rows under models of n/4, n/2, 3n/4 and n rows, shape (4, n).

    A division has a number from 0 to 3 for each row, its quarter. Models are trained on one quarter
    and on three, in all ways, and on the two halves, always by formula from the fits to all rows.
    At each number of rows, the mixture of the fits is chosen anew. ``row_losses`` returns the
    losses of predictions of all rows, shape (n, C).
    """
    n, fits = len(result.losses), result.fits
    losses = np.zeros((4, n))
    outputs = torch.stack([one.predictions for one in fits])
    losses[3] = row_losses(_mixed(result, outputs.unsqueeze(1), stack)[0])
    for place, kept in enumerate(KEPT):
        sets = [
            torch.from_numpy(np.flatnonzero(~np.isin(quarters, one)))
            for quarters in divisions
            for one in kept
        ]
        predictions = torch.stack([_predictions(one, sets) for one in fits])  # (F, sets, n, C)
        unseen = np.zeros(n)
        for out, mixed in zip(sets, _mixed(result, predictions, stack), strict=True):
            losses[place, out] += row_losses(mixed).numpy()[out]
            unseen[out] += 1
        losses[place] /= unseen
    return losses


def _predictions(fit: CandidateFit, sets: Sequence[Tensor]) -> Tensor:
    """Predictions of each set by the fit without it, (sets, n, C); those of other rows are NaN."""
    rows, run = fit.rows, fit.run
    problem = Problem(rows, run.bound, fit.ridge)
    every = torch.full((len(sets), *fit.predictions.shape), math.nan, dtype=torch.float64)
    state: NewtonState = run.state
    for one, out, outputs in zip(
        every, sets, outputs_without(problem, state.theta, state.head, sets), strict=True
    ):
        count = row_count(rows) * (1 - len(out) / rows.n)
        one[out] = smoothed_predictions(run.objective.loss, outputs, count)
    rows.kept.clear()
    return every


def _mixed(result: SearchResult, predictions: Tensor, stack: bool) -> Tensor:
    """The mixture with the lowest loss for predictions (F, sets, n, C), shape (sets, n, C)."""
    loss, rows = result.objective.loss, result.best.rows
    at = ~predictions[0, :, :, 0].isnan()  # the rows that a set predicts
    given, y = predictions[:, at], rows.y.expand(len(at), *rows.y.shape)[at]
    weights = torch.ones(rows.n, dtype=torch.float64) if rows.weights is None else rows.weights
    shares = weights.expand(len(at), -1)[at] * (rows.n / len(y))  # each row counts once
    if stack:
        mixture = stack_weights(loss, given, y, shares, float(shares.sum()) / row_count(rows))
    else:
        errors = [float(shares @ loss.of_predictions(one, y)) for one in given]
        mixture = torch.eye(len(errors), dtype=torch.float64)[int(np.argmin(errors))]
    return torch.einsum("f,fsnc->snc", mixture, predictions)


def random_quarters(codes: Rows, strata: Rows, generator: np.random.Generator) -> Rows:
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
    """The change of the error by doubling n, (B,), for errors at ``SHARES`` of n rows, (B, S).

    The decreases D_k from one share to the next are fitted by A (f_k^{−c} − f_{k+1}^{−c}) with A ≥
    0, for all exponents c. The best fit predicts the next decrease, A (1 − 2^{−c}). ``precisions``
    are the inverse variances of D. Errors stay positive for any number of rows: the next one is at
    least 2^{−c} times the last.
    """
    falls = means[:, :-1] - means[:, 1:]
    powers = np.array(SHARES)[:, None] ** -EXPONENTS
    shapes = powers[:-1] - powers[1:]  # (S − 1, C)
    sizes = (falls * precisions) @ shapes / (precisions @ shapes**2)
    sizes = np.maximum(sizes, 0)  # (B, C)
    misses = ((falls[:, :, None] - sizes[:, None] * shapes) ** 2 * precisions[:, None]).sum(1)
    best = misses.argmin(1)
    rates = 2.0 ** -EXPONENTS[best]
    falls_next = sizes[np.arange(len(sizes)), best] * (1 - rates)
    changes: Floats = -np.minimum(falls_next, (1 - rates) * np.maximum(means[:, -1], 0))
    return changes


def learning_curve(
    losses: Floats, codes: Rows, shares: Floats, now: tuple[float, float], name: str, seed: int
) -> LearningCurve:
    """Average row losses (4, n) and extrapolate, with standard errors.

    ``now`` is the model's own estimate at n rows, with its standard error. The model is a mixture
    and better than the single features used here, so all errors are multiplied to agree with it.
    """
    weights = shares / shares.sum()
    means = losses @ weights
    pulls = np.stack([np.bincount(codes, row) for row in (losses - means[:, None]) * weights])
    steps = pulls[:-1] - pulls[1:]
    precisions = 1 / np.maximum((steps**2).sum(1), 1e-30)
    generator = np.random.default_rng(seed)
    drawn = means + generator.normal(size=(DRAWS, pulls.shape[1])) @ pulls.T
    scale = now[0] / means[-1] if means[-1] > 0 else 0.0
    change = scale * float(extrapolated(means[None], precisions)[0])
    drawn = drawn[drawn[:, -1] > 0] if means[-1] > 0 else means[None]
    spread = now[0] * float((extrapolated(drawn, precisions) / drawn[:, -1].clip(1e-300)).std())
    doubt = math.hypot(spread, TRAINING_SET_SHARE * now[1])
    errors = scale * means
    rises = [scale * float(np.linalg.norm(one - pulls[-1])) for one in pulls]
    stderrs = [math.hypot(now[1], rise) for rise in rises]
    n = losses.shape[1]
    return LearningCurve(
        (*(round(share * n) for share in SHARES), 2 * n),
        (*errors.tolist(), now[0] + change),
        (*stderrs, math.hypot(now[1], spread)),
        change,
        doubt,
        name,
    )
