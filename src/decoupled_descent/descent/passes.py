r"""One pass over the rows: everything a step needs to know about the data."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.curvature import Parameters
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

    Returns:
        Sums and means over all rows.
    """
    parts: list[Pass] = []
    for block in rows.blocks():
        if memory is None:
            h = theta @ block.X.T
        else:
            h = torch.addmm(memory[:, block.span], theta, block.X.T)
        found = objective.derivatives(
            h.T, block.y, parameters, g=g, f=f, jacobian=jacobian, head=head
        )
        direction = found.direction.T
        gradient = direction @ block.X
        parts.append(Pass(found.loss, h, direction, gradient, found.jacobian, found.head))
    return parts[0] if len(parts) == 1 else _combine(parts, rows.n)


def _combine(parts: list[Pass], n: int) -> Pass:
    """Join blocks: concatenate what is per row, add sums, and weight means by their rows."""
    weights = [len(part.losses) / n for part in parts]

    def average(values: list[Tensor]) -> Tensor:
        return torch.stack([w * v for w, v in zip(weights, values, strict=True)]).sum(0)

    bends = [part.jacobian for part in parts if part.jacobian is not None]
    return Pass(
        torch.cat([part.losses for part in parts]),
        torch.cat([part.preactivations for part in parts], 1),
        torch.cat([part.direction for part in parts], 1),
        torch.stack([part.gradient for part in parts]).sum(0),
        average(bends) if bends else None,
        {name: average([part.head[name] for part in parts]) for name in parts[0].head},
    )
