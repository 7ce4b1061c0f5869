"""Derivatives of a sequence of usual layers, for many copies of its parameters at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from decoupled_descent.networks.path.layers import Layer, layer_of

Parts = Sequence[Tensor]
#: The numbers of all layers for a few copies: 8 MB in float32. A quarter of it costs overhead, and
#: with twice as many they leave the cache.
CACHED = 2**21
#: At least this many copies, of fewer rows where they are long.
FEW = 4


class ForwardPass(NamedTuple):
    """What a forward pass keeps for the derivatives."""

    outputs: Tensor  # shape (m, K, n)
    own: list[Parts]  # the parameters of each layer
    kept: list[Any]
    shapes: list[torch.Size]  # of the input of each layer


class Layered:
    """The layers of an ``nn.Sequential`` whose parameters are all trained.

    Args:
        layers: The layers.
        counts: How many parameters each has.
    """

    def __init__(self, layers: list[Layer], counts: list[int]) -> None:
        self.layers, self.counts = layers, counts
        self.first = next(k for k, count in enumerate(counts) if count)
        self.width = 1  # numbers per row and copy

    @classmethod
    def of(cls, module: nn.Module, names: Sequence[str]) -> Layered | None:
        """The layers of a module with these trained parameters; None if there are other layers."""
        modules = _sequence(module)
        layers = [layer_of(each) for each in modules]
        known = dict(module.named_parameters())
        named = [id(known[name]) for name in names]
        own = [id(each) for part in modules for each in part.parameters()]
        if not named or own != named or any(each is None for each in layers):
            return None
        counts = [len(list(part.parameters())) for part in modules]
        return cls([each for each in layers if each is not None], counts)

    def fits(self, parts: Parts, X: Tensor, outputs: Tensor) -> bool:
        """Whether the layers give these outputs, (n, K); and count the numbers of a pass."""
        if not X.is_floating_point():
            return False
        try:
            found = self.value([part.unsqueeze(0) for part in parts], self.inputs(X))
        except (RuntimeError, IndexError, ValueError):  # rows of another shape, such as tokens
            return False
        sizes = [
            sum(each.numel() for each in _tensors(kept)) for kept in found.kept[self.first + 1 :]
        ]
        self.width = max(1, 2 * sum(sizes) // len(X))
        same = found.outputs.ndim == 3 and found.outputs.shape[1:] == outputs.T.shape
        return same and torch.allclose(found.outputs[0].T, outputs, rtol=1e-4, atol=1e-5)

    def sizes(self, rows: int) -> tuple[int, int]:
        """How many copies, and how many rows, are computed at a time."""
        rows = min(rows, max(1, CACHED // (FEW * self.width)))
        return max(1, CACHED // (self.width * rows)), rows

    def inputs(self, X: Tensor) -> Tensor:
        """What the first layer with parameters gets of these rows, the same for all copies."""
        return self._prepared(X.movedim(0, -1).contiguous().unsqueeze(0))

    def value(self, parts: Parts, x: Tensor) -> ForwardPass:
        """A forward pass of all copies, for parameters (m, …), on ``inputs``."""
        return self._passed(parts, x)

    def own_value(self, parts: Parts, X: Tensor) -> ForwardPass:
        """A forward pass of row j with parameters of its own, as if it was a copy."""
        return self._passed(parts, self._prepared(X.unsqueeze(-1)))

    def direction(self, passed: ForwardPass, moved: Parts) -> Tensor:
        """The change of the outputs, (m, K, n), where the parameters move like this."""
        change: Tensor | None = None
        steps = self._of_layers(moved)
        for k in range(self.first, len(self.layers)):
            layer = self.layers[k]
            change = None if change is None else layer.unfolded(change)
            if change is None and k > self.first:
                raise AssertionError("the first layer has parameters")
            change = layer.direction(passed.own[k], passed.kept[k], steps[k], change)
        assert change is not None
        return change.expand_as(passed.outputs)

    def pull(self, passed: ForwardPass, gradient: Tensor) -> list[Tensor]:
        """The gradients in the parameters, from that in the outputs, (m, K, n)."""
        result: list[Tensor] = []
        for k in range(len(self.layers) - 1, self.first - 1, -1):
            layer, own, kept = self.layers[k], passed.own[k], passed.kept[k]
            of_layer, pulled = layer.pull(own, kept, gradient)
            result[:0] = of_layer
            if k > self.first:
                gradient = layer.folded(layer.back(own, kept, pulled), passed.shapes[k])
        return result

    def jacobians(self, parts: Parts, X: Tensor, count: int) -> Tensor:
        """J_j for all rows, shape (n, K, P)."""
        passed = self.own_value([part.expand(len(X), *part.shape[1:]) for part in parts], X)
        columns = []
        for k in range(count):
            unit = torch.zeros_like(passed.outputs)
            unit[:, k] = 1.0
            columns.append(torch.cat([each.flatten(1) for each in self.pull(passed, unit)], 1))
        return torch.stack(columns, 1)

    def residuals(
        self, parts: Parts, moved: Parts, x: Tensor, slopes: Callable[..., Tensor]
    ) -> tuple[list[Tensor], Tensor]:
        """Pull what ``slopes`` makes of outputs and their change along ``moved``, (m, K, n)."""
        passed = self.value(parts, x)
        change = self.direction(passed, moved) if moved else None
        return self.pull(passed, slopes(passed.outputs, change)), passed.outputs

    def _passed(self, parts: Parts, x: Tensor) -> ForwardPass:
        own, kept, shapes = self._of_layers(parts), [None] * self.first, [x.shape] * self.first
        for k in range(self.first, len(self.layers)):
            layer = self.layers[k]
            shapes.append(x.shape)
            x, for_layer = layer.value(own[k], x if k == self.first else layer.unfolded(x))
            kept.append(for_layer)
        return ForwardPass(x, own, kept, shapes)

    def _prepared(self, x: Tensor) -> Tensor:
        for layer in self.layers[: self.first]:
            x = layer.value((), x)[0]
        return self.layers[self.first].unfolded(x)

    def _of_layers(self, parts: Parts) -> list[Parts]:
        result, at = [], 0
        for count in self.counts:
            result.append(parts[at : at + count])
            at += count
        return result


def _sequence(module: nn.Module) -> list[nn.Module]:
    """The modules of nested sequences, one after the other."""
    if type(module) is not nn.Sequential:
        return [] if type(module) in (nn.Identity, nn.Dropout) else [module]
    return [each for part in module for each in _sequence(part)]


def _tensors(kept: Any) -> list[Tensor]:
    parts = kept if isinstance(kept, tuple) else (kept,)
    return [each for each in parts if isinstance(each, Tensor)]
