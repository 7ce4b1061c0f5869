r"""Mini-batches: which rows they have, and a pass over all of them.

A mini-batch that is drawn independently of the data multiplies row i of ĥ by s_i = n/|B| if i is in
it and by 0 if not. The corrections hold for any function of the row, so also for this one:

.. math::
   \hat h = s \odot g(h, y, a), \qquad
   \tilde\theta = X^\top\hat h - \alpha\,\theta \bar J^\top, \qquad
   \bar J = \tfrac1n\textstyle\sum_i s_i \nabla g(h_i, y_i, a),

The memory of the rows in the batch takes ĥ in; that of all others follows the update rule alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from decoupled_descent.checks import whole_number
from decoupled_descent.descent.common import Descent
from decoupled_descent.objective import BoundObjective
from decoupled_descent.rows.blocks import Rows


@dataclass(frozen=True)
class Batched(Descent):
    """The options of descents that can take mini-batches.

    Args:
        batch_size: Rows per update; all of them by default. A step is one pass over the rows, with
            n/batch_size updates. Schedules count the updates.
        replacement: Whether every batch is a new draw from all rows. By default each row comes once
            per pass.
        batch_seed: Draws the batches.
    """

    batch_size: int | None = None
    replacement: bool = False
    batch_seed: int = 0

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.batch_size is not None:
            whole_number("batch_size", self.batch_size)
        whole_number("batch_seed", self.batch_seed, 0)

    @property
    def settings(self) -> Mapping[str, float]:
        """The numeric options by name; those of batches only if there are batches."""
        given = super().settings
        return {k: v for k, v in given.items() if self.batch_size or k != "batch_seed"}

    def batches(self, rows: Rows, number: int) -> Batches:
        """Return the batches of one pass."""
        assert self.batch_size is not None
        if rows.processes is not None:
            raise ValueError(
                f"batch_size={self.batch_size}: mini-batches are drawn from rows in one process; "
                "leave out batch_size, or group"
            )
        if rows.in_order_only:
            raise ValueError(
                f"batch_size={self.batch_size}: the rows of X come in one order only, but "
                "mini-batches need single rows: pass an array on disk or a dataset with an index"
            )
        size = min(self.batch_size, rows.n)
        return Batches(rows, size, self.replacement, self.batch_seed, number)

    def corrected(
        self, gradient: Tensor, jacobian: Tensor | None, theta: Tensor, rows: Rows
    ) -> Tensor:
        """θ̃ᵀ from the gradient (L, d); without a correction they are equal."""
        return gradient

    def pair_variance(
        self, overlap: Tensor | None, rows: Rows, bound: BoundObjective
    ) -> Tensor | float:
        """Variance of the train error that comes from pairs of rows."""
        return 0.0

    def preconditioned(
        self, jacobian: Tensor | None, tilde: Tensor, direction: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return θ̃ᵀ and ĥᵀ as the update rule gets them."""
        return tilde, direction

    def memory_factors(self, rows: Rows) -> Tensor | None:
        """What multiplies ĥᵀ in the memory, shape (1, n); None for one."""
        return None

    def spacing(
        self, theta: Tensor, rows: Rows, bound: BoundObjective, count: int | None = None
    ) -> Tensor | None:
        """Step sizes of the smoothed differences over ``count`` rows; None if none are needed."""
        return None


class Batch(NamedTuple):
    """Some rows."""

    rows: Tensor  # which they are
    X: Tensor  # features, shape (B, d)
    y: Tensor  # labels, B rows


#: The last batch of each way to draw batches. Runs in a stack all ask for the same one.
_latest: WeakKeyDictionary[Rows, dict[Any, tuple[Any, Any]]] = WeakKeyDictionary()


class Batches:
    """The batches of one pass over the rows; the same at every call.

    Example:
        >>> rows = Rows(torch.eye(5), torch.arange(5.0))
        >>> batches = Batches(rows, 2, False, 0, 0)
        >>> [len(batches[k].rows) for k in range(len(batches))]
        [2, 2, 1]
    """

    def __init__(self, rows: Rows, size: int, replacement: bool, seed: int, number: int) -> None:
        self.rows, self.size, self.number = rows, size, number
        self.plan = (size, replacement, seed)

    def __len__(self) -> int:
        """How many updates a pass has."""
        return math.ceil(self.rows.n / self.size)

    def __getitem__(self, k: int) -> Batch:
        """Gather the rows of batch k."""
        index: Tensor = self._kept("order", self.number, self._order)[k]

        def gather() -> Batch:
            return Batch(index, self.rows.take(index), self.rows.y[index])

        found: Batch = self._kept("batch", (self.number, k), gather)
        return found

    def _kept(self, what: str, key: Any, make: Any) -> Any:
        kept = _latest.setdefault(self.rows, {})
        place = (what, *self.plan)
        if place not in kept or kept[place][0] != key:
            kept[place] = (key, make())
        return kept[place][1]

    def _order(self) -> list[Tensor]:
        """Draw the pass: all rows in random order, or independent subsets."""
        size, replacement, seed = self.plan
        text = f"batches {seed} {self.number}"
        digest = hashlib.blake2b(text.encode(), digest_size=4).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
        n, device = self.rows.n, self.rows.like.device
        if replacement:
            return [subset(n, size, generator).to(device) for _ in range(len(self))]
        order = torch.randperm(n, generator=generator, device=generator.device)
        return list(torch.split(order.to(device), size))


def subset(n: int, size: int, generator: torch.Generator) -> Tensor:
    """Draw ``size`` of n numbers without repetition, in time proportional to ``size``."""
    device = generator.device
    if 2 * size > n:
        return torch.randperm(n, generator=generator, device=device)[:size]
    found = torch.empty(0, dtype=torch.int64, device=device)
    while len(found) < size:
        drawn = torch.randint(n, (2 * size,), generator=generator, device=device)
        found = torch.unique(torch.cat([found, drawn]))
    return found[torch.randperm(len(found), generator=generator, device=device)[:size]]
