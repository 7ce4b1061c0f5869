r"""Row derivatives of Ψ(h, y, a): one engine per file, all returning :class:`RowDerivatives`.

``structured`` knows closed forms layer by layer, ``autodiff`` works for any smooth module.
:class:`~decoupled_descent.Objective` picks the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

Parameters = dict[str, Tensor]


class RowDerivatives(NamedTuple):
    r"""What one call to an objective tells about n rows.

    Attributes:
        loss: Ψ(h_i, y_i, a) row by row, shape (n,).
        direction: ĥ = g(h, y, a), by default ∇_hΨ, shape (n, L).
        jacobian: J̄ with J̄[i, j] the (weighted) mean over rows of ∂g_i/∂h_j, shape (L, L); None if
            not asked.
        head: Mean over rows of f(h, y, a), by default ∇_aΨ, by parameter name; empty if not asked.
    """

    loss: Tensor
    direction: Tensor
    jacobian: Tensor | None
    head: Parameters


#: ``engine(h, y, parameters, jacobian, head, shares)``: whether J̄ and the head's direction are
#: wanted, and how much each row counts in J̄, shape (n,), or None for one each.
Engine = Callable[[Tensor, Tensor, Parameters, bool, bool, Tensor | None], RowDerivatives]

__all__ = ["Engine", "Parameters", "RowDerivatives"]
