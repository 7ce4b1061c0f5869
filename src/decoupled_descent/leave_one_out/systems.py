r"""Systems of rows that leave together: products with V_GG, and with (I − W_G V_GG)⁻¹.

A single row, or a small group, has a matrix. A large group with several outputs, such as a fold,
has none: V_GG is applied as it is stored, and the system is solved by conjugate gradients. I − WV
is symmetric in the inner product of V,

.. math:: \langle x, (I - WV)\,y\rangle_V = x^\top V y - x^\top V W V y,

so that a step takes one product with V, which grows linearly with the number of outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.conjugate_gradients import Iterate, conjugate_gradients
from decoupled_descent.leave_one_out.minimum import Minimum

#: Groups with more outputs of rows than this are solved by conjugate gradients.
LARGE = 400
#: Conjugate gradients end at this residual, relative to the first one, or after so many steps. If
#: they have not converged by then, the system is nearly singular and is solved with its matrix.
CLOSE, MOST_STEPS = 1e-6, 100


class MatrixSystems(NamedTuple):
    """m groups of s rows each, by matrices."""

    rows: Tensor  # shape (m, s)
    block: Tensor  # V_GG, shape (m, sK, sK)
    system: Tensor  # I − W_G V_GG, shape (m, sK, sK)

    @classmethod
    def of(cls, minimum: Minimum, rows: Tensor, block: Tensor) -> MatrixSystems:
        """From the blocks between the rows of each group, shape (m, s, K, s, K)."""
        size = block.shape[1] * block.shape[2]
        product = torch.einsum("gsab,gsbtc->gsatc", minimum.hessians(rows), block)
        identity = torch.eye(size, dtype=block.dtype, device=block.device)
        system = identity - product.reshape(-1, size, size)
        return cls(rows, block.reshape(-1, size, size), system)

    def times(self, values: Tensor) -> Tensor:
        """V_GG of values (m, sK, c)."""
        return self.block @ values

    def solve(self, values: Tensor) -> Tensor:
        """(I − W_G V_GG)⁻¹ of values (m, sK, c)."""
        solved: Tensor = torch.linalg.solve(self.system, values)
        return solved

    def solve_transposed(self, values: Tensor) -> Tensor:
        """(I − V_GG W_G)⁻¹ of values (m, sK, c)."""
        solved: Tensor = torch.linalg.solve(self.system.mT, values)
        return solved


class LargeGroup:
    """One large group, without matrices; the methods are those of :class:`MatrixSystems`."""

    def __init__(self, minimum: Minimum, rows: Tensor) -> None:
        self.minimum, self.rows = minimum, rows.unsqueeze(0)
        self.within = minimum.influence.within(rows)
        self.hessians = minimum.hessians(rows)

    def times(self, values: Tensor) -> Tensor:
        """V_GG of values (1, sK, c)."""
        return self._rows(self.within, values)

    def _bend(self, values: Tensor) -> Tensor:
        """W_G of values (1, sK, c)."""
        return self._rows(lambda each: self.hessians @ each, values)

    def _rows(self, function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
        by_row = values.reshape(len(self.hessians), -1, values.shape[2])
        return function(by_row).reshape(values.shape)

    def solve(self, values: Tensor) -> Tensor:
        """(I − W_G V_GG)⁻¹ of values (1, sK, c)."""
        moved = self._outputs(values)
        if moved is None:
            block = self.minimum.influence.between(self.rows[0]).unsqueeze(0)
            return MatrixSystems.of(self.minimum, self.rows, block).solve(values)
        return values + self._bend(moved)

    def solve_transposed(self, values: Tensor) -> Tensor:
        """(I − V_GG W_G)⁻¹ of values (1, sK, c)."""
        return values + self.times(self.solve(self._bend(values)))

    def _outputs(self, values: Tensor) -> Tensor | None:
        """V_GG times the solution; None if conjugate gradients do not converge.

        They solve (V⁻¹ − W) y = values, with the approximate inverse V. A vector is a pair
        (y, V⁻¹y), so that V⁻¹ is never needed.
        """
        found = conjugate_gradients(
            lambda pair: (pair[1] - self._bend(pair[0]), values.new_zeros(())),
            lambda rest: torch.stack([self.times(rest), rest]),
            values,
            _converged,
            MOST_STEPS,
            inner=lambda pair, rest: (pair[0] * rest).sum(1, keepdim=True),
        )
        return found.x[0] if _converged(found) else None


def _converged(at: Iterate) -> bool:
    return bool((at.size <= CLOSE**2 * at.first).all())


def systems(minimum: Minimum) -> Iterator[MatrixSystems | LargeGroup]:
    """The systems of all rows, or of all groups.

    Single rows come first, together, then the groups of several, one by one.
    """
    groups, blocks = minimum.problem.rows.groups, minimum.influence.blocks[:, None, :, None]
    if groups is None:
        rows = torch.arange(len(blocks), device=blocks.device).unsqueeze(1)
        yield MatrixSystems.of(minimum, rows, blocks)
        return
    sizes = torch.bincount(groups)
    alone = (sizes[groups] == 1).nonzero()
    if len(alone):
        yield MatrixSystems.of(minimum, alone, blocks[alone.squeeze(1)])
    for rows in torch.split(groups.argsort(stable=True), sizes.tolist()):
        if blocks.shape[2] > 1 and len(rows) * blocks.shape[2] > LARGE:
            yield LargeGroup(minimum, rows)
        elif len(rows) > 1:
            block = minimum.influence.between(rows).unsqueeze(0)
            yield MatrixSystems.of(minimum, rows.unsqueeze(0), block)
