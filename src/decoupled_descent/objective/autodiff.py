r"""Row derivatives of any smooth module, exact, by reverse passes.

The rows do not talk to each other, so differentiating the *sum* over rows of the k-th component of
g gives ∂g_k/∂h row by row, and J̄ needs L reverse passes, batched into one call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from decoupled_descent.objective.derivatives import Engine, Parameters, RowDerivatives

#: Up to this many entries, what picks the components of g is kept from step to step.
KEPT = 2**20


@lru_cache(maxsize=2)
def _picks(n: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return e_k for every row, shape (L, n, L); in one piece, with which autograd is faster."""
    picks = torch.eye(width, dtype=dtype, device=device).unsqueeze(1)
    return picks.expand(width, n, width).contiguous()


def mean_jacobian(direction: Tensor, h: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""Mean Jacobian of a row-wise function that autograd has recorded.

    .. math:: \bar J_{ij} = \frac1n \sum_{r=1}^n w_r \partial g_i(h_r, y_r, a) / \partial h_{r,j}

    Args:
        direction: g(h), shape (n, L), computed from ``h`` under autograd.
        h: Pre-activations, shape (n, L), requiring grad.
        weights: w, shape (n,); ones by default.

    Returns:
        J̄, shape (L, L); the paper's ⟨∇_h g⟩, not symmetric unless g is a gradient.

    Example:
        >>> h = torch.ones(3, 2, requires_grad=True)
        >>> mean_jacobian(torch.stack([h[:, 1], 2 * h[:, 0]], 1), h)
        tensor([[0., 1.],
                [2., 0.]])
    """
    width = direction.shape[1]
    if not direction.requires_grad:
        return direction.new_zeros(width, width)

    def pull_back(picked: Tensor) -> Tensor:
        (rows,) = torch.autograd.grad(
            direction, h, picked, retain_graph=True, materialize_grads=True
        )
        return rows

    small = direction.numel() * width <= KEPT
    picks = (_picks if small else _picks.__wrapped__)(*direction.shape, h.dtype, h.device)
    with warnings.catch_warnings():  # operations that cannot be batched are looped over, correctly
        warnings.filterwarnings("ignore", message="There is a performance drop")
        try:  # autograd's own is_grads_batched would loop over more of them, tanh among them
            rows: Tensor = torch.func.vmap(pull_back)(picks)
        except RuntimeError:  # an autograd.Function that refuses to be batched
            rows = _one_by_one(pull_back, picks)
    return rows.mean(1) if weights is None else weights @ rows / len(h)


def _one_by_one(pull_back: Callable[[Tensor], Tensor], picks: Tensor) -> Tensor:
    try:
        return torch.stack([pull_back(picked) for picked in picks])
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise ValueError(
            f"the head or the loss cannot be differentiated twice, as J̄ needs it ({error}): say "
            "Objective(…, curvature='smoothed'), which takes first derivatives only; give compiled "
            "modules as they were before torch.compile"
        ) from error


def engine(losses: Callable[[Tensor, Tensor, Parameters], Tensor]) -> Engine:
    """Build the engine that differentiates ``losses(h, y, parameters)``.

    Args:
        losses: Ψ, one value per row.

    Returns:
        The engine.
    """

    def derivatives(
        h: Tensor,
        y: Tensor,
        parameters: Parameters,
        jacobian: bool,
        head: bool,
        shares: Tensor | None,
    ) -> RowDerivatives:
        if torch.is_inference_mode_enabled():
            raise ValueError(
                "this head is differentiated by autograd, which torch.inference_mode() switches "
                "off for good; train outside of it, or within torch.no_grad()"
            )
        with torch.enable_grad():
            h = h.detach().contiguous().requires_grad_()  # modules expect rows in one piece
            leaves = {k: v.detach().requires_grad_(head) for k, v in parameters.items()}
            loss = losses(h, y, leaves)
            if not loss.requires_grad:
                raise ValueError(
                    "the loss has no gradient in the pre-activations, so there is nothing to "
                    "descend: replace counts of errors and the like by a differentiable loss, and "
                    "compute it without torch.no_grad() or detach()"
                )
            wanted = [h, *leaves.values()] if head else [h]
            gradients = torch.autograd.grad(
                loss, wanted, torch.ones_like(loss), create_graph=jacobian, materialize_grads=True
            )
            bend = mean_jacobian(gradients[0], h, shares) if jacobian else None
        means = [gradient.detach() / len(h) for gradient in gradients[1:]]
        return RowDerivatives(
            loss.detach(), gradients[0].detach(), bend, dict(zip(leaves, means, strict=False))
        )

    return derivatives
