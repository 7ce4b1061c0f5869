r"""How often a mixture decides for the right class.

Leave-one-out counts the rows for which the most probable class is the right one. Near a tie this
count jumps: a model without signal predicts the most frequent class of the sample for every row,
and seems better than chance. So decisions are averaged over random halves of the sample
(:mod:`decoupled_descent.leave_one_out.resampling`), as the leave-one-out bootstrap does. Outputs
vary more there than with the whole sample: by the variance c² v in addition to their own v. The
share of right decisions A(c) is nearly linear in c², and the result is A(0) = 2 A(1) − A(√2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from decoupled_descent.selection.fits import CandidateFit, row_count, smoothed_predictions

#: The number of half-samples, and the most numbers K · n · B of one fit.
HALVES, FEWEST, NUMBERS = 64, 8, 2**21


def half_sample_count(n: int, outputs: int) -> int:
    """How many half-samples are drawn."""
    return max(FEWEST, min(HALVES, NUMBERS // (n * outputs)))


def right_decisions(
    fits: Sequence[CandidateFit], weights: Tensor, others: Sequence[Tensor] = ()
) -> Tensor | None:
    """The share of right decisions of each row, shape (n,); None if fits have no variation.

    Args:
        fits: The fits.
        weights: Weights of fits and others in the mixture that predicts each row, shape (n, F).
        others: Predictions of members that are not fits, (n, C); they count as they are.

    Returns:
        Extrapolated shares, of which the mean is meant: a single one may be outside of 0 and 1.
    """
    if any(one.variation is None for one in fits):
        return None
    once, twice = (_share(fits, weights, others, level) for level in (1.0, math.sqrt(2)))
    return 2 * once - twice


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
