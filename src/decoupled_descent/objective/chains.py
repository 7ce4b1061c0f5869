"""Heads read as chains of affine maps and activations with closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from decoupled_descent.objective.activations import Activation, closed_form
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.heads import Shift


class Affine(NamedTuple):
    """A layer z ↦ W z + b, by the names of its parameters; W is the identity if it has none."""

    weight: str | None
    bias: str | None

    def forward(self, weights: Parameters, z: Tensor) -> Tensor:
        """W z + b, shape (…, K, n), for z of shape (…, k, n)."""
        bias = None if self.bias is None else weights[self.bias].unsqueeze(-1)
        if self.weight is None:
            return z if bias is None else z + bias
        weight = weights[self.weight]
        if bias is None:
            return weight @ z
        return bias.addmm(weight, z) if weight.ndim == 2 else weight @ z + bias

    def backward(self, weights: Parameters, delta: Tensor) -> Tensor:
        """Wᵀδ."""
        return delta if self.weight is None else weights[self.weight].mT @ delta

    def gradient(self, delta: Tensor, z: Tensor, trained: Parameters) -> Parameters:
        """Mean over rows of δ zᵀ for the weight and of δ for the bias, where they are trained."""
        means: Parameters = {}
        if self.weight is not None and self.weight in trained:
            shape = trained[self.weight]  # not read, as beta is 0
            means[self.weight] = torch.addmm(shape, delta, z.T, beta=0, alpha=1 / z.shape[1])
        if self.bias is not None and self.bias in trained:
            means[self.bias] = delta.mean(1)
        return means


Step = Affine | Callable[[Tensor], Activation]

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)


def is_unmodified(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module is a plain instance of its class: no overrides, hooks, parametrisations."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if "forward" in vars(module) or any(getattr(module, name) for name in hooks):
        return False
    return all(
        getattr(type(module), name, None) is getattr(kind, name, None)
        for name in ("forward", "__call__", "__iter__")
    )


def does_nothing(module: nn.Module) -> bool:
    """Whether a module passes rows of shape (n, k) on unchanged."""
    if not is_unmodified(module, type(module)):
        return False
    if type(module) in DROPOUTS:
        return not module.training or getattr(module, "p", 1) == 0
    if type(module) is nn.Flatten:
        return module.start_dim in (1, -1) and module.end_dim in (1, -1)
    if type(module) is nn.Unflatten:
        size = module.unflattened_size
        return module.dim in (1, -1) and isinstance(size, tuple) and len(size) == 1
    return type(module) is nn.Identity


def _leaves(head: nn.Module, prefix: str = "") -> list[tuple[str, nn.Module]] | None:
    """The layers of a chain with their names, without those that do nothing; None if not plain."""
    if not isinstance(head, nn.Sequential):
        return [] if does_nothing(head) else [(prefix, head)]
    if not is_unmodified(head, nn.Sequential):
        return None
    leaves = []
    for name, child in head._modules.items():  # named_children() leaves repetitions out
        inner = None if child is None else _leaves(child, f"{prefix}{name}.")
        if inner is None:
            return None
        leaves += inner
    return leaves


def _flattens_a_column(leaves: list[tuple[str, nn.Module]]) -> bool:
    """Whether a chain ends with ``Flatten(0)`` of a single output: outputs (n,), not (n, 1)."""
    last = leaves[-1][1] if leaves else None
    if (
        not isinstance(last, nn.Flatten)
        or not is_unmodified(last, nn.Flatten)
        or last.start_dim != 0
    ):
        return False
    outputs = [layer.out_features for _, layer in leaves if isinstance(layer, nn.Linear)]
    return outputs[-1:] == [1]


def parse(head: nn.Module) -> list[Step] | None:
    """Read a head as a chain of affine maps and activations; None if it is anything else.

    Example:
        >>> parse(nn.Sequential(nn.Tanh(), nn.Linear(3, 1, bias=False)))[1]
        Affine(weight='1.weight', bias=None)
        >>> parse(nn.Sequential(nn.Softmax(1))) is None
        True
    """
    leaves = _leaves(head)
    if leaves is None:
        return None
    steps: list[Step] = []
    for prefix, layer in leaves[:-1] if _flattens_a_column(leaves) else leaves:
        if not is_unmodified(layer, type(layer)):
            return None
        if type(layer) is nn.Linear:
            bias = None if layer.bias is None else f"{prefix}bias"
            steps.append(Affine(f"{prefix}weight", bias))
        elif type(layer) is Shift:
            steps.append(Affine(None, f"{prefix}bias"))
        elif (activation := closed_form(layer)) is not None:
            steps.append(activation)
        else:
            return None
    return steps


def adds_only(head: nn.Module) -> bool:
    """Whether a head returns h, or h plus one trainable constant per output."""
    steps = parse(head)
    if steps is None or len(steps) > 1:
        return False
    return all(isinstance(step, Affine) and step.weight is None for step in steps)
