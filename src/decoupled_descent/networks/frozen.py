"""Frozen layers at the beginning of a network: they are computed once, not at every step."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

#: Rows that go through the frozen layers at a time.
BATCH = 256


class Frozen(NamedTuple):
    """A network in two parts: layers that never change, and the rest.

    Attributes:
        model: The network, a copy.
        layers: Its first layers, which have no trainable parameters.
        rest: All others.
    """

    model: nn.Module
    layers: nn.Sequential
    rest: nn.Sequential

    @torch.no_grad()
    def features(self, X: Tensor) -> Tensor:
        """What the rest gets for these rows."""
        weight = next(self.layers.parameters())
        blocks = torch.split(X, BATCH)
        return torch.cat(
            [
                self.layers(part.to(weight) if part.is_floating_point() else part.to(weight.device))
                for part in blocks
            ]
        )

    @torch.no_grad()
    def joined(self, rest: nn.Module) -> nn.Module:
        """A copy of the network with the parameters and buffers of a trained rest."""
        result = copy.deepcopy(self.model).to(next(rest.parameters()))
        _copy_last([*result.parameters()], [*rest.parameters()])
        _copy_last([*result.buffers()], [*rest.buffers()])
        if not rest.training:
            result.eval()
        return result


def split_frozen(model: nn.Module) -> Frozen | None:
    """Split a network after the layers at its beginning that never change; None if there are none.

    That needs ``nn.Sequential``, also one within another. Layers change nothing about their rows
    from step to step if they have no trainable parameters, no dropout and no batch normalisation in
    training mode.

    Example:
        >>> backbone, head = nn.Linear(9, 4), nn.Linear(4, 2)
        >>> parts = split_frozen(nn.Sequential(backbone.requires_grad_(False), nn.Tanh(), head))
        >>> len(parts.layers), parts.features(torch.zeros(5, 9)).shape
        (2, torch.Size([5, 4]))
    """
    model = copy.deepcopy(model)
    layers, rest = _split(model)
    if not any(True for layer in layers for _ in layer.parameters()) or not rest:
        return None
    own = {id(p) for layer in layers for p in layer.parameters()}
    if any(id(p) in own for layer in rest for p in layer.parameters()):
        return None  # tied weights
    return Frozen(model, nn.Sequential(*layers), nn.Sequential(*rest))


def _copy_last(targets: list[Tensor], values: list[Tensor]) -> None:
    """Copy values into the last of these tensors: those of the first layers come first."""
    for target, value in zip(targets[len(targets) - len(values) :], values, strict=True):
        target.copy_(value)


def _split(model: nn.Module) -> tuple[list[nn.Module], list[nn.Module]]:
    """The layers of a network that never change, and those after them."""
    if not isinstance(model, nn.Sequential) or type(model).forward is not nn.Sequential.forward:
        return [], [model]
    layers = list(model)  # one that occurs twice is there twice
    fixed = next((k for k, layer in enumerate(layers) if not _never_changes(layer)), len(layers))
    if fixed == len(layers):
        return layers, []
    inner, rest = _split(layers[fixed])
    return [*layers[:fixed], *inner], [*rest, *layers[fixed + 1 :]]


def _never_changes(layer: nn.Module) -> bool:
    if any(p.requires_grad for p in layer.parameters()):
        return False
    random = (_DropoutNd, _BatchNorm, nn.RReLU)
    return not any(isinstance(part, random) and part.training for part in layer.modules())
