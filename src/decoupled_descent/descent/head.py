r"""The head's step by any optimiser of PyTorch, as a pure function.

The head sees the data through means over all n rows, which hardly vary from one data set to the
next. So any rule for the head, linear or not, keeps train and test error equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.objective import Parameters

#: Makes an optimiser for a list of parameters, such as ``partial(torch.optim.Adam, lr=1e-2)``.
HeadOptimizer = Callable[[list[Tensor]], torch.optim.Optimizer]
#: What an optimiser carries from step to step, as ``"parameter:name"``.
HeadSlots = dict[str, Tensor | float]


def starting_slots(make: HeadOptimizer | None, parameters: Parameters) -> HeadSlots:
    """What the optimiser will carry, as zeros; its first step sets the values."""
    if make is None or not parameters:
        return {}
    still = {name: torch.zeros_like(value) for name, value in parameters.items()}
    _, slots = moved(make, still, still, {}, first=True)
    return {
        name: torch.zeros_like(value) if isinstance(value, Tensor) else type(value)(0)
        for name, value in slots.items()
    }


def moved(
    make: HeadOptimizer,
    parameters: Parameters,
    gradient: Parameters,
    slots: HeadSlots,
    first: bool,
) -> tuple[Parameters, HeadSlots]:
    """One step of the optimiser on copies of the parameters, and what it then carries."""
    if not parameters:
        return parameters, {}
    values = {name: value.clone() for name, value in parameters.items()}
    for name, value in values.items():
        value.grad = gradient[name].clone()
    with torch.device("cpu"):  # where optimisers keep their counters
        optimiser = _made(make, list(values.values()))
        if not first:
            for slot, kept in slots.items():
                name, _, key = slot.rpartition(":")
                copied = kept.clone() if isinstance(kept, Tensor) else kept
                optimiser.state[values[name]][key] = copied
        optimiser.step()
    following: HeadSlots = {
        f"{name}:{key}": kept
        for name, value in values.items()
        for key, kept in optimiser.state[value].items()
        if kept is not None
    }
    for value in values.values():
        value.grad = None
    return values, following


def _made(make: HeadOptimizer, values: list[Tensor]) -> torch.optim.Optimizer:
    """Make the optimiser; raise ``ValueError`` if it is not one, or needs more than gradients."""
    try:
        optimiser: Any = make(values)
    except Exception as error:
        raise ValueError(f"head_optimizer={make!r} cannot be made: {error}") from error
    if isinstance(optimiser, torch.optim.LBFGS):
        raise ValueError(
            "head_optimizer: LBFGS evaluates the loss several times per step, but the head sees "
            "one gradient per step; use SGD, Adam or another that needs no closure"
        )
    if not isinstance(optimiser, torch.optim.Optimizer):
        raise ValueError(
            f"head_optimizer={make!r} must make a torch.optim.Optimizer for a list of parameters, "
            "such as functools.partial(torch.optim.Adam, lr=1e-2)"
        )
    return optimiser
