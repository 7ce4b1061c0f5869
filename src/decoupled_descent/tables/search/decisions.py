r"""How often a mixture decides for the right class.

Leave-one-out counts the rows for which the most probable class is the right one. Near a tie this
count jumps: a model without signal predicts the most frequent class of the sample for every row,
and seems better than chance. So decisions are averaged over random halves of the sample
(:mod:`decoupled_descent.leave_one_out.resampling`), as the leave-one-out bootstrap does. Outputs
vary more there than with the whole sample: by the variance c² v in addition to their own v. The
share of right decisions A(c) is nearly linear in c², and the result is A(0) = 2 A(1) − A(√2).

The model without columns varies too: the most frequent class of a half-sample need not be that of
the sample. Other members count as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from decoupled_descent.leave_one_out.resampling import half_samples, is_designed
from decoupled_descent.objective.losses import Loss
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.search.fits import (
    CandidateFit,
    row_count,
    smoothed_predictions,
)

#: The number of half-samples, and the most numbers K · n · B of one fit.
HALVES, FEWEST, NUMBERS = 64, 8, 2**21


def half_sample_count(n: int, outputs: int) -> int:
    """How many half-samples are drawn."""
    return max(FEWEST, min(HALVES, NUMBERS // (n * outputs)))


def right_decisions(
    fits: Sequence[CandidateFit],
    weights: Tensor,
    others: Sequence[Tensor] = (),
    constant: int | None = None,
) -> Tensor | None:
    """The share of right decisions of each row, shape (n,); None if fits have no variation.

    Args:
        fits: The fits.
        weights: Weights of fits and others in the mixture that predicts each row, shape (n, F).
        others: Predictions of members that are not fits, (n, C); they count as they are …
        constant: … but for that of the model without columns, which has this index among them.

    Returns:
        Extrapolated shares, of which the mean is meant: a single one may be outside of 0 and 1.
    """
    if any(one.variation is None for one in fits):
        return None
    levels = (1.0, math.sqrt(2))
    ways: list[Sequence[Tensor]] = [others, others]
    first = fits[0]
    if constant is not None and first.variation is not None:
        sizes = others[constant].shape[1], first.variation.halves.shape[2]
        drawn, halves = shares_in_halves(first.run.objective.loss, first.rows, *sizes)
        varied = [drawn + level * halves for level in levels]
        ways = [[*others[:constant], one, *others[constant + 1 :]] for one in varied]
    once, twice = (_share(fits, weights, *pair) for pair in zip(ways, levels, strict=True))
    return 2 * once - twice


def shares_in_halves(loss: Loss, rows: Rows, width: int, count: int) -> tuple[Tensor, Tensor]:
    """Shares of the classes without each row, (n, C), and how half-samples move them, (B, n, C).

    Both are without the own row or group. If the shares are part of the design, they do not vary.
    """
    classes = loss.classes(rows.y)
    assert classes is not None
    weights = torch.ones(rows.n, dtype=torch.float64) if rows.weights is None else rows.weights
    codes = torch.arange(rows.n) if rows.groups is None else rows.groups
    units, total, effective = int(codes.max()) + 1, weights.sum(), row_count(rows)
    weighted = weights.unsqueeze(1) * one_hot(classes, width)  # (n, C)
    shares = weighted.sum(0) / total
    halves = weighted.new_zeros(count, rows.n, width)
    if is_designed(classes) and rows.groups is None:
        return loss.smoothed(shares.expand(rows.n, -1), effective), halves
    own = weighted.new_zeros(units, width).index_add_(0, codes, weighted)
    left = (weighted.sum(0) - own) / (total - own.sum(1, keepdim=True))
    drawn = shares.expand(rows.n, -1) if is_designed(classes) else left[codes]
    signs = half_samples(classes, rows.groups, count, seed=0)
    pulls = (weighted - weights.unsqueeze(1) * shares) / total
    each = torch.einsum("nb,nc->bnc", signs, pulls)
    grouped = halves.new_zeros(count, units, width).index_add_(1, codes, each)
    halves = each.sum(1, keepdim=True) - grouped[:, codes]
    return loss.smoothed(drawn, effective), halves * effective / (effective + 1)


def _share(
    fits: Sequence[CandidateFit], weights: Tensor, others: Sequence[Tensor], level: float
) -> Tensor:
    """The share of half-samples with the right decision, shape (n,), at a level of variation."""
    mixed: Tensor | None = None
    y = fits[0].rows.y.long().reshape(-1)
    for one, own in zip(fits, weights.T, strict=False):
        if one.variation is None or not bool((own > 0).any()):
            continue
        drawn, halves = one.variation
        outputs = (one.outputs + drawn).T.unsqueeze(2) + level * halves  # (K, n, B)
        count, n, draws = outputs.shape
        flat = outputs.permute(2, 1, 0).reshape(draws * n, count)
        chances = smoothed_predictions(one.run.objective.loss, flat, row_count(one.rows))
        part = own.unsqueeze(1) * chances.reshape(draws, n, -1)
        mixed = part if mixed is None else mixed.add_(part)
    assert mixed is not None
    for predictions, own in zip(others, weights.T[len(fits) :], strict=True):
        mixed = mixed + own.unsqueeze(1) * predictions
    return (mixed.argmax(2) == y).double().mean(0)
