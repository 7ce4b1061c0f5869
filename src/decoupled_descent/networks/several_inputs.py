"""Modules of several inputs: all inputs of a row beside each other, as one tensor of columns."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.rows.tensors import as_tensor

#: Whole numbers above it are not exact in float32.
EXACT = 2**24


class SeveralInputs(nn.Module):
    """A module that takes columns apart, and calls another one with its inputs.

    Args:
        inner: The other module.
        X: Several inputs of some rows, by name or in their order.

    Example:
        >>> class Both(nn.Module):
        ...     def forward(self, image, table):
        ...         return image.sum((1, 2)) + table
        >>> inputs = {"image": torch.ones(3, 2, 2), "table": torch.arange(3)}
        >>> module = SeveralInputs(Both(), inputs)
        >>> module(module.columns(inputs))
        tensor([4., 5., 6.])
    """

    def __init__(self, inner: nn.Module, X: Mapping[str, Any] | tuple[Any, ...]) -> None:
        super().__init__()
        self.inner = inner
        parts = _tensors(X)
        self.names = list(X) if isinstance(X, Mapping) else None
        self.shapes = [part.shape[1:] for part in parts]
        self.types = [part.dtype for part in parts]
        self.apart = _takes(inner, X)

    def columns(self, X: Any) -> Tensor:
        """Inputs of the same kind beside each other, shape (n, columns)."""
        same = isinstance(X, Mapping) if self.names is not None else isinstance(X, tuple)
        parts = _tensors({name: X[name] for name in self.names} if same and self.names else X)
        if not same or [part.shape[1:] for part in parts] != self.shapes:
            kind = "tuple" if self.names is None else f"dictionary of {', '.join(self.names)}"
            raise ValueError(
                f"X must be a {kind} with rows of shape {list(map(tuple, self.shapes))}"
            )
        dtype = next((t for t in self.types if t.is_floating_point), torch.float32)
        whole = [part.long().abs() for part in parts if not part.is_floating_point()]
        if any(bool((part > EXACT).any()) for part in whole):
            dtype = torch.float64
        return torch.cat([part.reshape(len(part), -1).to(dtype) for part in parts], 1)

    def around(self, inner: nn.Module) -> SeveralInputs:
        """The same for another inner module."""
        result = copy.copy(self)
        result._modules = {"inner": inner}
        return result

    def forward(self, x: Tensor) -> Any:
        """The outputs of the inner module."""
        pieces = torch.split(x, [prod(shape) for shape in self.shapes], 1)
        parts = []
        for piece, shape, dtype in zip(pieces, self.shapes, self.types, strict=True):
            part = piece.reshape(len(x), *shape)
            parts.append(part if dtype.is_floating_point else part.round().to(dtype))
        if self.names is None:
            return self.inner(*parts) if self.apart else self.inner(tuple(parts))
        named = dict(zip(self.names, parts, strict=True))
        return self.inner(**named) if self.apart else self.inner(named)


def _tensors(X: Any) -> list[Tensor]:
    """The inputs; raise ``ValueError`` unless they have the same number of rows."""
    named = X if isinstance(X, Mapping) else {f"[{k}]": part for k, part in enumerate(X)}
    parts = {str(name): as_tensor(f"X {name}", part) for name, part in named.items()}
    counts = {name: len(part) if part.ndim else 0 for name, part in parts.items()}
    if not parts or len(set(counts.values())) > 1 or 0 in counts.values():
        raise ValueError(
            f"X has inputs with numbers of rows {counts}; give each the same, one entry per row"
        )
    return list(parts.values())


def _takes(inner: nn.Module, X: Any) -> bool:
    """Whether a module takes the inputs as separate arguments; else as one."""
    signature = inspect.signature(inner.forward)
    try:
        signature.bind(**X) if isinstance(X, Mapping) else signature.bind(*X)
    except TypeError:
        return False
    return True


def inner_module(module: nn.Module) -> nn.Module:
    """The user's own module."""
    return module.inner if isinstance(module, SeveralInputs) else module


def input_columns(module: nn.Module, X: Any) -> Any:
    """Rows as a module takes them: columns where it has several inputs, else as they are."""
    return module.columns(X) if isinstance(module, SeveralInputs) else X
