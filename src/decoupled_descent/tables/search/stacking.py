r"""Mixtures of candidates, chosen by their predictions of left-out rows."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from decoupled_descent.objective.links import LEAST
from decoupled_descent.objective.losses import Loss
from decoupled_descent.tables.search.shrinkage import towards_reference

#: The number of folds: weights are chosen on all but one and evaluated on that one.
FOLDS = 20
#: The most steps of expectation-maximisation, and the change at which it ends.
STEPS, SETTLED = 300, 1e-5
#: Least squares are weighted again so often; each time is a step of Fisher scoring.
REWEIGHTED = 8
#: A candidate without a part in the prior whose weight is below this is left out of the mixture: it
#: would take time and change nothing.
NEGLIGIBLE = 1e-3


def stack_weights(
    loss: Loss,
    predictions: Tensor,
    y: Tensor,
    shares: Tensor,
    extra: float = 1.0,
    prior: Tensor | None = None,
    reference: int | None = None,
) -> Tensor:
    r"""Weights of a mixture with the lowest loss on rows that its members have not seen.

    For numbers, those that minimise Σ_i s_i (y_i − Σ_f w_f o_fi)² / V_i, non-negative with sum 1:
    V_i is the variance that the loss assumes, at the mixture itself (:func:`number_weights`). For
    classes, those that maximise

    .. math:: \sum_i s_i \log \sum_f w_f\, p_f(y_i) + \frac{e}{F} \sum_f \log w_f

    by expectation-maximisation. The second term is a Dirichlet prior: it adds one row of weight e
    that all candidates predict equally well. Without it, a sample without errors would give all
    weight to the candidate with the most extreme probabilities. With it, every candidate has a
    weight of at least about 1/(nF). Candidates without a part in this prior have a weight only if
    rows support it; one below ``NEGLIGIBLE`` is 0.

    Args:
        loss: The loss.
        predictions: The leave-one-out predictions of F candidates, shape (F, n, K).
        y: Labels, shape (n,), or targets, shape (n, K).
        shares: s, how much each row counts, shape (n,).
        extra: e, how much one row counts on average.
        prior: 1 for candidates that have a part in the prior, else 0, shape (F,); all by default.
        reference: A candidate that the mixture is drawn towards (:mod:`shrinkage`), for classes.

    Returns:
        w, shape (F,).

    Example:
        >>> from decoupled_descent.objective.losses import get_loss
        >>> p = torch.tensor([[[0.9, 0.1], [0.8, 0.2]], [[0.5, 0.5], [0.5, 0.5]]])
        >>> y, shares = torch.tensor([0, 0]), torch.ones(2)
        >>> stack_weights(get_loss("logistic"), p, y, shares).round(decimals=2)
        tensor([0.7000, 0.3000])
    """
    if not loss.has_classes:
        return number_weights(loss, predictions, y, shares)
    own = _label_probabilities(predictions, y).clamp_min(LEAST).unsqueeze(0)
    every = torch.ones(1, len(predictions), dtype=torch.bool)
    return _maximum_likelihood(own, shares.unsqueeze(0), extra, every, prior, reference)[0]


def _maximum_likelihood(
    own: Tensor,
    shares: Tensor,
    extra: float,
    usable: Tensor,
    prior: Tensor | None,
    reference: int | None,
) -> Tensor:
    """Weights of several mixtures at once, shape (B, F), by expectation-maximisation.

    ``own`` has the probability of each row's own class, shape (B or 1, F, n), ``shares`` how much
    each row counts, (B, n), and ``usable`` the candidates that each mixture may have, (B, F).
    """
    equal = usable.to(own) / usable.sum(1, keepdim=True)
    assumed = equal if prior is None else equal * prior
    assumed = assumed / assumed.sum(1, keepdim=True)
    weights, total = equal, shares.sum(1, keepdim=True)
    for _ in range(STEPS):
        chances = (weights.unsqueeze(1) @ own).squeeze(1)
        counted = weights * (own @ (shares / chances).unsqueeze(2)).squeeze(2)
        following = (counted + extra * assumed) / (total + extra)
        moved = float((following - weights).abs().max())
        weights = following
        if moved < SETTLED:
            break
    weights = weights.masked_fill((weights < NEGLIGIBLE) & (assumed == 0), 0.0)
    weights = weights / weights.sum(1, keepdim=True)
    if reference is None:
        return weights
    return towards_reference(weights, own, shares, extra, reference)


def number_weights(loss: Loss, predictions: Tensor, y: Tensor, shares: Tensor) -> Tensor:
    """Weights of a mixture of numbers with the lowest loss, by reweighted least squares.

    The slope of half of a deviance is (μ − y)/V(μ), so that at the end no other weights are better.
    """
    weights = least_squares_weights(predictions, y, shares)
    if loss.link is None:
        return weights
    for _ in range(REWEIGHTED):
        mixed = torch.einsum("f,fnk->nk", weights, predictions)
        weights = least_squares_weights(predictions, y, shares / loss.variance(mixed).squeeze(1))
    return weights


def least_squares_weights(predictions: Tensor, y: Tensor, shares: Tensor) -> Tensor:
    """Weights of a mixture by non-negative least squares with a heavy row: their sum is 1."""
    from scipy.optimize import nnls

    # the residual of the mixture is the mixture of these residuals
    residuals = y.reshape(predictions.shape[1:]).to(predictions) - predictions
    moments = torch.einsum("fnk,gnk,n->fg", residuals, residuals, shares) / shares.sum()
    moments.diagonal().add_(1e-10 * float(moments.diagonal().mean()) + 1e-300)
    root = torch.linalg.cholesky(moments).T.numpy()
    heavy = 1e3 * math.sqrt(float(moments.diagonal().max()))
    system = np.vstack([root, np.full((1, len(root)), heavy)])
    target = np.append(np.zeros(len(root)), heavy)
    weights = torch.from_numpy(nnls(system, target, maxiter=100 * len(root))[0])
    return weights / weights.sum()


def _label_probabilities(predictions: Tensor, y: Tensor) -> Tensor:
    """The probability of each row's own class, shape (F, n)."""
    index = y.long().reshape(1, -1, 1).expand(len(predictions), -1, 1)
    return predictions.gather(2, index).squeeze(2)


def folds_of(n: int, groups: Tensor | None, seed: int, classes: Tensor | None = None) -> Tensor:
    """Fold of each row, from 0 on, shape (n,); rows of one group are in the same fold.

    With classes, folds are stratified: rows of a class, or groups by their most frequent class, are
    divided evenly among the folds. Each class begins with the first fold, so that folds of few rows
    have rows of several classes, which can be compared with each other.
    """
    codes = torch.arange(n) if groups is None else groups
    count = int(codes.max()) + 1
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    if classes is not None:
        members = torch.zeros(count, int(classes.max()) + 1, dtype=torch.int64)
        members.index_put_((codes, classes), torch.ones_like(codes), accumulate=True)
        own = members.argmax(1)
        place = (own * count + order).argsort().argsort()
        sizes = torch.bincount(own)
        one_fold = int(sizes.max()) < 2  # a row of each class: nothing would be left to train on
        order = place if one_fold else place - (sizes.cumsum(0) - sizes)[own]
    folds = order[codes] % min(FOLDS, count)
    numbered: Tensor = torch.unique(folds, return_inverse=True)[1]
    return numbered


def cross_fitted_weights(
    loss: Loss,
    predictions: Tensor,
    y: Tensor,
    shares: Tensor,
    folds: Tensor,
    extra: float = 1.0,
    selected: Tensor | None = None,
    fold_predictions: Tensor | None = None,
    prior: Tensor | None = None,
    reference: int | None = None,
) -> Tensor:
    """Weights of the mixture that predicts each row, chosen without the row's fold, shape (n, F).

    ``folds`` has the fold of each row; the first four arguments, ``extra``, ``prior`` and
    ``reference`` are those of :func:`stack_weights`. ``selected`` marks the candidates that the
    mixture of each fold may use, shape (folds, F): those that would have been selected without the
    fold. All of them by default, and if there is none. ``fold_predictions`` are like
    ``predictions``, with a fold left out as well, shape (F, folds, n, K): they choose the mixture
    that predicts the fold.
    """
    held, usable = _fold_masks(folds, len(predictions), selected)
    count, members = usable.shape
    if not loss.has_classes:
        weights = predictions.new_zeros(count, members)
        for fold, (may, own) in enumerate(zip(usable, held, strict=True)):
            others = predictions if fold_predictions is None else fold_predictions[:, fold]
            given = others[may][:, ~own], y[~own], shares[~own]
            weights[fold, may] = number_weights(loss, *given)
    else:
        others = predictions.unsqueeze(1) if fold_predictions is None else fold_predictions
        own = _label_probabilities(others.flatten(0, 1), y).reshape(*others.shape[:2], -1)
        own = own.clamp_min(LEAST).transpose(0, 1)  # (folds, F, n)
        weights = _maximum_likelihood(own, shares * ~held, extra, usable, prior, reference)
    return weights[folds]


def cross_fitted_choice(
    loss: Loss,
    predictions: Tensor,
    y: Tensor,
    shares: Tensor,
    folds: Tensor,
    selected: Tensor | None = None,
    fold_predictions: Tensor | None = None,
) -> Tensor:
    """Weight 1 for the best candidate without the row's fold, 0 for all others, shape (n, F).

    The arguments are those of :func:`cross_fitted_weights`.
    """
    held, usable = _fold_masks(folds, len(predictions), selected)
    errors = predictions.new_empty(usable.shape)
    for fold, own in enumerate(held):
        others = predictions if fold_predictions is None else fold_predictions[:, fold]
        losses = torch.stack([loss.of_predictions(one, y) for one in others])
        errors[fold] = losses @ (shares * ~own)
    best = errors.masked_fill(~usable, torch.inf).argmin(1)
    return one_hot(best, len(predictions)).to(predictions)[folds]


def _fold_masks(folds: Tensor, members: int, selected: Tensor | None) -> tuple[Tensor, Tensor]:
    """The rows of each fold, (folds, n), and the candidates that it may use, (folds, F)."""
    count = int(folds.max()) + 1
    held = torch.arange(count).unsqueeze(1) == folds
    usable = torch.ones(count, members, dtype=torch.bool) if selected is None else selected[:count]
    return held, usable | ~usable.any(1, keepdim=True)
