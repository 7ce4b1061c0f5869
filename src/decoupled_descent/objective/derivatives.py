r"""What an objective tells about rows, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

#: The head's trainable parameters a, by name.
Parameters = dict[str, Tensor]
#: g(h, y, a): one row of ĥ per sample, shape (n, L).
Direction = Callable[[Tensor, Tensor, Parameters], Tensor]
#: f(h, y, a): one row per sample for each head parameter, shapes (n, *parameter.shape).
HeadDirection = Callable[[Tensor, Tensor, Parameters], Parameters]


class RowDerivatives(NamedTuple):
    r"""What one call to an objective tells about n rows.

    Attributes:
        loss: Ψ(h_i, y_i, a) row by row, shape (n,).
        direction: ĥ = g(h, y, a), by default ∇_hΨ, shape (n, L).
        jacobian: J̄ with J̄[i, j] the (weighted) mean over rows of ∂g_i/∂h_j, shape (L, L); None if
            not asked for.
        head: (Weighted) mean over rows of f(h, y, a), by default ∇_aΨ, by parameter name; empty if
            not asked for.
    """

    loss: Tensor
    direction: Tensor
    jacobian: Tensor | None
    head: Parameters


class Ask(NamedTuple):
    """What is wanted beside loss and direction; weights have shape (n,) and count as w_i/n."""

    jacobian: bool = True
    head: bool = True
    jacobian_weights: Tensor | None = None
    head_weights: Tensor | None = None


#: ``engine(h, y, parameters, ask)``: derivatives of Ψ itself, for labels as the user gave them.
Engine = Callable[[Tensor, Tensor, Parameters, Ask], RowDerivatives]


def weighted(values: Tensor, weights: Tensor | None) -> Tensor:
    """Multiply values of shape (…, n) by row weights, if there are any."""
    return values if weights is None else values * weights
