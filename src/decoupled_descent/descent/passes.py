"""One pass over the rows in mini-batches: the step of descents with ``batch_size``."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.batches import Batch, Batched
from decoupled_descent.descent.folds import NONE, Folds
from decoupled_descent.descent.head import HeadSlots
from decoupled_descent.descent.info import Info
from decoupled_descent.descent.lazy import LazyRows, next_transition
from decoupled_descent.descent.rules import Slots
from decoupled_descent.descent.stepping import Product
from decoupled_descent.objective import BoundObjective, Parameters, RowDerivatives
from decoupled_descent.rows.blocks import Rows


class Moving(NamedTuple):
    """What a mini-batch changes; gradient descent has no memory."""

    theta: Tensor  # θ, shape (L, d)
    slots: Slots  # what the update rule carries for θ
    head: Parameters  # a, by parameter name
    head_slots: HeadSlots  # what the head's optimiser carries
    memory: LazyRows | None  # M and what the update rule carries for it
    folds: Folds = NONE  # the heads of the folds


def passing(
    algorithm: Batched, at: Moving, rows: Rows, bound: BoundObjective, number: int
) -> Generator[Any, Any, tuple[Moving, Info]]:
    r"""Evaluate the iterate on all rows, then make the updates of pass ``number``.

    The notes of the info have ``pass_error``, the mean loss over the pass with each row at its own
    update, and its standard error.
    """
    batches = algorithm.batches(rows, number)
    h: Tensor = (yield Product(at.theta, rows, transposed=True)).clone()
    losses, pairs = _evaluate(algorithm, at, h, rows, bound, number * len(batches))
    factors = algorithm.memory_factors(rows)
    seen: list[Tensor] = []
    for k in range(len(batches)):
        batch, step = batches[k], number * len(batches) + k
        weight = rows.n / len(batch.rows)
        b: Tensor = yield Product(at.theta, batch.X, transposed=True)
        kept = () if at.memory is None else at.memory.read(batch.rows)
        b = b + kept[0] if kept else b
        found = _look(algorithm, at, batch, b, rows, bound.at(step))
        left = algorithm.judged(at.folds, bound, b.T, batch.y, found.loss, rows.n, batch.rows)
        seen.append(left.losses)
        direction = found.direction.T * weight
        gradient: Tensor = yield Product(direction, batch.X, transposed=False)
        tilde = algorithm.corrected(gradient, found.jacobian, at.theta, rows)
        tilde, direction = algorithm.preconditioned(found.jacobian, tilde, direction)
        scale = algorithm.scale(rows.n)
        theta, slots = algorithm.update(at.theta, tilde, at.slots, step, scale)
        if at.memory is not None:
            if factors is not None:
                direction = direction * factors[:, batch.rows]
            value, kept = algorithm.update(kept[0], direction, kept[1:], step, -scale)
            at.memory.advance(next_transition(algorithm.update, step, at.theta, at.slots))
            at.memory.write(batch.rows, (value, *kept))
        head, head_slots = algorithm.step_head(at.head, found.head, at.head_slots, step)
        folds = algorithm.step_folds(at.folds, left, step)
        at = Moving(theta, slots, head, head_slots, at.memory, folds)
    during = Info(torch.cat(seen), h.T, None)
    notes = {"pass_error": during.train_error, "pass_error_stderr": during.train_error_stderr}
    return at, Info(losses, h.T, None, notes=notes, pairs=pairs)


def _evaluate(
    algorithm: Batched, at: Moving, h: Tensor, rows: Rows, bound: BoundObjective, step: int
) -> tuple[Tensor, Tensor | float]:
    """Losses of all rows and the variance from pairs of rows; the memory is added to h in place."""
    if at.memory is None:
        with torch.no_grad():
            return bound.losses(h.T, rows.y, at.head).detach(), 0.0
    memory = at.memory.settled()[0]
    h += memory
    now = bound.at(step).derivatives(h.T, rows.y, at.head, jacobian=False, head=False)
    whole = algorithm.judged(at.folds, bound, h.T, rows.y, now.loss, rows.n)
    pairs = algorithm.pair_variance(memory @ now.direction, rows, bound) + whole.variance
    return whole.losses, pairs


def _look(
    algorithm: Batched, at: Moving, batch: Batch, h: Tensor, rows: Rows, bound: BoundObjective
) -> RowDerivatives:
    """Differentiate on one batch, given hᵀ of shape (L, B)."""
    shares = algorithm.row_shares(rows)
    return bound.derivatives(
        h.T,
        batch.y,
        at.head,
        jacobian=algorithm.uses_jacobian,
        head=algorithm.trains_head,
        spacing=algorithm.spacing(at.theta, rows, bound, len(batch.rows)),
        jacobian_weights=None if shares is None else shares[batch.rows],
    )
