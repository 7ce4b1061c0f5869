r"""Choosing among configurations with the uncertainty of the choice in view.

All configurations see the same rows, so their losses are compared row by row: the standard error of
a *difference* is far smaller than that of either error, and it is the one that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Difference(NamedTuple):
    """How much worse one configuration is than another, on the same rows.

    Attributes:
        mean: Mean of the row-wise differences of their losses.
        stderr: Its standard error.
    """

    mean: float
    stderr: float

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        return self.mean / self.stderr if self.stderr > 0 else float("inf") * (self.mean or 0.0)


class CorrectedError(NamedTuple):
    """The error of the best of K configurations, with the winner's curse taken out.

    Attributes:
        error: The corrected estimate.
        stderr: Its standard error, that of the winner's own error.
        optimism: What was added to the winner's train error; at least 0.
    """

    error: float
    stderr: float
    optimism: float


def paired_difference(losses: Tensor, reference: Tensor) -> Difference:
    r"""Compare two configurations on the same rows.

    .. math:: \bar\Delta = \tfrac1n\sum_i (\ell_i - \ell^{ref}_i), \qquad
       \mathrm{se} = \mathrm{sd}(\ell_i - \ell^{ref}_i)/\sqrt n

    Args:
        losses: Row losses of one, shape (n,).
        reference: Row losses of the other, shape (n,).

    Returns:
        The mean difference (positive: worse than the reference) and its standard error.

    Example:
        >>> paired_difference(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 1.5, 2.5])).mean
        0.5
    """
    if losses.shape != reference.shape or losses.ndim != 1:
        raise ValueError(
            f"losses of shape {tuple(losses.shape)} and {tuple(reference.shape)} cannot be "
            "compared row by row; both runs must come from the same rows"
        )
    deviation, mean = torch.std_mean(losses.double() - reference.double())
    return Difference(float(mean), float(deviation) / len(losses) ** 0.5)


def one_standard_error(losses: Tensor, order: Sequence[int] | None = None) -> int:
    r"""Pick the first configuration that is not clearly worse than the best.

    The classical rule: among all configurations within one standard error of the lowest error, take
    the simplest. The standard error is the paired one, of the difference from the best.

    Args:
        losses: Row losses, shape (K, n).
        order: The configurations from simple to complex; as given by default.

    Returns:
        The index of the choice.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> losses = torch.rand(3, 500, generator=generator) + torch.tensor([[0.001], [0.0], [0.5]])
        >>> one_standard_error(losses)
        0
    """
    best = int(losses.mean(1).argmin())
    for index in range(len(losses)) if order is None else order:
        difference = paired_difference(losses[index], losses[best])
        if difference.mean <= difference.stderr:
            return int(index)
    return best


def winners_curse(losses: Tensor, resamples: int = 1000, seed: int = 0) -> CorrectedError:
    r"""Correct the lowest of K errors for having been chosen as the lowest.

    The minimum of K noisy errors is too low by its expected dip below the error of the same
    configuration on other rows. That dip is estimated on resampled rows: draw n rows with
    replacement, let the configuration win that is lowest there, and see how much lower it is there
    than on the original rows.

    .. math:: \mathrm{optimism} = \mathbf E_b\bigl[\bar\ell_{k_b} - \bar\ell^{(b)}_{k_b}\bigr],
       \qquad k_b = \arg\min_k \bar\ell^{(b)}_k

    Args:
        losses: Row losses of the K candidates, shape (K, n).
        resamples: How many resamples.
        seed: Of the resampling.

    Returns:
        The corrected error of the winner.

    Example:
        >>> losses = torch.rand(20, 400, generator=torch.Generator().manual_seed(1))
        >>> corrected = winners_curse(losses)
        >>> bool(losses.mean(1).min() < corrected.error)
        True
    """
    if losses.ndim != 2 or losses.shape[1] < 2:
        raise ValueError(f"losses has shape {tuple(losses.shape)}; it must be (K, n) with n ≥ 2")
    losses = losses.double().cpu()
    n = losses.shape[1]
    means = losses.mean(1)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(n, (resamples, n), generator=generator)
    counts = torch.zeros(resamples, n, dtype=losses.dtype)
    counts.scatter_add_(1, rows, torch.ones_like(rows, dtype=losses.dtype))
    resampled = counts @ losses.T / n
    lowest, winners = resampled.min(1)
    optimism = max(0.0, float((means[winners] - lowest).mean()))
    best = int(means.argmin())
    stderr = float(losses[best].std()) / n**0.5
    return CorrectedError(float(means[best]) + optimism, stderr, optimism)
