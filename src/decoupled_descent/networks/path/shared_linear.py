r"""Linear layers of many copies of a network on the same rows, as one product of matrices.

``vmap`` over copies of a linear layer multiplies each copy's weights by rows of its own: it repeats
the rows for every copy, and multiplies by the tangent of the rows, which is zero. Written as W Xᵀ,
with derivatives that leave out what is not there, all copies are one product of matrices, and the
direction that all copies share is multiplied once. That nearly halves the time of a small network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class _Product(torch.autograd.Function):
    """W C for a matrix W of weights and columns C."""

    generate_vmap_rule = True

    @staticmethod
    def forward(weight: Tensor, columns: Tensor) -> Tensor:
        """W C."""
        return weight @ columns

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        """Keep both; what has no derivative is None."""
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, *pulled: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """(ḡ Cᵀ, Wᵀ ḡ)."""
        weight, columns = ctx.saved_tensors
        (back,) = pulled
        if back is None:
            return None, None
        of_weight, of_columns = ctx.needs_input_grad
        return back @ columns.T if of_weight else None, weight.T @ back if of_columns else None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        """W' C + W C'."""
        weight, columns = ctx.saved_tensors
        moved_weight, moved_columns = tangents
        parts = [] if moved_weight is None else [moved_weight @ columns]
        parts += [] if moved_columns is None else [weight @ moved_columns]
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """What ``torch.nn.functional.linear`` returns.

    Example:
        >>> x, W, b = torch.randn(5, 2, 3), torch.randn(4, 3), torch.randn(4)
        >>> torch.testing.assert_close(linear(x, W, b), functional.linear(x, W, b))
    """
    columns = input.reshape(-1, input.shape[-1]).T
    result = cast(Tensor, _Product.apply(weight, columns))  # type: ignore[no-untyped-call]
    if bias is not None:
        result = result + bias.unsqueeze(1)
    return result.T.reshape(*input.shape[:-1], len(weight))


class SharedLinear(TorchFunctionMode):
    """Within this block, linear layers are computed by :func:`linear`."""

    def __torch_function__(
        self, func: Any, types: Sequence[Any], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Replace one function, and call all others as they are."""
        result = linear if func is functional.linear else func
        return result(*args, **(kwargs or {}))
