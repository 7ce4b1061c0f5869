"""An optimiser like another one, for other parameters, which follows its options."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from decoupled_descent.networks.folds.copy_optimizers import MakeOptimizer


def unwrapped(optimizer: Any) -> Optimizer:
    """The optimiser of PyTorch within those that Accelerate and Lightning put around it."""
    result = optimizer
    while not isinstance(result, Optimizer) or hasattr(result, "optimizer"):
        if not hasattr(result, "optimizer"):
            raise ValueError(f"optimizer={optimizer!r} must be a torch.optim.Optimizer")
        result = result.optimizer
    return result


def same_optimizer(optimizer: Optimizer, model: nn.Module) -> MakeOptimizer:
    """Return a function that makes the same optimiser for other parameters.

    Args:
        optimizer: Has the trainable parameters of the model, in one group or in several.
        model: The model; the function takes parameters in the order of its trainable ones.

    Example:
        >>> import torch
        >>> model = nn.Linear(2, 1)
        >>> make = same_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model)
        >>> make([torch.zeros(5, 1, 2), torch.zeros(5, 1)]).param_groups[0]["lr"]
        0.1
    """
    places = {
        id(parameter): place
        for place, group in enumerate(optimizer.param_groups)
        for parameter in group["params"]
    }
    trainable = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    missing = [name for name, parameter in trainable if id(parameter) not in places]
    if missing:
        raise ValueError(
            f"the optimiser does not have {missing[0]}, which is trainable; call "
            "requires_grad_(False) on what is not trained"
        )
    if len(trainable) != len(places):
        raise ValueError(
            f"the optimiser has {len(places)} parameters and the model {len(trainable)} that are "
            "trainable; give the model whose outputs the loss is computed from"
        )
    group_of = [places[id(parameter)] for _, parameter in trainable]
    known = inspect.signature(type(optimizer).__init__).parameters
    defaults = {key: value for key, value in optimizer.defaults.items() if key in known}

    def make(parameters: Sequence[Tensor]) -> Optimizer:
        groups = [{**_options(group), "params": []} for group in optimizer.param_groups]
        for parameter, place in zip(parameters, group_of, strict=True):
            groups[place]["params"].append(parameter)
        made: Any = type(optimizer)
        return unwrapped(made(groups, **defaults))

    return make


def follow(optimizer: Optimizer, copies: Sequence[Optimizer]) -> None:
    """Give copies of an optimiser the options that it has now, such as its learning rates."""
    for each in copies:
        for group, own in zip(optimizer.param_groups, each.param_groups, strict=True):
            own.update(_options(group))


def _options(group: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.clone() if isinstance(value, Tensor) else value
        for key, value in group.items()
        if key not in ("params", "param_names")
    }
