"""The third round of the search: all fits are mixed, and the mixture's error is estimated.

The estimate is *cross-fitted*: the rows of a fold are predicted by a mixture whose feature maps
were ranked, and whose weights were chosen, without them.

The standard error of the estimate has two parts (:class:`Evaluation`): the variance of the losses,
and their covariance, because each row is in the training set of the models for the others. The
second one is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from decoupled_descent.leave_one_out.leave_out import loss_covariance
from decoupled_descent.leave_one_out.minimum import linear_minimum
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective import Objective
from decoupled_descent.objective.links import LEAST
from decoupled_descent.objective.losses import Loss
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.members.interface import MemberFit, TrainingTable
from decoupled_descent.tables.search.decisions import right_decisions
from decoupled_descent.tables.search.fits import (
    CandidateFit,
    SearchResult,
    fitted_outputs,
    lowest_error,
    row_count,
    selected_fits,
)
from decoupled_descent.tables.search.ranking import some_rows
from decoupled_descent.tables.search.stacking import (
    cross_fitted_choice,
    cross_fitted_weights,
    stack_weights,
)

#: The largest number of rows whose pairs enter the standard error. With 1,000 it changes by at most
#: 4 %, and takes a 16th of the time of a fit with four classes.
PAIRED = 400


class Pool(NamedTuple):
    """The candidates of a mixture: all Newton fits, then the others."""

    predictions: Tensor  # of rows that a candidate has not seen, shape (F, n, C)
    excess: Tensor  # variance of these predictions in excess of the model's, shape (F, n, C)
    selected: Tensor  # the candidates that the mixture of each fold may use, shape (folds + 1, F)
    without: Tensor | None  # predictions with each fold left out as well, (F, folds, n, C)
    prior: Tensor  # 1 for candidates with a part in the prior, shape (F,)
    reference: int | None  # the candidate that mixtures are drawn towards

    @classmethod
    def of(cls, fits: Sequence[CandidateFit], others: Sequence[MemberFit]) -> Pool:
        """Stack the candidates.

        The predictions of others without a fold are those with it: their honest predictions
        depend on a single further row only weakly.
        """
        given = [one.predictions for one in fits] + [one.predictions for one in others]
        predictions = torch.stack(given)
        excess = torch.zeros_like(predictions)
        for place, other in enumerate(others, len(fits)):
            excess[place] = other.excess
        chosen = [one.selected for one in fits]
        always = torch.ones_like(chosen[0])
        chosen += [always if one.selected is None else one.selected for one in others]
        without = None
        if all(one.fold_predictions is not None for one in fits):
            nested = [one.fold_predictions for one in fits if one.fold_predictions is not None]
            nested += [one.predictions.expand_as(nested[0]) for one in others]
            without = torch.stack(nested)
        prior = torch.tensor([1.0] * len(fits) + [0.0] * len(others), dtype=torch.float64)
        references = [k for k, one in enumerate(others, len(fits)) if one.is_reference]
        reference = references[0] if references else None
        return cls(predictions, excess, torch.stack(chosen, 1), without, prior, reference)


def mix(
    objective: Objective,
    fits: Sequence[CandidateFit],
    folds: Tensor,
    *,
    stack: bool,
    seed: int,
    ranking: tuple[tuple[str, float], ...],
    interrupted: bool,
    others: Sequence[MemberFit] = (),
    table: TrainingTable | None = None,
) -> SearchResult:
    """Mix all candidates, or take the best fit without ``stack``, and estimate the error.

    Fits of maps that only serve the cross-fit come last. ``folds`` has the fold of each row, shape
    (n,), and ``seed`` draws the rows whose pairs enter the standard error. ``others`` are members
    that are not Newton fits, trained on the rows of ``table``.
    """
    own = selected_fits(fits)
    loss, rows = objective.loss, own[0].rows
    pool = Pool.of(fits, others)
    weights, by_row = _weights(loss, own, pool, folds, stack)
    cross_fitted = torch.einsum("nf,fnk->nk", by_row, pool.predictions)
    excess = torch.einsum("nf,fnk->nk", by_row.square(), pool.excess)
    losses = loss.of_predictions(cross_fitted, rows.y)
    losses = losses - excess_loss(loss, excess, cross_fitted, rows.y)
    in_model = pool.predictions[: len(own)]
    if stack:
        in_model = pool.predictions[pool.selected[-1]]
    mixed = torch.einsum("f,fnk->nk", weights, in_model)
    # the constant part of a mixture does not respond to other rows
    varying = 1.0 if pool.reference is None else 1 - float(by_row[:, pool.reference].mean())
    pairs = varying**2 * max(0.0, _pair_covariance(lowest_error(own), seed))
    raw = rows.averaged(loss.of_predictions(mixed, rows.y)).mean()
    right = None
    if loss.classes(rows.y) is not None:
        constant = None if pool.reference is None else pool.reference - len(fits)
        right = right_decisions(fits, by_row, [one.predictions for one in others], constant)
    return SearchResult(
        objective,
        tuple(one._replace(variation=None) for one in own),  # which is of no further use
        tuple(one for one in others if one.selected is None or one.selected[-1]),
        weights,
        losses,
        cross_fitted,
        excess,
        right,
        pairs,
        float(rows.averaged(losses).mean() - raw),
        torch.unique(by_row, dim=0, return_inverse=True)[1],
        ranking,
        interrupted,
        folds,
        table,
    )


def _shares(rows: Rows) -> Tensor:
    """How much each row counts."""
    return torch.ones(rows.n, dtype=torch.float64) if rows.weights is None else rows.weights


def _weights(
    loss: Loss, own: Sequence[CandidateFit], pool: Pool, folds: Tensor, stack: bool
) -> tuple[Tensor, Tensor]:
    """Weights of the model, and of the mixture that predicts each row, shape (n, F)."""
    rows, (every, _, selected, without, prior, reference) = own[0].rows, pool
    shares, y = _shares(rows), rows.y
    if not stack:
        best = min(range(len(own)), key=lambda k: own[k].error)
        weights = one_hot(torch.tensor(best), len(own)).to(every)
        return weights, cross_fitted_choice(loss, every, y, shares, folds, selected, without)
    extra = float(shares.sum()) / row_count(rows)
    kept = pool.selected[-1]
    place = None if reference is None else int(kept[:reference].sum())
    weights = stack_weights(loss, every[kept], y, shares, extra, prior[kept], place)
    given = shares, folds, extra, selected, without, prior, reference
    return weights, cross_fitted_weights(loss, every, y, *given)


def excess_loss(loss: Loss, excess: Tensor, predictions: Tensor, y: Tensor) -> Tensor:
    r"""How much too large losses are because predictions have excess variance, shape (n,).

    To second order it is ½ v ℓ'' with the variance v of the predictions. For a class of probability
    p that is ½ v/p², here ½ log(1 + v/p²), which is finite for small p too. For numbers ℓ'' is on
    average one over the variance that the loss assumes.

    Args:
        loss: The loss.
        excess: v, shape (n, C).
        predictions: The predictions of the mixture, shape (n, C).
        y: Labels.
    """
    if not loss.has_classes:
        return (excess / loss.variance(predictions)).sum(1) / 2
    index = y.long().reshape(-1, 1)
    own, chance = (each.gather(1, index).squeeze(1) for each in (excess, predictions))
    return torch.log1p(own / chance.clamp_min(LEAST).square()) / 2


def _pair_covariance(fit: CandidateFit, seed: int) -> float:
    """Mean covariance of the left-out losses of two rows, or groups, for the best fit."""
    rows = fit.rows
    problem = Problem(rows, fit.run.bound, fit.ridge)
    some = some_rows(rows.n, PAIRED, rows.groups, seed)
    return loss_covariance(linear_minimum(problem, fitted_outputs(fit)), some)
