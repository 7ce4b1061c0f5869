r"""The normal distributions that rows of one class are a mixture of.

Decoupled descent assumes that rows of one *mode* are normal. A class may have several modes, as in
the paper's XOR. For a mixture of normal distributions, with shares :math:`r_k(h)` of the modes at h
and the covariance C that the algorithm assumes, Stein's identity holds for the sum over modes,

.. math:: \sum_k \mathrm E\, r_k(h) (h - m_k) g(h) = C\, \mathrm E\, \nabla g(h) ,

and for the covariance within a whole class it does not.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

#: The most modes of a class, the directions in which they are looked for, and rounds of EM.
MOST, DIRECTIONS, ROUNDS = 4, 2, 50
#: A class of fewer rows for each mode has one mode. Fewer rows than this share are no mode, but
#: outliers.
ROWS, LEAST = 25, 0.1


def shares_of_modes(h: Tensor, groups: Tensor, covariance: Tensor) -> Tensor:
    """How much each row belongs to each mode of its group, shape (n, number of modes).

    Args:
        h: Pre-activations, shape (n, L).
        groups: The group of each row, shape (n,).
        covariance: That within modes, shape (L, L).

    Example:
        >>> h = torch.cat([torch.randn(200, 1) - 5, torch.randn(200, 1) + 5])
        >>> one_class = torch.zeros(400, dtype=torch.int64)
        >>> shares_of_modes(h, one_class, torch.eye(1)).sum(0).round().tolist()
        [200.0, 200.0]
    """
    values, vectors = torch.linalg.eigh(covariance.double())
    kept = values > 1e-9 * values[-1]
    white = h.double() @ (vectors[:, kept] / values[kept].sqrt())
    columns = []
    for group in torch.unique(groups):
        rows = groups == group
        own = _shares(white[rows])
        column = own.new_zeros(len(h), own.shape[1])
        column[rows] = own
        columns.append(column)
    return torch.cat(columns, 1)


def _shares(h: Tensor) -> Tensor:
    """Shares of as many modes as Schwarz's criterion (BIC) prefers."""
    h = h - h.mean(0)
    directions = torch.linalg.svd(h, full_matrices=False)[2]
    z = h @ directions[:DIRECTIONS].T
    shares: Tensor = z.new_ones(len(z), 1)
    best = math.inf
    for count in range(1, 1 + (min(MOST, len(z) // ROWS) if z.shape[1] else 0)):
        found, likelihood = _mixture(z, count)
        criterion = count * (z.shape[1] + 1) * math.log(len(z)) - 2 * likelihood
        if criterion < best and float(found.mean(0).min()) >= LEAST:
            best, shares = criterion, found
    return shares


def _mixture(z: Tensor, count: int) -> tuple[Tensor, float]:
    """Shares of so many modes with the covariance 1, and the log-likelihood, by EM."""
    levels = (torch.arange(count) + 0.5) / count
    nearest = (z[:, :1] - torch.quantile(z[:, 0], levels.to(z))).abs().argmin(1)
    shares = torch.nn.functional.one_hot(nearest, count).to(z)
    for _ in range(ROUNDS):
        totals = shares.sum(0).clamp_min(1e-9)
        means = shares.T @ z / totals.unsqueeze(1)
        logs = (totals / len(z)).log() - 0.5 * torch.cdist(z, means).square()
        shares = torch.softmax(logs, 1)
    return shares, float(logs.logsumexp(1).sum())
