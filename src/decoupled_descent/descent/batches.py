r"""Mini-batches: which rows they have, and a wrapper that turns a step into a pass in mini-batches.

A mini-batch B that is drawn independently of the data multiplies row i of ĥ by s_i = n/|B| if i is
in it and by 0 if not. The corrections hold for any function of the row, so also for this one:

.. math::
   \hat h = s \odot g(h, y, a), \qquad
   \tilde\theta = X^\top\hat h - \alpha\,\theta \bar J^\top, \qquad
   \bar J = \tfrac1n\textstyle\sum_i s_i \nabla g(h_i, y_i, a) .

This is n/|B| times the θ̃ of the rows of B alone. So an update on a mini-batch is the step on its
rows with a rate that is n/|B| times as large. The memory of the rows in B takes ĥ in; that of all
others follows the update rule alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.checks import whole_number
from decoupled_descent.descent.common import Descent
from decoupled_descent.descent.info import Info
from decoupled_descent.descent.lazy import LazyRows, next_transition
from decoupled_descent.descent.requests import RowProduct, StackedStep
from decoupled_descent.descent.starts import stream
from decoupled_descent.objective import BoundObjective
from decoupled_descent.rows.blocks import Rows

#: ``stacked_step`` of an algorithm: a function of the algorithm, its state, the rows and Ψ.
StepMethod = Callable[[Any, Any, Rows, BoundObjective], StackedStep]


@dataclass(frozen=True)
class Batched(Descent):
    """The options of descents on mini-batches; see :class:`DecoupledDescent`."""

    batch_size: int | None = None
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
        options = super().settings
        return {k: v for k, v in options.items() if self.batch_size or k != "batch_seed"}

    def batches(self, rows: Rows, number: int) -> Batches:
        """Return the batches of one pass."""
        assert self.batch_size is not None
        what = f"batch_size={self.batch_size}: mini-batches are drawn from"
        rows.require_one_process(f"{what} rows in one process")
        if rows.in_order_only:
            raise ValueError(
                f"batch_size={self.batch_size}: the rows of X come in one order only, but "
                "mini-batches need single rows: pass an array on disk or a dataset with an index"
            )
        size = min(self.batch_size, rows.n)
        return Batches(rows, size, self.batch_seed, number)

    def evaluate(self, state: Any, h: Tensor, rows: Rows, bound: BoundObjective) -> Info:
        """Evaluate an iterate on all rows before a pass, given θXᵀ of shape (L, n)."""
        with torch.no_grad():
            losses = bound.losses(h.T, rows.y, state.head).detach()
        return Info(losses, h.T.clone(), None)

    def lazy_memory(self, state: Any) -> LazyRows | None:
        """The memory during a pass; None for descents without one."""
        return None


def in_batches(step: StepMethod) -> StepMethod:
    """Wrap a step: with ``batch_size``, one pass makes the same step on each mini-batch in turn."""

    @wraps(step)
    def stacked_step(
        algorithm: Batched, state: Any, rows: Rows, bound: BoundObjective
    ) -> StackedStep:
        if algorithm.batch_size is None:
            return step(algorithm, state, rows, bound)
        return _one_pass(algorithm, step, state, rows, bound)

    return stacked_step


def _one_pass(
    algorithm: Batched, step: StepMethod, state: Any, rows: Rows, bound: BoundObjective
) -> StackedStep:
    r"""Evaluate the iterate on all rows, then make a step on each batch of the pass.

    The notes of the info have ``pass_error``, the mean loss over the pass with each row at its own
    update, and its standard error.
    """
    batches = algorithm.batches(rows, state.step)
    first = state.step * len(batches)
    h: Tensor = yield RowProduct(state.theta, rows, transposed=True)
    info = algorithm.evaluate(state, h, rows, bound.at(first))
    memory, at, losses = algorithm.lazy_memory(state), state, []
    for k in range(len(batches)):
        at, batch = at._replace(step=first + k), batches[k]
        assert batch.index is not None
        if memory is not None:
            at = _with_memory(at, memory.read(batch.index))
        at, step_info = yield from step(algorithm, at, batch, bound)
        if memory is not None:
            memory.advance(next_transition(algorithm.update, first + k, at.theta, at.slots[0]))
            memory.write(batch.index, (at.memory, *at.slots[1]))
        losses.append(step_info.losses)
    if memory is not None:
        at = _with_memory(at, memory.settled())
    during = Info(torch.cat(losses), h.T, None)
    notes = {"pass_error": during.train_error, "pass_error_stderr": during.train_error_stderr}
    return at._replace(step=state.step + 1), info._replace(notes=notes)


def _with_memory(state: Any, parts: tuple[Tensor, ...]) -> Any:
    """The state with another memory, and what the update rule carries for it."""
    return state._replace(memory=parts[0], slots=(state.slots[0], parts[1:]))


class Batches:
    """The batches of one pass over the rows; the same at every call.

    The last one of each way to draw batches is kept: runs in a stack all ask for the same one.

    Example:
        >>> rows = Rows(torch.eye(5), torch.arange(5.0))
        >>> batches = Batches(rows, 2, 0, 0)
        >>> [batches[k].n for k in range(len(batches))]
        [2, 2, 1]
    """

    def __init__(self, rows: Rows, size: int, seed: int, number: int) -> None:
        self.rows, self.size, self.number = rows, size, number
        self.plan = (size, seed)

    def __len__(self) -> int:
        """How many updates a pass has."""
        return math.ceil(self.rows.n / self.size)

    def __getitem__(self, k: int) -> Rows:
        """Gather the rows of batch k."""
        index: Tensor = self.rows.recall(f"order {self.plan}", (self.number,), self._order)[k]
        batch: Rows = self.rows.recall(
            f"batch {self.plan}", (self.number, k), lambda: self.rows.subset(index)
        )
        return batch

    def _order(self) -> list[Tensor]:
        """Draw the pass: all rows in random order."""
        size, seed = self.plan
        generator = stream(f"batches {seed} {self.number}")
        n, device = self.rows.n, self.rows.like.device
        order = torch.randperm(n, generator=generator, device=generator.device)
        return list(torch.split(order.to(device), size))
