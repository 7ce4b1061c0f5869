r"""A mixture is drawn towards the model without columns as far as its gain is uncertain.

With few rows, some candidate predicts left-out rows well by chance, and the mixture follows it. A
share a of the model without columns is the price of a guarantee: it maximises the gain over this
model, minus one standard error,

.. math:: \bar d(a) - \mathrm{se}(d(a)), \qquad d_i(a) = \log\frac{(1 - a)\, m_i + a\, c_i}{c_i},

where m_i and c_i are the probabilities that the mixture and the constant model give to the class of
row i. That is the one-standard-error rule of Breiman and others (1984), for a mixture. If the gain
is many standard errors, a is 0; without signal it is large. The order of the predicted
probabilities does not change, because a stays below 1. docs/results/tables.md measures it.
"""

from __future__ import annotations

import torch
from torch import Tensor

#: The shares that are tried. The largest leaves the order of predictions as it is; small ones are
#: close together, because they cost a model that is never wrong as much as they are.
SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def towards_reference(
    weights: Tensor, own: Tensor, shares: Tensor, extra: float, reference: int
) -> Tensor:
    """Weights of several mixtures with more weight for a reference, shape (B, F).

    Args:
        weights: The weights of F candidates in B mixtures, shape (B, F).
        own: The probabilities of the rows' own classes, shape (B or 1, F, n).
        shares: How much each row counts, shape (B, n).
        extra: How much one independent row counts on average.
        reference: The index of the candidate that the mixtures are drawn to.

    Example:
        >>> own = torch.tensor([[[0.9, 0.3, 0.6, 0.4], [0.5, 0.5, 0.5, 0.5]]]).double()
        >>> weights, shares = torch.tensor([[1.0, 0.0]]).double(), torch.ones(1, 4)
        >>> towards_reference(weights, own, shares, 1.0, reference=1)
        tensor([[0.0500, 0.9500]], dtype=torch.float64)
    """
    chances, usual = (weights.unsqueeze(1) @ own).squeeze(1), own[:, reference]
    total = shares.sum(1, keepdim=True)
    bounds = []
    for share in SHARES:
        gain = torch.log((1 - share) * chances + share * usual) - torch.log(usual)
        mean = (shares * gain).sum(1, keepdim=True) / total
        variance = (shares * (gain - mean).square()).sum(1, keepdim=True) / total
        bounds.append(mean - torch.sqrt(variance * extra / total))
    best = torch.tensor(SHARES, dtype=weights.dtype)[torch.cat(bounds, 1).argmax(1)].unsqueeze(1)
    drawn = (1 - best) * weights
    drawn[:, reference] += best[:, 0]
    return drawn
