r"""The part of the variance of a leave-one-out error that comes from pairs of rows.

The mean of left-out losses ℓ_i, minus the error on new rows of the model of all rows, varies for
two reasons. One is the spread of the ℓ_i, which a standard deviation over √m measures. The other is
that losses of different rows depend on each other: row k helps to train the run without row i, and
row i the run without row k. Let h_ik be the change of ℓ_i if row k, too, is left out. What it has
in common for all i is a change of the model, and for all k a property of row i; both are
subtracted. What remains in h_ik and in h_ki, \tilde h, is correlated, and

.. math:: \operatorname{Var} \approx \frac1{m^2} \sum_i (\ell_i - \bar\ell)^2
   + \frac1{m^2} \sum_{i \ne k} \tilde h_{ik} \tilde h_{ki} .

The squares of \tilde h_ik are in the spread of the ℓ_i already. With few rows for many parameters
the second sum is as large as the first; without it, the standard error is too small.

Two rows are never left out together here. o(x_i; β_k) − o(x_i; β) is the effect of row k while row
i is there, which holds its own output in place. Without row i it is larger by 1/(1 − H_i), for its
leverage H_i. As 1 − H_i is the slope of the loss with row i over that without, effects are
multiplied by f, with f² = Σ|g_i|²/Σ|ĝ_i|² for slopes at the left-out and at the fitted outputs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

#: The most that f may be: rows that are fitted exactly have no slope left.
MOST = 5.0
#: Rows and columns are fitted in turn so often; each time leaves 1/(m − 1)² of what is missing.
SWEEPS = 12


def left_out_factor(slopes: Tensor, fitted_slopes: Tensor) -> float:
    """f: by how much larger the effects of other rows are on rows that are left out.

    Args:
        slopes: g_i, those of the losses at the left-out outputs, shape (r, K).
        fitted_slopes: ĝ_i, at the fitted outputs, shape (r, K).

    Example:
        >>> left_out_factor(torch.full((3, 1), 0.3), torch.full((3, 1), 0.2))
        1.5...
    """
    fitted = float(fitted_slopes.double().square().sum())
    if not fitted > 0:
        return MOST
    return min(MOST, max(1.0, math.sqrt(float(slopes.double().square().sum()) / fitted)))


def pair_variance(effects: Tensor, factor: float, shares: Tensor | None = None) -> float:
    r"""The sum over pairs of groups.

    Args:
        effects: g_i · (o(x_i; β_k) − o(x_i; β)), shape (m, m): the change of the value of
            group i (row) if group k (column) is left out.
        factor: f.
        shares: For how many of all groups each one speaks, with mean 1, shape (m,).

    Returns:
        The variance of the mean that comes from pairs; at least 0.

    Example:
        >>> pair = torch.tensor([[0.0, 2.0], [2.0, 0.0]])
        >>> effects = torch.cat(
        ...     [torch.cat([pair, pair * 0 - 1]), torch.cat([pair * 0 - 1, pair])], 1
        ... )
        >>> round(pair_variance(effects, 1.0), 6)
        1.5
    """
    count = len(effects)
    if count < 3:
        return 0.0
    h = effects.double()
    weights = torch.ones(count).to(h) if shares is None else shares.to(h)
    weights = weights * weights.unsqueeze(1)
    weights.fill_diagonal_(0.0)
    column = h.new_zeros(count)
    for _ in range(SWEEPS):  # least squares of rows and columns, where the diagonal is missing
        row = (weights * (h - column)).sum(1, keepdim=True) / weights.sum(1, keepdim=True)
        column = (weights * (h - row)).sum(0) / weights.sum(0)
    h = h - row - column
    return max(0.0, float((weights * h * h.T).sum()) / count**2) * factor**2
