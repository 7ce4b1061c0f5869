"""The third round of the search: all fits are mixed, and the mixture's error is estimated.

The estimate is *cross-fitted*: the rows of a fold are predicted by a mixture whose feature maps
were ranked, and whose weights were chosen, without them.

The standard error has two parts: the variance of the losses, widened because rare large
losses may not have occurred; and the covariance of losses, because each row is in the training set
of the models for the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from decoupled_descent.leave_one_out.leave_out import loss_covariance
from decoupled_descent.leave_one_out.minimum import linear_minimum
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective import Objective
from decoupled_descent.objective.losses import LEAST, Loss
from decoupled_descent.selection.comparison import CorrectedError
from decoupled_descent.selection.decisions import right_decisions
from decoupled_descent.selection.fits import (
    CandidateFit,
    SearchResult,
    fitted_outputs,
    lowest_error,
    row_count,
    selected_fits,
)
from decoupled_descent.selection.ranking import some_rows
from decoupled_descent.selection.stacking import (
    cross_fitted_choice,
    cross_fitted_weights,
    mixed_losses,
    stack_weights,
)

#: The largest number of rows whose pairs enter the standard error.
PAIRED = 1000


def mix(
    objective: Objective,
    fits: Sequence[CandidateFit],
    folds: Tensor,
    *,
    stack: bool,
    seed: int,
    ranking: tuple[tuple[str, float], ...],
    interrupted: bool,
) -> SearchResult:
    """Mix all fits, or take the best one without ``stack``, and estimate the error of the result.

    Fits of maps that only serve the cross-fit come last. ``folds`` has the fold of each row, shape
    (n,), and ``seed`` draws the rows whose pairs enter the standard error.
    """
    own = selected_fits(fits)
    loss, rows = objective.loss, own[0].rows
    y = rows.y
    every = torch.stack([one.predictions for one in fits])
    predictions = every[: len(own)]
    shares = torch.ones(rows.n, dtype=torch.float64) if rows.weights is None else rows.weights
    extra = float(shares.sum()) / row_count(rows)
    selected = torch.stack([one.selected for one in fits], 1)
    nested = [one.fold_predictions for one in fits if one.fold_predictions is not None]
    without = torch.stack(nested) if nested else None
    if stack:
        weights = stack_weights(loss, predictions, y, shares, extra)
        by_row = cross_fitted_weights(loss, every, y, shares, folds, extra, selected, without)
    else:
        best = min(range(len(own)), key=lambda k: own[k].error)
        weights = one_hot(torch.tensor(best), len(own)).to(predictions)
        by_row = cross_fitted_choice(loss, every, y, shares, folds, selected, without)
    cross_fitted = torch.einsum("nf,fnk->nk", by_row, every)
    losses = loss.of_predictions(cross_fitted, y)
    values = rows.averaged(losses)
    mixed = torch.einsum("f,fnk->nk", weights, predictions)
    variance = max(float(values.var()), variance_of_new(loss, values, mixed, shares))
    alone = variance / len(values)
    stderr = math.sqrt(alone + _pair_covariance(lowest_error(own), seed))
    raw = float(rows.averaged(mixed_losses(loss, weights, predictions, y)).mean())
    error = float(values.mean())
    estimate = CorrectedError(error, stderr, error - raw)
    right = right_decisions(fits, by_row) if loss.classes(y) is not None else None
    codes = torch.unique(by_row, dim=0, return_inverse=True)[1]
    own = [one._replace(variation=None) for one in own]  # of no further use
    return SearchResult(
        objective,
        tuple(own),
        weights,
        estimate,
        losses,
        cross_fitted,
        right,
        stderr / max(math.sqrt(alone), 1e-300),
        codes,
        ranking,
        interrupted,
    )


def variance_of_new(
    loss: Loss, values: Tensor, mixed: Tensor | None = None, shares: Tensor | None = None
) -> float:
    """Variance of the loss of a new row, with rare large losses that may not have occurred.

    For classes, it is the variance if the predicted probabilities ``mixed``, shape (n, C), were
    true; a weight in ``shares`` counts by its square, as it does in the variance of ``values``. For
    numbers, a new loss exceeds all n observed ones with probability 1/(n + 1): the largest one
    counts once more.
    """
    if not loss.has_classes or mixed is None or shares is None:
        return float(torch.cat([values, values.max().unsqueeze(0)]).var())
    chances = mixed.clamp_min(LEAST)
    losses = -chances.log()
    mean = (chances * losses).sum(1)
    own = (chances * losses.square()).sum(1) - mean.square()
    between = (mean - shares @ mean / shares.sum()).square()
    return float((shares / shares.mean()).square() @ (own + between)) / len(mean)


def _pair_covariance(fit: CandidateFit, seed: int) -> float:
    """Mean covariance of the left-out losses of two rows, or groups, for the best fit."""
    rows = fit.rows
    problem = Problem(rows, fit.run.bound, fit.ridge)
    some = some_rows(rows.n, PAIRED, rows.groups, seed)
    return loss_covariance(linear_minimum(problem, fitted_outputs(fit)), some)
