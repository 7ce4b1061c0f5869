r"""Mixtures of candidates, chosen by their predictions of left-out rows."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

#: The number of folds: weights are chosen on all but one and evaluated on that one.
FOLDS = 20
#: The most steps of expectation-maximisation, and the change at which it ends.
STEPS, SETTLED = 300, 1e-5
#: Probabilities below this count as this.
LEAST = 1e-12


def stack_weights(loss: str, said: Tensor, y: Tensor, shares: Tensor, extra: float = 1.0) -> Tensor:
    r"""Weights of a mixture with the lowest loss on rows that its members have not seen.

    For numbers, those that minimise Σ_i s_i (y_i − Σ_f w_f o_fi)², non-negative with sum 1. For
    classes, those that maximise

    .. math:: \sum_i s_i \log \sum_f w_f\, p_f(y_i) + \frac{e}{F} \sum_f \log w_f

    by expectation-maximisation: one more row, of weight e, is dealt to all candidates alike. A
    sample without mistakes would otherwise give everything to the candidate that is most sure of
    itself; with that row, no candidate has less than about 1/(nF), and the mixture is never much
    surer than its members agree.

    Args:
        loss: ``"squared"`` for numbers, another name for classes.
        said: The left-out predictions of F candidates, shape (F, n, K).
        y: Labels, shape (n,), or targets, shape (n, K).
        shares: s, how much each row counts, shape (n,).
        extra: e, how much one row counts on average.

    Returns:
        w, shape (F,).

    Example:
        >>> said = torch.tensor([[[0.9, 0.1], [0.8, 0.2]], [[0.5, 0.5], [0.5, 0.5]]])
        >>> stack_weights("logistic", said, torch.tensor([0, 0]), torch.ones(2)).round(decimals=2)
        tensor([0.7000, 0.3000])
    """
    if loss == "squared":
        return _least_squares(said, y, shares)
    own = _of_labels(said, y).clamp_min(LEAST).unsqueeze(0)
    every = torch.ones(1, len(said), dtype=torch.bool)
    return _likeliest(own, shares.unsqueeze(0), extra, every)[0]


def _likeliest(own: Tensor, shares: Tensor, extra: float, usable: Tensor) -> Tensor:
    """Weights of several mixtures at once, shape (B, F), by expectation-maximisation.

    ``own`` has the probability of each row's own class, shape (B or 1, F, n), ``shares`` how much
    each row counts, (B, n), and ``usable`` the candidates that each mixture may have, (B, F).
    """
    dealt = usable.to(own) / usable.sum(1, keepdim=True)
    weights, total = dealt, shares.sum(1, keepdim=True)
    for _ in range(STEPS):
        chances = (weights.unsqueeze(1) @ own).squeeze(1)
        counted = weights * (own @ (shares / chances).unsqueeze(2)).squeeze(2)
        following = (counted + extra * dealt) / (total + extra)
        moved = float((following - weights).abs().max())
        weights = following
        if moved < SETTLED:
            break
    return weights


def _least_squares(said: Tensor, y: Tensor, shares: Tensor) -> Tensor:
    """Non-negative least squares with a heavy row that makes the sum 1."""
    from scipy.optimize import nnls

    residuals = (
        y.reshape(said.shape[1:]).to(said) - said
    )  # the residual of the mixture is the mixture of these residuals
    moments = torch.einsum("fnk,gnk,n->fg", residuals, residuals, shares) / shares.sum()
    moments.diagonal().add_(1e-10 * float(moments.diagonal().mean()) + 1e-300)
    root = torch.linalg.cholesky(moments).T.numpy()
    heavy = 1e3 * math.sqrt(float(moments.diagonal().max()))
    system = np.vstack([root, np.full((1, len(root)), heavy)])
    target = np.append(np.zeros(len(root)), heavy)
    weights = torch.from_numpy(nnls(system, target, maxiter=100 * len(root))[0])
    return weights / weights.sum()


def mixed_losses(loss: str, weights: Tensor, said: Tensor, y: Tensor) -> Tensor:
    """Losses of the mixture row by row, shape (n,)."""
    return row_losses(loss, torch.einsum("f,fnk->nk", weights, said), y)


def row_losses(loss: str, said: Tensor, y: Tensor) -> Tensor:
    """Losses of predictions (n, K) row by row, shape (n,): −log p, or half the squared error."""
    if loss == "squared":
        return 0.5 * (said - y.reshape(said.shape).to(said)).square().sum(1)
    return -_of_labels(said.unsqueeze(0), y)[0].clamp_min(LEAST).log()


def _of_labels(said: Tensor, y: Tensor) -> Tensor:
    """The probability of each row's own class, shape (F, n)."""
    index = y.long().reshape(1, -1, 1).expand(len(said), -1, 1)
    return said.gather(2, index).squeeze(2)


def folds_of(n: int, groups: Tensor | None, seed: int, classes: Tensor | None = None) -> Tensor:
    """Fold of each row, from 0 on, shape (n,); rows of one group are in the same fold.

    With classes, folds are stratified: rows of a class, or groups by their most frequent class, are
    divided evenly among the folds.
    """
    codes = torch.arange(n) if groups is None else groups
    count = int(codes.max()) + 1
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    if classes is not None:
        members = torch.zeros(count, int(classes.max()) + 1, dtype=torch.int64)
        members.index_put_((codes, classes), torch.ones_like(codes), accumulate=True)
        order = (members.argmax(1) * count + order).argsort().argsort()
    return order[codes] % min(FOLDS, count)


def cross_fitted_weights(
    loss: str,
    said: Tensor,
    y: Tensor,
    shares: Tensor,
    folds: Tensor,
    extra: float = 1.0,
    known: Tensor | None = None,
    without: Tensor | None = None,
) -> Tensor:
    """Weights of the mixture that predicts each row, chosen without the row's fold, shape (n, F).

    ``folds`` has the fold of each row; the first four arguments and ``extra`` are those of
    :func:`stack_weights`. ``known`` says which candidates the mixture of each fold may use, shape
    (folds, F): those that would have been found without the fold. All of them by default, and if
    there is none. ``without`` is like ``said``, with a whole fold left out as well, shape
    (F, folds, n, K): these predictions choose the mixture that judges the fold.
    """
    count = int(folds.max()) + 1
    held = torch.arange(count).unsqueeze(1) == folds  # (folds, n)
    usable = torch.ones(count, len(said), dtype=torch.bool) if known is None else known[:count]
    usable = usable | ~usable.any(1, keepdim=True)
    if loss == "squared":
        weights = said.new_zeros(count, len(said))
        for fold, (may, own) in enumerate(zip(usable, held, strict=True)):
            others = said if without is None else without[:, fold]
            weights[fold, may] = _least_squares(others[may][:, ~own], y[~own], shares[~own])
    else:
        others = said.unsqueeze(1) if without is None else without
        own = _of_labels(others.flatten(0, 1), y).reshape(*others.shape[:2], -1)
        own = own.clamp_min(LEAST).transpose(0, 1)  # (folds, F, n)
        weights = _likeliest(own, shares * ~held, extra, usable)
    return weights[folds]
