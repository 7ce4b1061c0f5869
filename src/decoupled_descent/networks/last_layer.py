"""The layer of a network that is called last, and what it gets."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def weights_last_first(model: nn.Module, X: Tensor) -> list[tuple[str, Tensor]]:
    """The matrices of weights by name, those of the layer that is called last at the beginning.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
        >>> [name for name, _ in weights_last_first(model, torch.zeros(1, 2))]
        ['2.weight', '0.weight']
    """
    called: list[str] = []
    layers = {
        name: [f"{name}.{each}".lstrip(".") for each, p in part.named_parameters(recurse=False)
               if p.ndim > 1]
        for name, part in model.named_modules()
    }  # fmt: skip
    hooks = [
        part.register_forward_hook(lambda *_, name=name: called.append(name))
        for name, part in model.named_modules()
        if layers[name]
    ]
    try:
        model(X)
    finally:
        for hook in hooks:
            hook.remove()
    # a module with layers inside has tokens or positions of its own, which are no last layer
    inner = {name: any(True for _ in model.get_submodule(name).children()) for name in called}
    order = sorted(dict.fromkeys(reversed(called)), key=inner.__getitem__)
    return [(name, model.get_parameter(name)) for layer in order for name in layers[layer]]


@torch.no_grad()
def last_features(model: nn.Module, X: Tensor) -> tuple[Tensor | None, Tensor]:
    """What the last linear layer gets for each row, with a 1 for its bias, and the outputs.

    None where the layer that is called last is no linear layer of one vector per row.
    """
    found: list[tuple[nn.Module, Tensor]] = []
    hooks = [
        part.register_forward_hook(lambda part, given, _: found.append((part, given[0])))
        for part in model.modules()
        if any(p.ndim > 1 for p in part.parameters(recurse=False))
        and not any(True for _ in part.children())
    ]
    try:
        outputs: Tensor = model(X)
    finally:
        for hook in hooks:
            hook.remove()
    layer, given = found[-1] if found else (model, X)
    if not isinstance(layer, nn.Linear) or given.shape[:-1] != (len(X),):
        return None, outputs
    return torch.cat([given, torch.ones_like(given[:, :1])], 1).cpu(), outputs
