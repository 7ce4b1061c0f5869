r"""One pass over the rows: everything a step needs to know about the data."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.curvature import Parameters, RowDerivatives
from decoupled_descent.data.rows import Rows
from decoupled_descent.objective import Direction, HeadDirection, Objective


class Pass(NamedTuple):
    r"""What one pass found, for θ of shape (L, d).

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


def one_pass(
    rows: Rows,
    objective: Objective,
    theta: Tensor,
    parameters: Parameters,
    *,
    memory: Tensor | None = None,
    jacobian: bool = False,
    head: bool = True,
    g: Direction | None = None,
    f: HeadDirection | None = None,
    spacing: Tensor | None = None,
) -> Pass:
    r"""Go through the rows once: forward, derivatives and ĥᵀX while a block is in the cache.

    Pre-activations and ĥ are kept feature by feature, (L, n), which is the layout in which both
    products with X run fastest.

    Args:
        rows: The data.
        objective: Ψ.
        theta: θ, shape (L, d).
        parameters: a, by name.
        memory: Mᵀ, shape (L, n), added to the pre-activations.
        jacobian: Whether J̄ is wanted.
        head: Whether the head's direction is wanted.
        g: Replaces ∇_hΨ.
        f: Replaces ∇_aΨ.
        spacing: The steps of smoothed differences.

    Returns:
        Sums and means over all rows.
    """
    whole: Pass | None = None
    parts: list[RowParts] = []
    for block in rows.blocks():
        if memory is None:
            h = theta @ block.X.T
        else:
            part = memory if len(block.X) == rows.n else memory[:, block.span]
            h = torch.addmm(part, theta, block.X.T)
        found = objective.derivatives(
            h.T, block.y, parameters, g=g, f=f, jacobian=jacobian, head=head, spacing=spacing
        )
        direction = found.direction.T
        if whole is None:
            gradient = direction @ block.X
            whole = Pass(found.loss, h, direction, gradient, found.jacobian, found.head)
        else:
            whole.gradient.addmm_(direction, block.X)
        parts.append(RowParts(len(block.X) / rows.n, h, found))
    assert whole is not None
    return whole if len(parts) == 1 else _join(parts, whole.gradient)


class RowParts(NamedTuple):
    """One block's share: its fraction of the rows, its hᵀ and its derivatives."""

    share: float
    preactivations: Tensor
    found: RowDerivatives


def _join(parts: list[RowParts], gradient: Tensor) -> Pass:
    """Put blocks together: concatenate what is per row, weight means by their share of the rows."""

    def average(values: list[Tensor]) -> Tensor:
        total = parts[0].share * values[0]
        for part, value in zip(parts[1:], values[1:], strict=True):
            total = torch.add(total, value, alpha=part.share)
        return total

    bends = [part.found.jacobian for part in parts if part.found.jacobian is not None]
    return Pass(
        torch.cat([part.found.loss for part in parts]),
        torch.cat([part.preactivations for part in parts], 1),
        torch.cat([part.found.direction.T for part in parts], 1),
        gradient,
        average(bends) if bends else None,
        {name: average([part.found.head[name] for part in parts]) for name in parts[0].found.head},
    )
