r"""V = J H⁻¹ Jᵀ at a minimum, as a linear operator: how outputs move with the gradients of rows.

Outputs are o = Φβ + b with features Φ (n, r), and H is the Hessian of Σ_i w_i ℓ(o_i, y_i) + ½ λ‖β‖²
with intercepts b that are not penalised. V takes values of all rows and outputs, (K, n, s): K
outputs, n rows, s vectors. Every structure of H has its own class with the interface of
:class:`Influence`:

=============================  ==================================================================
:class:`RidgeInfluence`        one output, by an r × r factor (:mod:`.ridge`)
:class:`KernelInfluence`       one output, by an n × n matrix (:mod:`.kernel`)
:class:`BlockDiagonal`         several outputs without terms between them
:class:`SoftmaxDual`           softmax, by n × n matrices (:mod:`.softmax`)
:class:`SoftmaxPrimal`         softmax for many rows, and any W_i, by H itself (:mod:`.softmax`)
=============================  ==================================================================

:func:`~decoupled_descent.leave_one_out.minimum.influence_of` chooses one of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

#: Pairs of rows are computed for this many columns at a time.
PAIRS = 128


class Influence(ABC):
    """V, with products, diagonal blocks and blocks between rows."""

    @property
    @abstractmethod
    def blocks(self) -> Tensor:
        """The diagonal blocks V_ii, shape (n, K, K)."""

    @abstractmethod
    def __matmul__(self, values: Tensor) -> Tensor:
        """V u, shape (K, n, s), for u of that shape."""

    @abstractmethod
    def columns(self, rows: Tensor, values: Tensor, onto: Tensor | None = None) -> Tensor:
        """V_ji u_i for all rows j and some rows i, shape (K, n, s), for u of shape (s, K).

        With ``onto``, only for these rows j.
        """

    @abstractmethod
    def at(self, rows: Tensor, values: Tensor) -> Tensor:
        """(V u)_i of the i-th row in the i-th vector, shape (s, K), for u of shape (K, n, s)."""

    def bilinear(self, rows: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """u_iᵀ V_ij v_j for some rows i and j, shape (s, s), for u and v of shape (s, K)."""
        u = left.T.unsqueeze(2)
        parts = zip(torch.split(rows, PAIRS), torch.split(right, PAIRS), strict=True)
        return torch.cat([(u * self.columns(*part, rows)).sum(0) for part in parts], 1)

    @abstractmethod
    def between(self, rows: Tensor) -> Tensor:
        """V_ij for some rows i and j, shape (s, K, s, K)."""

    def within(self, rows: Tensor) -> Callable[[Tensor], Tensor]:
        """Products of V between some rows with values of these, shape (s, K, c)."""
        blocks = self.between(rows)
        return lambda values: torch.einsum("ikjm,jmc->ikc", blocks, values)

    def rough(self) -> Influence:
        """V for corrections that need few digits, in less time where the structure allows it."""
        return self


class BlockDiagonal(Influence):
    """No terms between outputs: V_ij = diag(S_1[i, j], …, S_K[i, j]).

    Args:
        outputs: S_k of every output; outputs of the same curvature share one.
    """

    def __init__(self, outputs: Sequence[Influence]) -> None:
        self.outputs = outputs

    @cached_property
    def blocks(self) -> Tensor:
        """The diagonal blocks V_ii, shape (n, K, K)."""
        diagonals = {one: one.blocks[:, 0, 0] for one in set(self.outputs)}
        return torch.diag_embed(torch.stack([diagonals[one] for one in self.outputs], 1))

    def __matmul__(self, values: Tensor) -> Tensor:
        pairs = zip(self.outputs, values, strict=True)
        return torch.cat([one @ value.unsqueeze(0) for one, value in pairs])

    def columns(self, rows: Tensor, values: Tensor, onto: Tensor | None = None) -> Tensor:
        """V_ji u_i of some rows i; see :meth:`Influence.columns`."""
        ones = torch.ones_like(values[:, :1])
        columns = {one: one.columns(rows, ones, onto) for one in set(self.outputs)}
        pairs = zip(self.outputs, values.T, strict=True)
        return torch.cat([columns[one] * value for one, value in pairs])

    def at(self, rows: Tensor, values: Tensor) -> Tensor:
        """(V u)_i of single rows; see :meth:`Influence.at`."""
        pairs = zip(self.outputs, values, strict=True)
        return torch.cat([one.at(rows, value.unsqueeze(0)) for one, value in pairs], 1)

    def between(self, rows: Tensor) -> Tensor:
        """V_ij for some rows; see :meth:`Influence.between`."""
        blocks = {one: one.between(rows)[:, 0, :, 0] for one in set(self.outputs)}
        size, count = len(rows), len(self.outputs)
        joint = next(iter(blocks.values())).new_zeros(size, count, size, count)
        for k, one in enumerate(self.outputs):
            joint[:, k, :, k] = blocks[one]
        return joint
