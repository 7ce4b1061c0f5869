"""Losses of rows as independent values, one for each row or group."""

from __future__ import annotations

import torch
from torch import Tensor


def unit_values(
    losses: Tensor,
    weights: Tensor | None = None,
    groups: Tensor | None = None,
    mean: Tensor | None = None,
    mean_weight: Tensor | float | None = None,
    n: int | None = None,
) -> Tensor:
    r"""Turn row losses into values whose mean is the error and whose sd/√count its stderr.

    .. math:: m + \frac{w_i}{\bar w} (\ell_i - m), \qquad m = \sum_i w_i \ell_i / \sum_i w_i

    With groups there is one value per group, because errors of the same group are not independent:
    m plus the sum of the deviations of its rows, times the number of groups over n.

    Args:
        losses: ℓ, shape (n,).
        weights: w, shape (n,); equal by default.
        groups: The number of the group of each row, shape (n,); each row is alone by default.
        mean: m, if there are further rows elsewhere.
        mean_weight: The mean of w over all rows, if there are further rows elsewhere.
        n: The number of all rows, if there are further rows elsewhere.

    Example:
        >>> unit_values(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 3.0]))
        tensor([1.7500, 3.2500])
    """
    if weights is None and groups is None:
        return losses
    w = torch.ones_like(losses) if weights is None else weights.to(losses)
    if mean is None:
        mean = w @ losses / w.sum()
    deviations = w / (w.mean() if mean_weight is None else mean_weight) * (losses - mean)
    if groups is None:
        return mean + deviations
    count = int(groups.max()) + 1
    sums = losses.new_zeros(count).index_add_(0, groups, deviations)
    return torch.add(mean, sums, alpha=count / (len(losses) if n is None else n))


def moments(losses: Tensor) -> Tensor:
    """Statistics that are added over processes: nm, Σ(ℓ − m)² and nm² of n losses with mean m."""
    n, mean = len(losses), losses.mean()
    return torch.stack([n * mean, (losses - mean).square().sum(), n * mean.square()])


def mean_and_error(sums: Tensor, n: int) -> Tensor:
    """The mean of n losses and its standard error, from the sums of their moments."""
    mean = sums[0] / n
    between = sums[2] - n * mean.square()
    between = between * (between > 8 * torch.finfo(sums.dtype).eps * sums[2])  # else rounding
    return torch.stack([mean, ((sums[1] + between) / ((n - 1) * n)).sqrt()])
