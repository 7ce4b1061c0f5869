r"""Means of numbers that are bounded: counts, and proportions.

With the canonical link of an exponential family, an output u stands for the mean μ = b'(u), and

.. math:: \ell(u, y) = b(u) - y u + \varphi(y), \qquad \ell' = \mu - y, \qquad
   \ell'' = V(\mu) = b''(u)

is half of the deviance: φ makes it 0 at μ = y.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

Function = Callable[[Tensor], Tensor]
#: Predicted means and probabilities below this count as this.
LEAST = 2.220446049250313e-16


class Link(NamedTuple):
    """How outputs become means, and what it costs to miss a mean."""

    cumulant: Function  # b(u)
    mean: Function  # b'(u)
    variance: Function  # V(μ)
    output: Function  # the u whose mean is μ
    entropy: Function  # φ(y)
    low: float  # the smallest label
    high: float  # the largest one
    stable: Function  # of labels: so that they are about equally noisy everywhere
    prior: float  # the mean of the row that is added to predictions
    unit: str  # of outputs, in words
    scales: bool  # whether labels may be divided by a number, which divides ℓ by it
    boosted: str = ""  # the name of the loss for boosted trees of scikit-learn, if they have it

    def value(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Evaluate ℓ(u, y)."""
        return self.cumulant(outputs) - labels * outputs + self.entropy(labels)

    def half_deviance(self, means: Tensor, labels: Tensor) -> Tensor:
        """The same from μ instead of u.

        Example:
            >>> three, two = torch.tensor([3.0]), torch.tensor([2.0])
            >>> POISSON.half_deviance(three, two)  # 3 − 2 log 3 + 2 log 2 − 2
            tensor([0.1891])
        """
        top = 1 - LEAST if self.high == 1 else None
        return self.value(self.output(means.clamp(LEAST, top)), labels).clamp_min(0)

    def smoothed(self, means: Tensor, count: float) -> Tensor:
        """Means away from their bounds: one row with the mean ``prior`` is added to n rows."""
        return (count * means.clamp(self.low, self.high) + self.prior) / (count + 1)


def _softplus(u: Tensor) -> Tensor:
    return functional.softplus(u, threshold=40)  # torch's default is off by 2e-9


def _y_log_y(y: Tensor) -> Tensor:
    return torch.xlogy(y, y)


#: Counts, or other amounts from 0 on, in units of their mean: μ = eᵘ and V = μ.
POISSON = Link(
    torch.exp, torch.exp, lambda mean: mean, torch.log, lambda y: _y_log_y(y) - y,
    low=0.0, high=torch.inf, stable=torch.sqrt, prior=1.0,
    unit="logarithm of the expected target", scales=True, boosted="poisson",
)  # fmt: skip
#: Shares from 0 to 1: μ = 1/(1 + e^{−u}) and V = μ (1 − μ).
PROPORTION = Link(
    _softplus, torch.sigmoid, lambda mean: mean * (1 - mean), torch.logit,
    lambda y: _y_log_y(y) + _y_log_y(1 - y), low=0.0, high=1.0, stable=lambda y: y, prior=0.5,
    unit="log-odds of the expected share", scales=False,
)  # fmt: skip
