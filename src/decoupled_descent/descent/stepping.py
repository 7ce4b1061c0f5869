r"""Steps that ask for products with the rows, so that runs on the same rows share them.

A step is a generator. It yields what it needs of the data, a :class:`Pass` over the rows or a
single :class:`Product`, is sent the answer, and returns the next state. :func:`together` advances
many steps at once and stacks their requests: one product of X serves all runs.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.objective import BoundObjective, Parameters, RowDerivatives
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.products import backward, forward, stacked

#: What a step is: yields requests, is sent answers, returns the next state and an ``Info``.
Steps = Generator[Any, Any, tuple[Any, Any]]


class Product(NamedTuple):
    """Ask for left Mᵀ (forward) or left M (backward), for a matrix M that runs may share."""

    left: Tensor  # shape (L, k)
    matrix: Tensor | Rows  # a tensor, or the rows themselves
    transposed: bool  # whether M is transposed: a product of (L, d) with X (n, d)


class Preconditioned(NamedTuple):
    """Ask for the ridge-preconditioned direction c qᵀXA⁻¹ of :mod:`decoupled_descent.rows.gram`."""

    left: Tensor  # qᵀ, shape (L, n)
    ridge: float  # λ, finite


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

    def look(self, h: Tensor, y: Tensor, which: slice | Tensor) -> RowDerivatives:
        """Differentiate on some rows, given their hᵀ of shape (L, b) and their places among all."""
        return self.bound.derivatives(
            h.T,
            y,
            self.head,
            jacobian=self.jacobian,
            head=self.trains_head,
            spacing=self.spacing,
            jacobian_weights=None if self.weights is None else self.weights[which],
        )


class Found(NamedTuple):
    r"""What a pass found."""

    losses: Tensor  # Ψ(h_i, y_i, a), shape (n,)
    preactivations: Tensor  # hᵀ, shape (L, n): Xθ plus the memory
    direction: Tensor  # ĥᵀ, shape (L, n)
    gradient: Tensor  # ĥᵀX, shape (L, d)
    jacobian: Tensor | None  # J̄, shape (L, L), or None
    head: Parameters  # mean of f over the rows, by parameter name
    overlap: Tensor | None  # M ĥᵀ, shape (L, L), summed over the rows; None without a memory
    everywhere: Tensor | None  # mean loss and standard error in all processes, if there are more


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
                following, info = stop.value
                results[index] = following, whole(info, rows)
        answers = _answer(requests, rows)
    return [results[index] for index in range(len(steps))]


def _answer(requests: dict[int, Any], rows: Rows) -> dict[int, Any]:
    """Answer all requests: passes in one pass, products with the same matrix in one product."""
    answers: dict[int, Any] = {}
    passes: dict[int, Pass] = {}
    ridges: dict[float, list[int]] = {}
    matrices: dict[tuple[int, bool], list[int]] = {}
    for index, request in requests.items():
        if isinstance(request, Pass):
            passes[index] = request
        elif isinstance(request, Preconditioned):
            ridges.setdefault(request.ridge, []).append(index)
        else:
            matrices.setdefault((id(request.matrix), request.transposed), []).append(index)
    if passes:
        answers |= zip(passes, one_pass(rows, list(passes.values())), strict=True)
    lefts = {k: request.left for k, request in requests.items() if k not in passes}
    if ridges:
        asked = {ridge: stacked(lefts[k] for k in members) for ridge, members in ridges.items()}
        for ridge, found in rows.gram.directions(asked).items():
            answers |= _split(found, ridges[ridge], lefts)
    for members in matrices.values():
        found = _multiply(requests[members[0]], stacked(lefts[k] for k in members))
        answers |= _split(found, members, lefts)
    return answers


def _split(found: Tensor, members: list[int], lefts: dict[int, Tensor]) -> dict[int, Tensor]:
    """Return a stacked product to those who asked for it."""
    return dict(zip(members, torch.split(found, [len(lefts[k]) for k in members]), strict=True))


def _multiply(product: Product, left: Tensor) -> Tensor:
    matrix, transposed = product.matrix, product.transposed
    if isinstance(matrix, Rows):
        return matrix.forward(left) if transposed else matrix.backward(left)
    return forward(left, matrix) if transposed else backward(left, matrix)


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
    sizes = [len(request.theta) for request in requests]
    theta, alone = stacked(request.theta for request in requests), len(requests) == 1
    gradient: Tensor | None = None
    parts: list[list[_Part]] = [[] for _ in requests]
    for block in rows.blocks():
        added = [
            each.memory if each.memory is None else each.memory[:, block.span] for each in requests
        ]
        if alone:  # the product adds the memory
            preactivations = [forward(theta, block.X, added[0])]
        else:
            together = torch.split(forward(theta, block.X), sizes)
            preactivations = [  # copies: a view would keep the memory of all other runs
                h.clone() if memory is None else h + memory
                for h, memory in zip(together, added, strict=True)
            ]
        share = block.X.shape[0] / rows.n
        for request, h, seen in zip(requests, preactivations, parts, strict=True):
            found = request.look(h, rows.y[block.span], block.span)
            seen.append(_Part(share, h, found.direction.T, found))
        gradient = backward(stacked(seen[-1].direction for seen in parts), block.X, gradient)
    assert gradient is not None
    joined = [
        _join(seen, own, request.memory)
        for request, seen, own in zip(requests, parts, torch.split(gradient, sizes), strict=True)
    ]
    return joined if rows.processes is None else [_everywhere(found, rows) for found in joined]


class _Part(NamedTuple):
    """One block's share of the rows, its hᵀ and ĥᵀ, and its derivatives."""

    share: float
    preactivations: Tensor
    direction: Tensor
    found: RowDerivatives


def _join(parts: list[_Part], gradient: Tensor, memory: Tensor | None) -> Found:
    """Put blocks together: concatenate what is per row, weight means by their share of the rows."""

    def average(values: list[Tensor]) -> Tensor:
        total = values[0] if parts[0].share == 1 else parts[0].share * values[0]
        for part, value in zip(parts[1:], values[1:], strict=True):
            total = torch.add(total, value, alpha=part.share)
        return total

    bends = [part.found.jacobian for part in parts if part.found.jacobian is not None]
    names = parts[0].found.head
    head = {name: average([part.found.head[name] for part in parts]) for name in names}
    losses = stacked(part.found.loss for part in parts)
    h = stacked((part.preactivations for part in parts), 1)
    direction = stacked((part.direction for part in parts), 1)
    overlap = None if memory is None else memory @ direction.T
    bend = average(bends) if bends else None
    return Found(losses, h, direction, gradient, bend, head, overlap, None)


def _everywhere(found: Found, rows: Rows) -> Found:
    """Sum what the processes found, in one message."""
    parts = [found.gradient, found.jacobian, found.overlap, *found.head.values()]
    (gradient, bend, overlap, *means), error = _totals(parts, found.losses, rows)
    head = dict(zip(found.head, means, strict=True))
    known = {"gradient": gradient, "jacobian": bend, "overlap": overlap, "head": head}
    return found._replace(**known, everywhere=error)


def summed(found: RowDerivatives, rows: Rows) -> tuple[RowDerivatives, Tensor | None]:
    """Means over the rows of all processes, from those over the rows of this one; and the losses'.

    The second is what :class:`Info` takes as ``everywhere``.
    """
    if rows.processes is None:
        return found, None
    share = rows.here / rows.n
    parts = [
        part if part is None else share * part for part in (found.jacobian, *found.head.values())
    ]
    (bend, *means), error = _totals(parts, found.loss, rows)
    return found._replace(jacobian=bend, head=dict(zip(found.head, means, strict=True))), error


def whole(info: Any, rows: Rows) -> Any:
    """The same info with the mean over the rows of all processes, if there are several."""
    if rows.processes is None or info.everywhere is not None:
        return info
    return info._replace(everywhere=_totals([], info.losses, rows)[1])


def _totals(parts: Sequence[Tensor | None], losses: Tensor, rows: Rows) -> tuple[list[Any], Tensor]:
    """Sums over all processes, None staying None, and mean and standard error of all losses."""
    *found, last = rows.total(*(part for part in parts if part is not None), moments(losses))
    sums = iter(found)
    return [None if part is None else next(sums) for part in parts], mean_and_error(last, rows.n)


def moments(losses: Tensor) -> Tensor:
    """Statistics that are added over processes: nm, Σ(ℓ − m)² and nm² of n losses with mean m."""
    n, mean = len(losses), losses.mean()
    return torch.stack([n * mean, (losses - mean).square().sum(), n * mean.square()])


def mean_and_error(sums: Tensor, n: int) -> Tensor:
    """The mean of n losses and its standard error, from the sums of their moments."""
    mean = sums[0] / n
    between = sums[2] - n * mean.square()
    between = between * (between > 8 * torch.finfo(sums.dtype).eps * sums[2])  # else rounding
    return torch.stack([mean, ((sums[1] + between) / ((n - 1) * n)).sqrt()])
