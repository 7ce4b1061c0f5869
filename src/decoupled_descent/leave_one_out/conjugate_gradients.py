"""Preconditioned conjugate gradients, for one system or for many side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Iterate(NamedTuple):
    """Where conjugate gradients are after a step.

    Attributes:
        x: The solution so far.
        z: H⁻¹r for the residual r, by the approximate inverse.
        size: rᵀH⁻¹r of each system.
        first: The same at the start.
        moved: The outputs that x moves.
    """

    x: Tensor
    z: Tensor
    size: Tensor
    first: Tensor
    moved: Tensor


def inner_product(one: Tensor, other: Tensor) -> Tensor:
    """The inner product of one system."""
    return (one * other).sum()


def conjugate_gradients(
    times: Callable[[Tensor], tuple[Tensor, Tensor]],
    inverse: Callable[[Tensor], Tensor],
    target: Tensor,
    done: Callable[[Iterate], bool],
    most: int,
    *,
    inner: Callable[[Tensor, Tensor], Tensor] = inner_product,
) -> Iterate:
    """Solve H x = target.

    Args:
        times: Returns H v, and the outputs that v moves.
        inverse: An approximate H⁻¹.
        target: The right-hand side.
        done: Whether to stop here.
        most: The most steps.
        inner: The inner product of a solution and a residual, one number for each system; by
            default they belong to a single one.

    Returns:
        The last iterate. Where the first direction is flat, that is x.

    Example:
        >>> H, target = torch.tensor([[4.0, 1.0], [1.0, 2.0]]), torch.tensor([1.0, 0.0])
        >>> found = conjugate_gradients(
        ...     lambda v: (H @ v, v), lambda r: r, target, lambda at: False, 2
        ... )
        >>> torch.testing.assert_close(H @ found.x, target)
    """
    z = inverse(target)
    d, rest, size = z, target, inner(z, target)
    at = Iterate(torch.zeros_like(z), z, size, size, target.new_zeros(()))
    for step in range(most):
        pushed, outputs = times(d)
        curvature = inner(d, pushed)
        if bool((curvature <= 0).all()):
            return at if step else at._replace(x=d, moved=outputs)
        t = _quotient(size, curvature)
        rest = rest - t * pushed
        z = inverse(rest)
        following = inner(z, rest)
        at = Iterate(at.x + t * d, z, following, at.first, at.moved + t * outputs)
        if done(at):
            break
        d, size = z + _quotient(following, size) * d, following
    return at


def _quotient(top: Tensor, bottom: Tensor) -> Tensor:
    """The quotient, or 0 where rounding has left nothing to divide by."""
    return torch.where(bottom > 0, top / torch.where(bottom > 0, bottom, 1.0), 0.0)
