r"""One pass over the rows: everything the steps of one or several runs need to know of the data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.objective.derivatives import Parameters, RowDerivatives
from decoupled_descent.objective.objective import Direction, HeadDirection, Objective
from decoupled_descent.rows.blocks import Block, Rows
from decoupled_descent.rows.products import backward, forward


class Request(NamedTuple):
    r"""What one run wants to know.

    Attributes:
        objective: Ψ.
        theta: θ, shape (L, d).
        head: a, by parameter name.
        memory: Mᵀ, shape (L, n), added to the pre-activations; None for nothing.
        jacobian: Whether J̄ is wanted.
        trains_head: Whether the head's direction is wanted.
        g: Replaces ∇_hΨ.
        f: Replaces ∇_aΨ.
        spacing: The steps of smoothed differences.
        weights: How much each of the n rows counts in J̄; None for one each.
    """

    objective: Objective
    theta: Tensor
    head: Parameters
    memory: Tensor | None = None
    jacobian: bool = False
    trains_head: bool = True
    g: Direction | None = None
    f: HeadDirection | None = None
    spacing: Tensor | None = None
    weights: Tensor | None = None

    def look(self, h: Tensor, block: Block) -> RowDerivatives:
        """Differentiate on one block, given hᵀ of shape (L, b)."""
        return self.objective.derivatives(
            h.T,
            block.y,
            self.head,
            g=self.g,
            f=self.f,
            jacobian=self.jacobian,
            head=self.trains_head,
            spacing=self.spacing,
            weights=None if self.weights is None else self.weights[block.span],
        )


class Pass(NamedTuple):
    r"""What one pass found for one run.

    Attributes:
        losses: Ψ(h_i, y_i, a), shape (n,).
        preactivations: hᵀ, shape (L, n): Xθ plus the memory.
        direction: ĥᵀ, shape (L, n).
        gradient: ĥᵀX, shape (L, d).
        jacobian: J̄, shape (L, L), or None.
        head: Mean of f over the rows, by parameter name.
    """

    losses: Tensor
    preactivations: Tensor
    direction: Tensor
    gradient: Tensor
    jacobian: Tensor | None
    head: Parameters


def one_pass(rows: Rows, requests: Sequence[Request]) -> list[Pass]:
    r"""Go through the rows once: forward, derivatives and ĥᵀX while a block is in the cache.

    The runs' parameters are stacked, so that X meets all of them in two products. Pre-activations
    and ĥ are kept feature by feature, (L, n), the layout in which these products are fastest.

    Args:
        rows: The data.
        requests: One per run.

    Returns:
        One answer per request.

    Example:
        >>> import decoupled_descent as dd
        >>> objective = dd.Objective(dd.heads.Linear(), "squared")
        >>> rows = dd.Rows(torch.eye(3), torch.zeros(3))
        >>> (found,) = one_pass(rows, [Request(objective, torch.ones(1, 3), {})])
        >>> found.gradient
        tensor([[1., 1., 1.]])
    """
    ends = [0]
    for request in requests:
        ends.append(ends[-1] + len(request.theta))
    spans = [slice(a, b) for a, b in pairwise(ends)]
    alone = len(requests) == 1
    theta = requests[0].theta if alone else torch.cat([request.theta for request in requests])
    gradient: Tensor | None = None
    parts: list[list[_Part]] = [[] for _ in requests]
    for block in rows.blocks():
        if alone:
            preactivations = [_forward(requests[0], block, rows.n)]
        else:
            stacked = forward(theta, block.X)
            preactivations = [
                _remember(request, stacked[span], block)
                for request, span in zip(requests, spans, strict=True)
            ]
        share = block.X.shape[0] / rows.n
        directions = []
        for request, h, seen in zip(requests, preactivations, parts, strict=True):
            found = request.look(h, block)
            directions.append(found.direction.T)
            seen.append(_Part(share, h, directions[-1], found))
        direction = directions[0] if alone else torch.cat(directions)
        gradient = backward(direction, block.X, gradient)
    assert gradient is not None
    if alone:
        return [_join(parts[0], gradient)]
    return [_join(seen, gradient[span]) for seen, span in zip(parts, spans, strict=True)]


class _Part(NamedTuple):
    """One block's share of the rows, its hᵀ and ĥᵀ, and its derivatives."""

    share: float
    preactivations: Tensor
    direction: Tensor
    found: RowDerivatives


def _forward(request: Request, block: Block, n: int) -> Tensor:
    """θXᵀ + Mᵀ on one block, in one operation."""
    memory = request.memory
    if memory is not None and block.X.shape[0] < n:
        memory = memory[:, block.span]
    return forward(request.theta, block.X, memory)


def _remember(request: Request, h: Tensor, block: Block) -> Tensor:
    """Add the memory to a run's share of the stacked pre-activations."""
    return h if request.memory is None else h + request.memory[:, block.span]


def _join(parts: list[_Part], gradient: Tensor) -> Pass:
    """Put blocks together: concatenate what is per row, weight means by their share of the rows."""
    if len(parts) == 1:
        _, h, direction, found = parts[0]
        return Pass(found.loss, h, direction, gradient, found.jacobian, found.head)

    def average(values: list[Tensor]) -> Tensor:
        total = parts[0].share * values[0]
        for part, value in zip(parts[1:], values[1:], strict=True):
            total = torch.add(total, value, alpha=part.share)
        return total

    bends = [part.found.jacobian for part in parts if part.found.jacobian is not None]
    names = parts[0].found.head
    return Pass(
        torch.cat([part.found.loss for part in parts]),
        torch.cat([part.preactivations for part in parts], 1),
        torch.cat([part.direction for part in parts], 1),
        gradient,
        average(bends) if bends else None,
        {name: average([part.found.head[name] for part in parts]) for name in names},
    )
