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

from decoupled_descent.objective.derivatives import Ask, Parameters, RowDerivatives

#: Up to this many entries, what picks the components of g is kept from step to step.
KEPT = 2**20


@lru_cache(maxsize=2)
def _picks(n: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return e_k for every row, shape (L, n, L); in one piece, with which autograd is faster."""
    picks = torch.eye(width, dtype=dtype, device=device).unsqueeze(1)
    return picks.expand(width, n, width).contiguous()


def mean_jacobian(direction: Tensor, h: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""Mean Jacobian of a row-wise g that autograd has recorded; symmetric only if g is a gradient.

    .. math:: \bar J_{ij} = \frac1n \sum_{r=1}^n w_r \partial g_i(h_r, y_r, a) / \partial h_{r,j}

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
            f"the head or the loss cannot be differentiated twice ({error}), which J̄ needs. Use "
            "Objective(…, curvature='smoothed'), which takes first derivatives only. Pass compiled "
            "modules as they were before torch.compile"
        ) from error


class Autodiff:
    """The engine for any smooth head and loss: reverse passes through ``losses(h, y, a)``."""

    def __init__(self, losses: Callable[[Tensor, Tensor, Parameters], Tensor]) -> None:
        self.losses = losses

    def __call__(self, h: Tensor, y: Tensor, parameters: Parameters, ask: Ask) -> RowDerivatives:
        """Differentiate the sum over rows."""
        if torch.is_inference_mode_enabled():
            raise ValueError(
                "this head is differentiated by autograd, which torch.inference_mode() switches "
                "off; train outside of it, or use torch.no_grad()"
            )
        with torch.enable_grad():
            h = h.detach().contiguous().requires_grad_()  # some modules need contiguous rows
            leaves = {k: v.detach().requires_grad_(ask.head) for k, v in parameters.items()}
            loss = self.losses(h, y, leaves)
            if not loss.requires_grad:
                raise ValueError(
                    "the loss has no gradient in the pre-activations, so training cannot lower it. "
                    "Use a differentiable loss instead of a count of errors, and compute it "
                    "without torch.no_grad() or detach()"
                )
            direction, means = self._slopes(loss, h, leaves, ask)
            bend = mean_jacobian(direction, h, ask.jacobian_weights) if ask.jacobian else None
        return RowDerivatives(loss.detach(), direction.detach(), bend, means)

    @staticmethod
    def _slopes(loss: Tensor, h: Tensor, leaves: Parameters, ask: Ask) -> tuple[Tensor, Parameters]:
        """∇_hΨ with its graph where J̄ is wanted, and the mean of ∇_aΨ."""
        ones, apart = torch.ones_like(loss), ask.head_weights is not None
        wanted = [h, *leaves.values()] if ask.head and not apart else [h]
        slopes = torch.autograd.grad(
            loss, wanted, ones, create_graph=ask.jacobian, retain_graph=True, materialize_grads=True
        )
        found = slopes[1:]
        if ask.head and apart and leaves:
            found = torch.autograd.grad(
                loss, list(leaves.values()), ask.head_weights, retain_graph=True,
                materialize_grads=True,
            )  # fmt: skip
        means = [slope.detach() / len(h) for slope in found]
        return slopes[0], dict(zip(leaves, means, strict=False))


def row_jacobians(direction: Tensor, h: Tensor) -> Tensor:
    """∂g_i/∂h_j row by row, shape (n, L, L), of a row-wise g that autograd has recorded."""
    if not direction.requires_grad:
        return direction.new_zeros(len(h), direction.shape[1], h.shape[1])
    columns = [
        torch.autograd.grad(part.sum(), h, retain_graph=True, materialize_grads=True)[0]
        for part in direction.unbind(1)
    ]
    return torch.stack(columns, 1).detach()
