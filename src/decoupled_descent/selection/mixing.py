"""The third round of the search: all fits are mixed, and the mixture's error is estimated.

The estimate is *cross-fitted*: the rows of a fold are judged by a mixture whose feature maps were
ranked, and whose weights were chosen, without them.

The standard error has two parts: the variance of the losses, widened because rare large
losses may not have occurred; and the covariance of losses, because each row is in the training set
of the models for the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.leave_out import loss_covariance
from decoupled_descent.leave_one_out.minimum import linear_minimum
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective import Objective
from decoupled_descent.selection.comparison import CorrectedError
from decoupled_descent.selection.found import (
    Candidate,
    Search,
    fitted_outputs,
    lowest,
    main,
    row_count,
)
from decoupled_descent.selection.ranking import some_rows
from decoupled_descent.selection.stacking import cross_fitted, mixed_losses, stack_weights

#: The largest number of rows whose pairs enter the standard error.
PAIRED = 1000


def combined(
    objective: Objective,
    found: Sequence[Candidate],
    folds: Tensor,
    *,
    stack: bool,
    seed: int,
    ranking: tuple[tuple[str, float], ...],
    interrupted: bool,
) -> Search:
    """Mix all fits, or take the best one without ``stack``, and estimate the error of the result.

    Fits of maps that only judge come last. ``folds`` has the fold of each row, shape (n,), and
    ``seed`` draws the rows whose pairs enter the standard error.
    """
    own = main(found)
    loss, rows = objective.loss.name, own[0].rows
    y = rows.y
    every = torch.stack([one.said for one in found])
    said = every[: len(own)]
    shares = torch.ones(rows.n, dtype=torch.float64) if rows.weights is None else rows.weights
    extra = float(shares.sum()) / row_count(rows)
    weights = stack_weights(loss, said, y, shares, extra)
    known = torch.stack([one.known for one in found], 1)
    moved = [one.without for one in found if one.without is not None]
    without = torch.stack(moved) if moved else None
    judged = cross_fitted(loss, every, y, shares, folds, extra, known, without)
    if not stack:  # the optimism of choosing one is approximated by that of choosing the weights
        chosen = min(range(len(own)), key=lambda k: own[k].error)
        curse = (judged - mixed_losses(loss, weights, said, y)) @ shares / shares.sum()
        weights = torch.zeros_like(weights)
        weights[chosen] = 1.0
        judged = mixed_losses(loss, weights, said, y) + curse.clamp_min(0)
    values = rows.averaged(judged)
    mixed = torch.einsum("f,fnk->nk", weights, said)
    variance = max(float(values.var()), _variance_of_new(loss, values, mixed, shares))
    stderr = math.sqrt(variance / len(values) + _pairs(lowest(own), seed))
    raw = float(rows.averaged(mixed_losses(loss, weights, said, y)).mean())
    error = float(values.mean())
    estimate = CorrectedError(error, stderr, error - raw)
    return Search(objective, tuple(own), weights, estimate, judged, ranking, interrupted)


def _variance_of_new(loss: str, values: Tensor, mixed: Tensor, shares: Tensor) -> float:
    """Variance of the loss of a new row, with rare large losses that may not have been seen.

    A weight counts by its square, as it does in the variance of ``values``.

    For classes, it is the variance if the stated probabilities were true. For numbers, a new loss
    is above all n that were seen with probability 1/(n + 1): the largest one counts once more.
    """
    if loss == "squared":
        return float(torch.cat([values, values.max().unsqueeze(0)]).var())
    chances = mixed.clamp_min(1e-12)
    losses = -chances.log()
    mean = (chances * losses).sum(1)
    own = (chances * losses.square()).sum(1) - mean.square()
    between = (mean - shares @ mean / shares.sum()).square()
    return float((shares / shares.mean()).square() @ (own + between)) / len(mean)


def _pairs(candidate: Candidate, seed: int) -> float:
    """Mean covariance of the left-out losses of two rows, or groups, for the best candidate."""
    rows = candidate.rows
    problem = Problem(rows, candidate.run.bound, candidate.ridge)
    some = some_rows(rows.n, PAIRED, rows.groups, seed)
    return loss_covariance(linear_minimum(problem, fitted_outputs(candidate)), some)
