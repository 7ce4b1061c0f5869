r"""Steps that ask for products with the rows, so that runs on the same rows share them.

A step is a generator. It yields what it needs of the data, a :class:`Pass` over the rows or a
single :class:`Product`, is sent the answer, and returns the next state. :func:`together` advances
many steps at once and stacks their requests: X meets the parameters of all runs in one product.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.objective import BoundObjective, Parameters, RowDerivatives
from decoupled_descent.rows.blocks import Block, Rows
from decoupled_descent.rows.products import backward, forward

#: What a step is: yields requests, is sent answers, returns the next state and an ``Info``.
Steps = Generator[Any, Any, tuple[Any, Any]]


class Product(NamedTuple):
    """Ask for left Mᵀ (forward) or left M (backward), for a matrix M that runs may share."""

    left: Tensor  # shape (L, k)
    matrix: Tensor | Rows  # a tensor, or the rows themselves
    transposed: bool  # whether M is transposed: (L, d) meets X (n, d) that way


class Pass(NamedTuple):
    r"""Ask for a pass over the rows: forward, derivatives and ĥᵀX block by block."""

    bound: BoundObjective  # Ψ
    theta: Tensor  # θ, shape (L, d)
    head: Parameters  # a, by parameter name
    memory: Tensor | None = None  # Mᵀ, shape (L, n), added to the pre-activations; None for nothing
    jacobian: bool = False  # whether J̄ is wanted
    trains_head: bool = True  # whether the head's direction is wanted
    spacing: Tensor | None = None  # the steps of smoothed differences
    weights: Tensor | None = None  # how much each of the n rows counts in J̄; None for one each

    def look(self, h: Tensor, block: Block) -> RowDerivatives:
        """Differentiate on one block, given hᵀ of shape (L, b)."""
        return self.bound.derivatives(
            h.T,
            block.y,
            self.head,
            jacobian=self.jacobian,
            head=self.trains_head,
            spacing=self.spacing,
            jacobian_weights=None if self.weights is None else self.weights[block.span],
        )


class Found(NamedTuple):
    r"""What a pass found."""

    losses: Tensor  # Ψ(h_i, y_i, a), shape (n,)
    preactivations: Tensor  # hᵀ, shape (L, n): Xθ plus the memory
    direction: Tensor  # ĥᵀ, shape (L, n)
    gradient: Tensor  # ĥᵀX, shape (L, d)
    jacobian: Tensor | None  # J̄, shape (L, L), or None
    head: Parameters  # mean of f over the rows, by parameter name


def together(steps: Sequence[Steps], rows: Rows) -> list[tuple[Any, Any]]:
    """Run several steps to their end, with stacked products.

    Example:
        >>> def doubled(theta):
        ...     h = yield Product(theta, rows, transposed=True)
        ...     return h, 2 * h
        >>> rows = Rows(torch.eye(2), torch.zeros(2))
        >>> found = together([doubled(torch.ones(1, 2)), doubled(torch.zeros(1, 2))], rows)
        >>> [twice.tolist() for _, twice in found]
        [[[2.0, 2.0]], [[0.0, 0.0]]]
    """
    results: dict[int, tuple[Any, Any]] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(steps)))
    while answers:
        requests: dict[int, Any] = {}
        for index, answer in answers.items():
            try:
                requests[index] = steps[index].send(answer)
            except StopIteration as stop:
                results[index] = stop.value
        answers = _answer(requests, rows)
    return [results[index] for index in range(len(steps))]


def _answer(requests: dict[int, Any], rows: Rows) -> dict[int, Any]:
    """Answer all requests: passes in one pass, products with the same matrix in one product."""
    answers: dict[int, Any] = {}
    passes = {k: request for k, request in requests.items() if isinstance(request, Pass)}
    if passes:
        answers |= zip(passes, one_pass(rows, list(passes.values())), strict=True)
    groups: dict[tuple[int, bool], list[int]] = {}
    for index, request in requests.items():
        if index not in passes:
            groups.setdefault((id(request.matrix), request.transposed), []).append(index)
    for members in groups.values():
        answers |= zip(members, _multiply([requests[k] for k in members]), strict=True)
    return answers


def _multiply(products: Sequence[Product]) -> Sequence[Tensor]:
    first = products[0]
    left = first.left if len(products) == 1 else torch.cat([product.left for product in products])
    matrix, transposed = first.matrix, first.transposed
    if isinstance(matrix, Rows):
        result = matrix.forward(left) if transposed else matrix.backward(left)
    else:
        result = forward(left, matrix) if transposed else backward(left, matrix)
    return torch.split(result, [len(product.left) for product in products])


def one_pass(rows: Rows, requests: Sequence[Pass]) -> list[Found]:
    r"""Go through the rows once: forward, derivatives and ĥᵀX while a block is in the cache.

    Pre-activations and ĥ are kept feature by feature, (L, n), the layout in which the products with
    X are fastest.

    Example:
        >>> import decoupled_descent as dd
        >>> rows = dd.Rows(torch.eye(3), torch.zeros(3))
        >>> bound = dd.Objective(dd.heads.Linear(), "squared").bind(rows.y, 1, rows.like)
        >>> (found,) = one_pass(rows, [Pass(bound, torch.ones(1, 3), {})])
        >>> found.gradient
        tensor([[1., 1., 1.]])
    """
    alone, sizes = len(requests) == 1, [len(request.theta) for request in requests]
    theta = requests[0].theta if alone else torch.cat([request.theta for request in requests])
    gradient: Tensor | None = None
    parts: list[list[_Part]] = [[] for _ in requests]
    for block in rows.blocks():
        if alone:  # the memory is added by the product itself
            preactivations = [forward(theta, block.X, _memory(requests[0], block, rows.n))]
        else:
            preactivations = [  # copies: a run must not keep the others' numbers alive
                h.clone() if request.memory is None else h + request.memory[:, block.span]
                for request, h in zip(
                    requests, torch.split(forward(theta, block.X), sizes), strict=True
                )
            ]
        share = block.X.shape[0] / rows.n
        directions = []
        for request, h, seen in zip(requests, preactivations, parts, strict=True):
            found = request.look(h, block)
            directions.append(found.direction.T)
            seen.append(_Part(share, h, directions[-1], found))
        gradient = backward(directions[0] if alone else torch.cat(directions), block.X, gradient)
    assert gradient is not None
    gradients = [gradient] if alone else torch.split(gradient, sizes)
    return [_join(seen, own) for seen, own in zip(parts, gradients, strict=True)]


class _Part(NamedTuple):
    """One block's share of the rows, its hᵀ and ĥᵀ, and its derivatives."""

    share: float
    preactivations: Tensor
    direction: Tensor
    found: RowDerivatives


def _memory(request: Pass, block: Block, n: int) -> Tensor | None:
    if request.memory is None or block.X.shape[0] == n:
        return request.memory
    return request.memory[:, block.span]


def _join(parts: list[_Part], gradient: Tensor) -> Found:
    """Put blocks together: concatenate what is per row, weight means by their share of the rows."""
    if len(parts) == 1:
        _, h, direction, found = parts[0]
        return Found(found.loss, h, direction, gradient, found.jacobian, found.head)

    def average(values: list[Tensor]) -> Tensor:
        total = parts[0].share * values[0]
        for part, value in zip(parts[1:], values[1:], strict=True):
            total = torch.add(total, value, alpha=part.share)
        return total

    bends = [part.found.jacobian for part in parts if part.found.jacobian is not None]
    return Found(
        torch.cat([part.found.loss for part in parts]),
        torch.cat([part.preactivations for part in parts], 1),
        torch.cat([part.direction for part in parts], 1),
        gradient,
        average(bends) if bends else None,
        {name: average([part.found.head[name] for part in parts]) for name in parts[0].found.head},
    )
