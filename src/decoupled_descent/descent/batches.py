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
from decoupled_descent.descent.stepping import Found, Pass, Product, Steps
from decoupled_descent.objective import BoundObjective, Parameters
from decoupled_descent.rows.blocks import Rows


class State(NamedTuple):
    r"""What a descent carries from step to step; gradient descent has no memory."""

    theta: Tensor  # θ, shape (L, d)
    memory: Tensor | None  # Mᵀ, shape (L, n), laid out like θ: M_t = η₁ Σ_{s<t} η₀^{t−1−s} ĥ_s
    head: Parameters  # a, by parameter name
    slots: tuple[Slots, Slots]  # what the update rule carries for θ and for the memory
    head_slots: HeadSlots  # what the head's optimiser carries
    step: int  # how many updates have been made
    folds: Folds = NONE  # the heads of the folds


@dataclass(frozen=True)
class Batched(Descent):
    """Descents along the gradient, on all rows or on mini-batches, with or without a memory.

    :class:`DecoupledDescent` describes the options.
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

    def stepping(self, state: State, rows: Rows, bound: BoundObjective) -> Steps:
        """One update from one pass over the rows, or a pass in mini-batches."""
        if self.batch_size is not None:
            return (yield from self._passing(state, rows, bound))
        found: Found = yield self.looking(state, rows, bound, state.step, state.memory)
        tilde, direction = self.directions(
            found.gradient, found.direction, found.jacobian, state.theta, rows
        )
        scale, (slots, memory_slots), memory = self.scale(rows.n), state.slots, state.memory
        theta, slots = self.update(state.theta, tilde, slots, state.step, scale)
        if memory is not None:
            memory, memory_slots = self.update(memory, direction, memory_slots, state.step, -scale)
        head, head_slots = self.step_head(state.head, found.head, state.head_slots, state.step)
        h = found.preactivations.T
        seen = state.folds.look(bound, h, rows.y, found.losses, rows.n)
        folds = self.step_folds(state.folds, seen, state.step)
        pairs = self.pair_variance(found.overlap, rows, bound) + seen.variance
        info = Info(seen.losses, h, found.jacobian, pairs=pairs, everywhere=found.everywhere)
        kept = (slots, memory_slots)
        return State(theta, memory, head, kept, head_slots, state.step + 1, folds), info

    def _passing(self, state: State, rows: Rows, bound: BoundObjective) -> Steps:
        r"""Evaluate the iterate on all rows, then make the updates of one pass.

        The notes of the info have ``pass_error``, the mean loss over the pass with each row at its
        own update, and its standard error.
        """
        batches = self.batches(rows, state.step)
        first = state.step * len(batches)
        h: Tensor = (yield Product(state.theta, rows, transposed=True)).clone()
        losses, pairs = self._evaluate(state, h, rows, bound, first)
        memory = None if state.memory is None else LazyRows(state.memory, state.slots[1])
        at, seen = state, []
        for k in range(len(batches)):
            at, own = yield from self._update(at, memory, batches[k], rows, bound, first + k)
            seen.append(own)
        if memory is not None:
            value, *slots = memory.settled()
            at = at._replace(memory=value, slots=(at.slots[0], tuple(slots)))
        during = Info(torch.cat(seen), h.T, None)
        notes = {"pass_error": during.train_error, "pass_error_stderr": during.train_error_stderr}
        return at._replace(step=state.step + 1), Info(losses, h.T, None, notes=notes, pairs=pairs)

    def _evaluate(
        self, at: State, h: Tensor, rows: Rows, bound: BoundObjective, step: int
    ) -> tuple[Tensor, Tensor | float]:
        """Losses of all rows, and the variance from pairs; the memory is added to h in place."""
        if at.memory is None:
            with torch.no_grad():
                return bound.losses(h.T, rows.y, at.head).detach(), 0.0
        h += at.memory
        now = bound.at(step).derivatives(h.T, rows.y, at.head, jacobian=False, head=False)
        whole = at.folds.look(bound, h.T, rows.y, now.loss, rows.n)
        pairs = self.pair_variance(at.memory @ now.direction, rows, bound) + whole.variance
        return whole.losses, pairs

    def _update(
        self,
        at: State,
        memory: LazyRows | None,
        batch: Batch,
        rows: Rows,
        bound: BoundObjective,
        step: int,
    ) -> Generator[Any, Any, tuple[State, Tensor]]:
        """Make one update, and return the losses of the batch before it."""
        h: Tensor = yield Product(at.theta, batch.X, transposed=True)
        kept = () if memory is None else memory.read(batch.rows)
        h = h + kept[0] if kept else h
        request = self.looking(at, rows, bound, step, count=len(batch.rows))
        found = request.look(h, batch.y, batch.rows)
        left = at.folds.look(bound, h.T, batch.y, found.loss, rows.n, batch.rows)
        direction = found.direction.T * (rows.n / len(batch.rows))
        gradient: Tensor = yield Product(direction, batch.X, transposed=False)
        tilde, direction = self.directions(
            gradient, direction, found.jacobian, at.theta, rows, batch.rows
        )
        scale, (before, memory_slots) = self.scale(rows.n), at.slots
        theta, slots = self.update(at.theta, tilde, before, step, scale)
        if memory is not None:
            value, kept = self.update(kept[0], direction, kept[1:], step, -scale)
            memory.advance(next_transition(self.update, step, at.theta, before))
            memory.write(batch.rows, (value, *kept))
        head, head_slots = self.step_head(at.head, found.head, at.head_slots, step)
        folds = self.step_folds(at.folds, left, step)
        moved = State(theta, at.memory, head, (slots, memory_slots), head_slots, at.step, folds)
        return moved, left.losses

    def looking(
        self,
        at: State,
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


class Batches:
    """The batches of one pass over the rows; the same at every call.

    The last one of each way to draw batches is kept: runs in a stack all ask for the same one.

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
        index: Tensor = self.rows.recall(f"order {self.plan}", (self.number,), self._order)[k]

        def gather() -> Batch:
            return Batch(index, self.rows.take(index), self.rows.y[index])

        found: Batch = self.rows.recall(f"batch {self.plan}", (self.number, k), gather)
        return found

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
