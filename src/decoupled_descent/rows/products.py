r"""The two products of every step, θXᵀ and qX, by the faster of two routines.

In both a few rows are multiplied by a large X. If X exceeds the processor's caches, oneDNN, which
comes with PyTorch, takes a third to nine tenths of the time of ``torch.mm``, and needs no copy of X
in either direction. PyTorch calls it in this way only from compiled graphs and does not document
it, so it is tested before it is used.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from functools import cache

import torch
from torch import Tensor

#: From this many entries of X on, oneDNN is the faster one; 1 MiB in float32.
LARGE = 2**18

#: ``routine(a, B, add)`` returns a Bᵀ, plus ``add`` unless that is None.
Routine = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def forward(theta: Tensor, X: Tensor, add: Tensor | None = None) -> Tensor:
    """θXᵀ, plus ``add`` if given: pre-activations of shape (L, n), the fastest layout."""
    if (routine := fast_routine(X)) is not None:
        return routine(theta, X, add)
    return theta @ X.T if add is None else torch.addmm(add, theta, X.T)


def backward(q: Tensor, X: Tensor, add: Tensor | None = None) -> Tensor:
    """qᵀX, plus ``add`` if given, shape (L, d), for directions q of shape (L, n)."""
    if (routine := fast_routine(X)) is not None:
        return routine(q, X.T, add)
    return q @ X if add is None else torch.addmm(add, q, X)


def stacked(parts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """Put tensors together, such as the left factors of several products; one is not copied."""
    several = list(parts)
    return several[0] if len(several) == 1 else torch.cat(several, axis)


def fast_routine(X: Tensor) -> Routine | None:
    """OneDNN's routine if it exists and is faster for this X; None for ``torch.mm``."""
    pays = (
        X.numel() >= LARGE
        and X.dtype == torch.float32
        and X.device.type == "cpu"
        and X.is_contiguous()
        and torch.backends.mkldnn.enabled
    )
    return _onednn() if pays else None


@cache
def _onednn() -> Routine | None:
    """Find oneDNN's product, and check that it computes what it should."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return None

    def routine(a: Tensor, B: Tensor, add: Tensor | None) -> Tensor:
        product: Tensor = linear(a, B, None, "none", [], "")
        return product if add is None else product.add_(add)

    try:
        linear = torch.ops.mkldnn._linear_pointwise.default
        result = routine(torch.ones(1, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.ones(1, 2))
    except (AttributeError, RuntimeError, TypeError):
        return None
    return routine if result.tolist() == [[4.0, 8.0]] else None
