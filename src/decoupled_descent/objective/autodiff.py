r"""Row derivatives of any smooth module by reverse passes.

Rows are independent, so differentiating the *sum* over rows of the k-th component of g gives
∂g_k/∂h row by row, and J̄ needs L reverse passes, batched into one call.

J̄ is a mean over rows, and its own noise is of order 1/√n in any case. So wide heads need not be
differentiated in every component of every row. Each row gets a few components, evenly distributed,
so that each row of J̄ is a mean over many rows; in the next step it gets the following ones. With
the same components in every step, the errors of J̄ would add up over the steps, and the train error
would become too low. Narrow heads are differentiated exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial

import torch
from torch import Tensor

from decoupled_descent.objective.derivatives import Ask, Parameters, RowDerivatives
from decoupled_descent.quiet import ignoring

#: Up to this many entries, the unit vectors of all turns are kept from step to step.
KEPT = 2**21
#: The largest number of turns that are kept.
TURNS = 64
#: About how many entries of its Jacobian are computed for a row, and the smallest number of rows in
#: the mean of a component.
ENTRIES, ROWS = 36, 50


@lru_cache(maxsize=2)
def _picks(n: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return e_k for every row, shape (L, n, L); contiguous, which is faster in autograd."""
    picks = torch.eye(width, dtype=dtype, device=device).unsqueeze(1)
    return picks.expand(width, n, width).contiguous()


@lru_cache(maxsize=2)
def _order(n: int, device: torch.device) -> Tensor:
    """Return the ranks of n rows in a fixed random order."""
    generator = torch.Generator().manual_seed(0)
    return torch.randperm(n, generator=generator, device=generator.device).to(device)


def dealt(n: int, width: int, turn: int, device: torch.device) -> Tensor:
    """The components that each of n rows is differentiated in, shape (count, n).

    Rows are in a fixed random order and take the components in turn; in the next turn each of them
    takes the following ones.
    """
    count = components(n, width)
    which = torch.arange(count, device=device).unsqueeze(1) + turn % width * count
    return (which + _order(n, device) * count) % width


@lru_cache(maxsize=TURNS)
def _some(
    n: int, width: int, turn: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return e_k for the components of every row, (count, n, L), and how often each k occurs."""
    which = dealt(n, width, turn, device)
    counts = torch.bincount(which.flatten(), minlength=width).unsqueeze(1)
    return torch.eye(width, dtype=dtype, device=device)[which], counts


def components(n: int, width: int) -> int:
    """The number of components, at most L, in which each of n rows is differentiated."""
    return min(width, max(math.ceil(ENTRIES / width), math.ceil(width * ROWS / n)))


def row_jacobians(direction: Tensor, h: Tensor) -> Tensor:
    """∂g_i/∂h_j row by row, shape (L, n, L), of a row-wise g that autograd has recorded."""
    n, width = direction.shape
    if not direction.requires_grad:
        return direction.new_zeros(width, n, width)
    small = direction.numel() * width <= KEPT
    picks = (_picks if small else _picks.__wrapped__)(*direction.shape, h.dtype, h.device)
    return _pulled_back(direction, h, picks)


def _pulled_back(direction: Tensor, h: Tensor, picks: Tensor) -> Tensor:
    """Derivatives of the picked components, shape (k, n, L)."""

    def pull_back(picked: Tensor) -> Tensor:
        (rows,) = torch.autograd.grad(
            direction, h, picked, retain_graph=True, materialize_grads=True
        )
        return rows

    if len(picks) > 1:
        # operations that cannot be batched are looped over; the result is correct
        with ignoring(UserWarning), suppress(RuntimeError):
            # autograd's own is_grads_batched would loop over more of them, tanh among them
            batched: Tensor = torch.func.vmap(pull_back)(picks)
            return batched.detach()
    try:  # a single one, or an autograd.Function that cannot be batched
        return torch.stack([pull_back(picked).detach() for picked in picks])
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise ValueError(
            "the head or the loss cannot be differentiated twice, as the correction needs "
            f"it ({error}). Use Objective(…, curvature='smoothed'), which takes first "
            "derivatives only. Pass compiled modules as they were before torch.compile"
        ) from error


def mean_jacobian(
    direction: Tensor, h: Tensor, weights: Tensor | None = None, turn: int = 0
) -> Tensor:
    r"""Mean Jacobian of a row-wise g that autograd has recorded; symmetric only if g is a gradient.

    .. math:: \bar J_{ij} = \frac1n \sum_{r=1}^n w_r \partial g_i(h_r, y_r, a) / \partial h_{r,j}

    For wide heads row i of J̄ is the mean over a part of the rows, another one in every ``turn``.

    Example:
        >>> h = torch.ones(3, 2, requires_grad=True)
        >>> mean_jacobian(torch.stack([h[:, 1], 2 * h[:, 0]], 1), h)
        tensor([[0., 1.],
                [2., 0.]])
    """
    n, width = direction.shape
    count = components(n, width)
    if count == width or not direction.requires_grad:
        rows = row_jacobians(direction, h)
        return rows.mean(1) if weights is None else weights @ rows / n
    kept = _some if n * width**2 * count <= KEPT else _some.__wrapped__
    picks, counts = kept(n, width, turn % width, h.dtype, h.device)
    rows = _pulled_back(direction, h, picks)
    if weights is not None:
        rows = rows * weights.unsqueeze(1)
    total: Tensor = picks.flatten(0, 1).T @ rows.flatten(0, 1)
    return total / counts


def differentiate(
    losses: Callable[[Tensor, Tensor, Parameters], Tensor],
    h: Tensor,
    y: Tensor,
    parameters: Parameters,
    ask: Ask,
) -> RowDerivatives:
    """The engine for any smooth head and loss: reverse passes through ``losses(h, y, a)``."""
    if torch.is_inference_mode_enabled():
        raise ValueError(
            "this head is differentiated by autograd, which torch.inference_mode() switches "
            "off; train outside of it, or use torch.no_grad()"
        )
    with torch.enable_grad():
        h = h.detach().contiguous().requires_grad_()  # some modules need contiguous rows
        leaves = {k: v.detach().requires_grad_(ask.head) for k, v in parameters.items()}
        loss = losses(h, y, leaves)
        if not loss.requires_grad:
            raise ValueError(
                "the loss has no gradient in the pre-activations, so training cannot lower it. "
                "Use a differentiable loss instead of a count of errors, and compute it "
                "without torch.no_grad() or detach()"
            )
        slopes = partial(torch.autograd.grad, loss, retain_graph=True, materialize_grads=True)
        together = ask.head and ask.head_weights is None
        wanted = [h, *leaves.values()] if together else [h]
        direction, *head_slopes = slopes(wanted, torch.ones_like(loss), create_graph=ask.jacobian)
        if ask.head and leaves and not together:
            head_slopes = list(slopes(list(leaves.values()), ask.head_weights))
        bend = None
        if ask.jacobian:
            bend = mean_jacobian(direction, h, ask.jacobian_weights, ask.turn)
            bend = (bend + bend.T) / 2  # a Hessian; a mean over parts of the rows is not symmetric
    means = {k: slope.detach() / len(h) for k, slope in zip(leaves, head_slopes, strict=False)}
    return RowDerivatives(loss.detach(), direction.detach(), bend, means)
