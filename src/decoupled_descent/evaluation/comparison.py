r"""The choice among configurations, and its uncertainty.

All configurations are trained on the same rows, so their losses are compared row by row. The
standard error of a *difference* is far smaller than that of either error, and it is the relevant
one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from decoupled_descent.evaluation.means import unit_values


class Difference(NamedTuple):
    """How much worse one configuration is than another, on the same rows."""

    mean: float  #: mean of the row-wise differences of their losses
    stderr: float  #: its standard error

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        if self.stderr > 0:
            return self.mean / self.stderr
        return math.copysign(math.inf, self.mean) if self.mean else 0.0


class CorrectedError(NamedTuple):
    """The error of the best of K configurations, corrected for the winner's curse."""

    error: float  #: the corrected estimate
    stderr: float  #: its standard error, that of the winner's own error
    optimism: float  #: what was added to the winner's train error; at least 0


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
    r"""Return the index of the first configuration that is not clearly worse than the best.

    The classical rule: among all configurations within one standard error of the lowest error, take
    the simplest. The standard error is the paired one, of the difference from the best.

    Args:
        losses: Row losses, shape (K, n).
        order: The configurations from simple to complex; as given by default.

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


def winners_curse(losses: Tensor, draws: int = 1000, seed: int = 0) -> CorrectedError:
    r"""Correct the lowest of K errors for having been chosen as the lowest.

    The minimum of K noisy errors lies below the true error of the configuration that attains it.
    This bias is simulated: errors m̃ + N(0, C) are drawn many times, with C the covariance of the K
    means estimated from the rows; the lowest wins, and the difference from its own m̃ is averaged.
    The m̃ are the measured means, shrunk towards their average by the share of their spread that is
    noise: measured means are more spread out than true ones, and without shrinking the simulated
    bias would be too small. Configurations more than four standard errors behind the best are left
    out.

    .. math:: \mathrm{optimism} = \mathbf E\bigl[\tilde m_k - m_k\bigr], \qquad
       m \sim N(\tilde m, C), \quad k = \arg\min m

    Args:
        losses: Row losses of the K candidates, shape (K, n).
        draws: The number of simulations.
        seed: Of the simulations.

    Example:
        >>> losses = torch.rand(20, 400, generator=torch.Generator().manual_seed(1))
        >>> corrected = winners_curse(losses)
        >>> bool(losses.mean(1).min() < corrected.error)
        True
    """
    if losses.ndim != 2 or losses.shape[1] < 2:
        raise ValueError(f"losses has shape {tuple(losses.shape)}; it must be (K, n) with n ≥ 2")
    losses = losses.double().cpu()
    best = int(losses.mean(1).argmin())
    error, n = float(losses[best].mean()), losses.shape[1]
    stderr = float(losses[best].std()) / n**0.5
    behind = [paired_difference(row, losses[best]) for row in losses]
    contenders = losses[[difference.mean <= 4 * difference.stderr for difference in behind]]
    if len(contenders) < 2:
        return CorrectedError(error, stderr, 0.0)
    means = contenders.mean(1)
    centred = contenders - means.unsqueeze(1)
    relative = centred - centred.mean(0)
    noise = float(relative.square().sum()) / (n * (n - 1) * (len(means) - 1))
    spread = float(means.var())
    kept = max(0.0, 1 - noise / spread) if spread > 0 else 0.0
    shrunk = means.mean() + kept * (means - means.mean())
    generator = torch.Generator().manual_seed(seed)
    multipliers = torch.randn(
        draws, n, generator=generator, dtype=losses.dtype, device=generator.device
    )
    replayed = shrunk + multipliers @ centred.T / n
    lowest, winners = replayed.min(1)
    optimism = max(0.0, float((shrunk[winners] - lowest).mean()))
    return CorrectedError(error + optimism, stderr, optimism)


def price_of_choice(losses: Sequence[Any], weights: Any = None, groups: Any = None) -> float:
    """How much higher the error of the best of several models is than it seems.

    That of :func:`winners_curse`, with rows that have weights and belong to groups.

    Args:
        losses: Losses of the rows, shape (n,), for each model.
        weights: Weights of the rows, shape (n,).
        groups: The number of the group of each row, shape (n,).

    Example:
        >>> losses = list(np.random.default_rng(0).random((20, 400)))
        >>> 0.01 < price_of_choice(losses) < 0.05
        True
    """
    values = np.stack([unit_values(one, weights, groups) for one in losses])
    return winners_curse(torch.from_numpy(values)).optimism if len(values) > 1 else 0.0
