r"""What steps ask of the rows, answered for all runs on the same rows at once.

A stacked step is a generator. It yields what it needs of the data, a :class:`Pass` over the rows or
a :class:`RowProduct` with them, is sent the answer, and returns the next state and an ``Info``.
:func:`run_stacked` advances the steps of many runs and answers their requests together: one product
with X serves all runs.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.objective import BoundObjective, Parameters, RowDerivatives
from decoupled_descent.rows.blocks import Block, Rows
from decoupled_descent.rows.products import backward, forward, stacked

#: A step that yields requests, is sent answers, and returns the next state and an ``Info``.
StackedStep = Generator[Any, Any, tuple[Any, Any]]


class RowProduct(NamedTuple):
    """Ask for left Mᵀ (forward) or left M (backward), for a matrix M that runs may share."""

    left: Tensor  # shape (L, k)
    matrix: Tensor | Rows  # a tensor, or the rows themselves
    transposed: bool  # whether M is transposed: a product of (L, d) with X (n, d)


class Preconditioned(NamedTuple):
    """Ask for the ridge-preconditioned direction c qᵀXA⁻¹ of :mod:`decoupled_descent.rows.gram`."""

    left: Tensor  # qᵀ, shape (L, n)
    ridge: float  # λ, finite


class Pass(NamedTuple):
    r"""Ask for a pass over the rows: h, derivatives and ĥᵀX, block by block."""

    rows: Rows  # the data, all of it or a mini-batch
    bound: BoundObjective  # Ψ
    theta: Tensor  # θ, shape (L, d)
    head: Parameters  # a, by parameter name
    memory: Tensor | None = None  # Mᵀ, shape (L, n), added to the pre-activations; None for nothing
    jacobian: bool = False  # whether J̄ is wanted
    trains_head: bool = True  # whether the head's direction is wanted
    spacing: Tensor | None = None  # the steps of smoothed differences
    weights: Tensor | None = None  # the weights of the n rows in J̄; None for one each

    def derivatives(self, h: Tensor, span: slice) -> RowDerivatives:
        """Differentiate on the rows of one block, given their hᵀ of shape (L, b)."""
        return self.bound.derivatives(
            h.T,
            self.rows.y[span],
            self.head,
            jacobian=self.jacobian,
            head=self.trains_head,
            spacing=self.spacing,
            jacobian_weights=None if self.weights is None else self.weights[span],
        )


class PassResult(NamedTuple):
    r"""The answer to a :class:`Pass`."""

    losses: Tensor  # Ψ(h_i, y_i, a), shape (n,)
    preactivations: Tensor  # hᵀ, shape (L, n): Xθ plus the memory
    direction: Tensor  # ĥᵀ, shape (L, n)
    gradient: Tensor  # ĥᵀX, shape (L, d)
    jacobian: Tensor | None  # J̄, shape (L, L), or None
    head: Parameters  # mean of f over the rows, by parameter name
    overlap: Tensor | None  # M ĥᵀ, shape (L, L), summed over the rows; None without a memory
    global_error: Tensor | None  # mean and standard error of all losses, where these are some


def run_stacked(steps: Sequence[StackedStep], rows: Rows) -> list[tuple[Any, Any]]:
    """Run several steps to their end, with stacked products.

    Example:
        >>> def doubled(theta):
        ...     h = yield RowProduct(theta, rows, transposed=True)
        ...     return h, 2 * h
        >>> rows = Rows(torch.eye(2), torch.zeros(2))
        >>> results = run_stacked([doubled(torch.ones(1, 2)), doubled(torch.zeros(1, 2))], rows)
        >>> [twice.tolist() for _, twice in results]
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
                results[index] = following, with_global_error(info, rows)
        answers = _answer(requests, rows)
    return [results[index] for index in range(len(steps))]


def _answer(requests: dict[int, Any], rows: Rows) -> dict[int, Any]:
    """Answer all requests: one pass over each set of rows, one product with each matrix."""
    answers: dict[int, Any] = {}
    passes: dict[int, list[int]] = {}
    ridges: dict[float, list[int]] = {}
    matrices: dict[tuple[int, bool], list[int]] = {}
    for index, request in requests.items():
        if isinstance(request, Pass):
            passes.setdefault(id(request.rows), []).append(index)
        elif isinstance(request, Preconditioned):
            ridges.setdefault(request.ridge, []).append(index)
        else:
            matrices.setdefault((id(request.matrix), request.transposed), []).append(index)
    for members in passes.values():
        results = one_pass([requests[k] for k in members])
        answers |= zip(members, results, strict=True)
    if ridges:
        asked = {r: stacked(requests[k].left for k in members) for r, members in ridges.items()}
        for ridge, directions in rows.gram.directions(asked).items():
            answers |= _split(directions, ridges[ridge], requests)
    for members in matrices.values():
        product = _multiply(requests[members[0]], stacked(requests[k].left for k in members))
        answers |= _split(product, members, requests)
    return answers


def _split(product: Tensor, members: list[int], requests: dict[int, Any]) -> dict[int, Tensor]:
    """Divide a stacked product among the steps that asked for it."""
    parts = torch.split(product, [len(requests[k].left) for k in members])
    return dict(zip(members, parts, strict=True))


def _multiply(product: RowProduct, left: Tensor) -> Tensor:
    matrix, transposed = product.matrix, product.transposed
    if isinstance(matrix, Rows):
        return matrix.forward(left) if transposed else matrix.backward(left)
    return forward(left, matrix) if transposed else backward(left, matrix)


def one_pass(requests: Sequence[Pass]) -> list[PassResult]:
    r"""Go through rows once for several runs: h, derivatives and ĥᵀX while a block is in the cache.

    Pre-activations and ĥ are kept feature by feature, (L, n), the layout in which the products with
    X are fastest.

    Example:
        >>> import decoupled_descent as dd
        >>> rows = dd.Rows(torch.eye(3), torch.zeros(3))
        >>> bound = dd.Objective(dd.heads.Linear(), "squared").bind(rows.y, 1, rows.like)
        >>> (result,) = one_pass([Pass(rows, bound, torch.ones(1, 3), {})])
        >>> result.gradient
        tensor([[1., 1., 1.]])
    """
    rows, sizes = requests[0].rows, [len(request.theta) for request in requests]
    theta = stacked(request.theta for request in requests)
    gradient: Tensor | None = None
    parts: list[list[_BlockResult]] = [[] for _ in requests]
    for block in rows.blocks():
        share = block.X.shape[0] / rows.n
        preactivations = _preactivations(requests, theta, sizes, block)
        for request, h, results in zip(requests, preactivations, parts, strict=True):
            derivatives = request.derivatives(h, block.span)
            results.append(_BlockResult(share, h, derivatives.direction.T, derivatives))
        gradient = backward(stacked(each[-1].direction for each in parts), block.X, gradient)
    assert gradient is not None
    joined = [
        _join(results, own, request.memory)
        for request, results, own in zip(requests, parts, torch.split(gradient, sizes), strict=True)
    ]
    return [_all_reduce(each, rows) for each in joined]


def _preactivations(
    requests: Sequence[Pass], theta: Tensor, sizes: list[int], block: Block
) -> list[Tensor]:
    """The hᵀ = θXᵀ + Mᵀ of one block for each run, from one product."""
    memories = [
        each.memory if each.memory is None else each.memory[:, block.span] for each in requests
    ]
    if len(requests) == 1:  # the product adds the memory
        return [forward(theta, block.X, memories[0])]
    products = torch.split(forward(theta, block.X), sizes)
    return [  # copies: a view would keep the memory of all other runs
        h.clone() if memory is None else h + memory
        for h, memory in zip(products, memories, strict=True)
    ]


class _BlockResult(NamedTuple):
    """One block's share of the rows, its hᵀ and ĥᵀ, and its derivatives."""

    share: float
    preactivations: Tensor
    direction: Tensor
    derivatives: RowDerivatives


def _join(parts: list[_BlockResult], gradient: Tensor, memory: Tensor | None) -> PassResult:
    """Put blocks together: concatenate what is per row, weight means by their share of the rows."""

    def average(values: list[Tensor]) -> Tensor:
        total = values[0] if parts[0].share == 1 else parts[0].share * values[0]
        for part, value in zip(parts[1:], values[1:], strict=True):
            total = torch.add(total, value, alpha=part.share)
        return total

    jacobians = [p.derivatives.jacobian for p in parts if p.derivatives.jacobian is not None]
    names = parts[0].derivatives.head
    head = {name: average([part.derivatives.head[name] for part in parts]) for name in names}
    losses = stacked(part.derivatives.loss for part in parts)
    h = stacked((part.preactivations for part in parts), 1)
    direction = stacked((part.direction for part in parts), 1)
    overlap = None if memory is None else memory @ direction.T
    jacobian = average(jacobians) if jacobians else None
    return PassResult(losses, h, direction, gradient, jacobian, head, overlap, None)


def _all_reduce(result: PassResult, rows: Rows) -> PassResult:
    """Complete the sums over rows."""
    parts = [result.gradient, result.jacobian, result.overlap, *result.head.values()]
    (gradient, jacobian, overlap, *means), error = rows.totals(parts, result.losses)
    return result._replace(
        gradient=gradient,
        jacobian=jacobian,
        overlap=overlap,
        head=dict(zip(result.head, means, strict=True)),
        global_error=error,
    )


def all_reduced(derivatives: RowDerivatives, rows: Rows) -> tuple[RowDerivatives, Tensor | None]:
    """Derivatives with means over all rows, from those over the rows here.

    The second result is what :class:`Info` takes as ``global_error``.
    """
    share = rows.here / rows.n
    parts = [
        part if part is None else share * part
        for part in (derivatives.jacobian, *derivatives.head.values())
    ]
    (jacobian, *means), error = rows.totals(parts, derivatives.loss)
    head = dict(zip(derivatives.head, means, strict=True))
    return derivatives._replace(jacobian=jacobian, head=head), error


def with_global_error(info: Any, rows: Rows) -> Any:
    """The same info with the mean loss of all rows, if some of them are elsewhere."""
    if rows.all_here or info.global_error is not None:
        return info
    return info._replace(global_error=rows.totals([], info.losses)[1])
