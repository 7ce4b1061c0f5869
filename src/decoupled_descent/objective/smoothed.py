r"""Mean Jacobians across kinks (ReLU, hinge, absolute loss), by differences with large steps.

If g jumps, the jump contributes to the mean derivative over Gaussian h. Autodiff differentiates at
single points and misses this contribution. A central difference includes it if the step is so large
that the jump lies within it for many rows:

.. math:: \bar J_{ij} = \frac1n\sum_r \frac{g_i(h_r + \delta_j e_j) - g_i(h_r - \delta_j e_j)}
   {2\delta_j}, \qquad \delta_j = 2\,\mathrm{sd}(h_j)\, n^{-1/5} .

The step is half a standard deviation at n = 1000. It shrinks at the rate that balances bias (∝ δ²)
against noise (∝ 1/√(nδ)), so the estimate is consistent as n grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor


def spacing(spread: Tensor, n: int) -> Tensor:
    """δ = 2 sd(h) n^{−1/5}, one positive step per coordinate, shape (L,)."""
    return torch.clamp_min((2 * n**-0.2) * spread, torch.finfo(spread.dtype).eps ** 0.5)


def mean_jacobian(
    g: Callable[[Tensor], Tensor], h: Tensor, steps: Tensor, weights: Tensor | None = None
) -> Tensor:
    r"""J̄ of a row-wise g by central differences with steps δ, shape (L, L).

    Example:
        >>> h = torch.linspace(-1, 1, 401).unsqueeze(1)
        >>> mean_jacobian(lambda h: (h > 0).float(), h, torch.tensor([0.25])).round(decimals=1)
        tensor([[0.5000]])
    """
    means = [
        change.mean(0) if weights is None else weights @ change / len(h)
        for change in _changes(g, h, steps)
    ]
    return torch.stack(means, 1)


def row_jacobians(g: Callable[[Tensor], Tensor], h: Tensor, steps: Tensor) -> Tensor:
    """The same differences row by row, shape (n, L, L)."""
    return torch.stack(list(_changes(g, h, steps)), 2)


def _changes(g: Callable[[Tensor], Tensor], h: Tensor, steps: Tensor) -> Iterator[Tensor]:
    """Difference quotients of g along each coordinate, shape (n, L)."""
    for coordinate, step in enumerate(steps.tolist()):
        shift = torch.zeros_like(h[:1])
        shift[0, coordinate] = step
        yield (g(h + shift) - g(h - shift)) / (2 * step)
