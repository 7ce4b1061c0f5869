r"""Comparisons of models on the same rows, and the choice among them.

Losses are compared row by row. The standard error of a *difference* is far smaller than that of
either error, and it is the relevant one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from decoupled_descent.checks import interval
from decoupled_descent.evaluation.estimation import BLOCKS, Metered, by_function, by_name
from decoupled_descent.evaluation.means import jackknife, mean_with_stderr, of_means, unit_values
from decoupled_descent.evaluation.metrics import METRICS

if TYPE_CHECKING:
    from decoupled_descent.evaluation.estimate import Metric
    from decoupled_descent.evaluation.evaluation import Evaluation


class Comparison(NamedTuple):
    """How much larger a metric is than that of another model, on the same rows."""

    metric: str
    difference: float  # of this model minus the other
    stderr: float
    interval: tuple[float, float]  # 95 %

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        return PairedDifference(self.difference, self.stderr).z


def compare(one: Evaluation, other: Evaluation, metric: Metric | None = None) -> Comparison:
    """Compare two models on the same rows; see :meth:`Evaluation.compare`."""
    if not isinstance(other, type(one)):
        raise ValueError(f"other={other!r} must be an evaluation of another model")
    if len(one.losses) != len(other.losses) or not np.array_equal(one.labels, other.labels):
        raise ValueError(
            f"other has {len(other.losses)} rows and this evaluation {len(one.losses)}, or "
            "their labels differ; evaluate both on the same rows, in the same order"
        )
    if metric is None and one.loss != other.loss:
        raise ValueError(
            f"other has the loss {other.loss or 'of its own'!r} and this evaluation "
            f"{one.loss or 'of its own'!r}; pass a metric that both have"
        )
    if one.periods is not None and other.periods is not None:
        pairs = zip(one.by_period, other.by_period, strict=True)
        each = [_difference(*pair, metric) for pair in pairs]
        name = each[0][0]
        mean, stderr, _ = one.next_of([(gap, own) for _, gap, own in each])
    else:
        name, mean, stderr = _difference(one, other, metric)
    return Comparison(name, mean, stderr, interval(mean, stderr))


def all_pairs(candidates: Mapping[str, Evaluation]) -> dict[tuple[str, str], Comparison]:
    """Compare each pair of models that have names."""
    pairs = combinations(candidates, 2)
    return {(a, b): compare(candidates[a], candidates[b]) for a, b in pairs}


def _difference(
    one: Evaluation, other: Evaluation, metric: Metric | None
) -> tuple[str, float, float]:
    """The name of a metric, its difference, and the standard error of the difference."""
    wider = max(one.widening, other.widening)
    if metric is None:
        mean, stderr = mean_with_stderr(one.losses - other.losses, one.weights, one.groups)
        return one.loss or "loss", mean, wider * stderr
    if isinstance(metric, str):
        name, found = metric, [_with_rows_left_out(each, metric) for each in (one, other)]
    else:
        both = [by_function(each, metric, BLOCKS) for each in (one, other)]
        name, found = both[0][0], [each[1] for each in both]
    first, second = found
    if first.without is None or second.without is None:
        raise ValueError(f"metric={name!r} cannot be compared; give another one")
    return name, first.value - second.value, wider * jackknife(first.without - second.without)


def _with_rows_left_out(evaluation: Evaluation, metric: str) -> Metered:
    """A metric by its name, with its values without each unit; shares as functions of means."""
    found = by_name(evaluation, metric)
    if found.without is not None or metric not in METRICS:
        return found
    kind = METRICS[metric]
    rows = kind.rows(evaluation.positive_labels, evaluation.positive_decisions)
    value, without = of_means(rows, kind.value, evaluation.row_weights, evaluation.units)
    return Metered(float(value), jackknife(without), len(without), without=without)


class PairedDifference(NamedTuple):
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


def paired_difference(losses: Tensor, reference: Tensor) -> PairedDifference:
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
    return PairedDifference(*mean_with_stderr(losses.double() - reference.double()))


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
    (error, stderr), n = mean_with_stderr(losses[best]), losses.shape[1]
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
