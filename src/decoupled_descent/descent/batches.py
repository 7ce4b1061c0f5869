r"""Mini-batches: which rows they have, and the step of descents with ``batch_size``.

A mini-batch that is drawn independently of the data multiplies row i of ĥ by s_i = n/|B| if i is in
it and by 0 if not. The corrections hold for any function of the row, so also for this one:

.. math::
   \hat h = s \odot g(h, y, a), \qquad
   \tilde\theta = X^\top\hat h - \alpha\,\theta \bar J^\top, \qquad
   \bar J = \tfrac1n\textstyle\sum_i s_i \nabla g(h_i, y_i, a),

The memory of the rows in the batch takes ĥ in; that of all others follows the update rule alone.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from decoupled_descent.checks import whole_number
from decoupled_descent.descent.common import Descent
from decoupled_descent.descent.folds import NONE, Folds
from decoupled_descent.descent.head import HeadSlots
from decoupled_descent.descent.info import Info
from decoupled_descent.descent.lazy import LazyRows, next_transition
from decoupled_descent.descent.rules import Slots
from decoupled_descent.descent.starts import stream
from decoupled_descent.descent.stepping import Pass, Product
from decoupled_descent.objective import BoundObjective, Parameters
from decoupled_descent.rows.blocks import Rows


class Moving(NamedTuple):
    """What a mini-batch changes; gradient descent has no memory."""

    theta: Tensor  # θ, shape (L, d)
    slots: Slots  # what the update rule carries for θ
    head: Parameters  # a, by parameter name
    head_slots: HeadSlots  # what the head's optimiser carries
    memory: LazyRows | None  # M and what the update rule carries for it
    folds: Folds = NONE  # the heads of the folds


@dataclass(frozen=True)
class Batched(Descent):
    """The options of descents with mini-batches; :class:`DecoupledDescent` describes them."""

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

    def directions(
        self,
        gradient: Tensor,
        direction: Tensor,
        jacobian: Tensor | None,
        theta: Tensor,
        rows: Rows,
        which: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Along what the update rule moves θᵀ, given ĥᵀX and ĥᵀ, and along what the memory.

        ``which`` has the numbers of the rows of ĥᵀ if these are not all.
        """
        return gradient, direction

    def pair_variance(
        self, overlap: Tensor | None, rows: Rows, bound: BoundObjective
    ) -> Tensor | float:
        """Variance of the train error that comes from pairs of rows."""
        return 0.0

    def spacing(
        self, theta: Tensor, rows: Rows, bound: BoundObjective, count: int | None = None
    ) -> Tensor | None:
        """Step sizes of the smoothed differences over ``count`` rows; None if none are needed."""
        return None

    def passing(
        self, at: Moving, rows: Rows, bound: BoundObjective, number: int
    ) -> Generator[Any, Any, tuple[Moving, Info]]:
        r"""Evaluate the iterate on all rows, then make the updates of pass ``number``.

        The notes of the info have ``pass_error``, the mean loss over the pass with each row at its
        own update, and its standard error.
        """
        batches = self.batches(rows, number)
        h: Tensor = (yield Product(at.theta, rows, transposed=True)).clone()
        losses, pairs = self._evaluate(at, h, rows, bound, number * len(batches))
        seen: list[Tensor] = []
        for k in range(len(batches)):
            at, own = yield from self._update(
                at, batches[k], rows, bound, number * len(batches) + k
            )
            seen.append(own)
        during = Info(torch.cat(seen), h.T, None)
        notes = {"pass_error": during.train_error, "pass_error_stderr": during.train_error_stderr}
        return at, Info(losses, h.T, None, notes=notes, pairs=pairs)

    def _evaluate(
        self, at: Moving, h: Tensor, rows: Rows, bound: BoundObjective, step: int
    ) -> tuple[Tensor, Tensor | float]:
        """Losses of all rows, and the variance from pairs; the memory is added to h in place."""
        if at.memory is None:
            with torch.no_grad():
                return bound.losses(h.T, rows.y, at.head).detach(), 0.0
        memory = at.memory.settled()[0]
        h += memory
        now = bound.at(step).derivatives(h.T, rows.y, at.head, jacobian=False, head=False)
        whole = self.judged(at.folds, bound, h.T, rows.y, now.loss, rows.n)
        pairs = self.pair_variance(memory @ now.direction, rows, bound) + whole.variance
        return whole.losses, pairs

    def _update(
        self, at: Moving, batch: Batch, rows: Rows, bound: BoundObjective, step: int
    ) -> Generator[Any, Any, tuple[Moving, Tensor]]:
        """Make one update, and return the losses of the batch before it."""
        h: Tensor = yield Product(at.theta, batch.X, transposed=True)
        kept = () if at.memory is None else at.memory.read(batch.rows)
        h = h + kept[0] if kept else h
        request = self.looking(at, rows, bound, step, count=len(batch.rows))
        found = request.look(h, batch.y, batch.rows)
        left = self.judged(at.folds, bound, h.T, batch.y, found.loss, rows.n, batch.rows)
        direction = found.direction.T * (rows.n / len(batch.rows))
        gradient: Tensor = yield Product(direction, batch.X, transposed=False)
        tilde, direction = self.directions(
            gradient, direction, found.jacobian, at.theta, rows, batch.rows
        )
        scale = self.scale(rows.n)
        theta, slots = self.update(at.theta, tilde, at.slots, step, scale)
        if at.memory is not None:
            value, kept = self.update(kept[0], direction, kept[1:], step, -scale)
            at.memory.advance(next_transition(self.update, step, at.theta, at.slots))
            at.memory.write(batch.rows, (value, *kept))
        head, head_slots = self.step_head(at.head, found.head, at.head_slots, step)
        folds = self.step_folds(at.folds, left, step)
        return Moving(theta, slots, head, head_slots, at.memory, folds), left.losses

    def looking(
        self,
        at: Any,
        rows: Rows,
        bound: BoundObjective,
        step: int,
        memory: Tensor | None = None,
        count: int | None = None,
    ) -> Pass:
        """What a step asks for at θ and a head: on all rows, or on ``count`` of them."""
        return Pass(
            bound.at(step),
            at.theta,
            at.head,
            memory,
            jacobian=self.uses_jacobian,
            trains_head=self.trains_head,
            spacing=self.spacing(at.theta, rows, bound, count),
            weights=self.row_shares(rows),
        )


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
        generator = stream(f"batches {seed} {self.number}")
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
