"""Optimisers of stacked weights: one for all copies where that is the same, else one for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from decoupled_descent.quiet import ignoring

MakeOptimizer = Callable[[list[Tensor]], Optimizer]
#: Copies, and steps, with which an optimiser is tried, and entries along each axis.
TRIED, CORNER = 3, 8


class CopyOptimizers:
    """The optimisers of the stacked weights.

    An optimiser that treats every entry of a tensor alone (SGD, Adam, AdamW, …) is made once, for
    the stacked weights. One that looks at a tensor as one thing (Muon, Adafactor, LARS) would mix
    the copies; it is made once for each copy. Which is the case is measured: with other gradients
    for one copy, the others must make the same steps.

    Attributes:
        list: One optimiser, or one per copy.
        elementwise: Whether there is one for all copies.
    """

    def __init__(self, make: MakeOptimizer, parameters: Sequence[Tensor]) -> None:
        self._stacked = list(parameters)
        self.copies = len(self._stacked[0])
        self.elementwise = treats_entries_alone(make, self._stacked)
        if self.elementwise:
            self.list = [make(self._stacked)]
        else:
            views = [[p.detach()[k] for p in self._stacked] for k in range(self.copies)]
            self.list = [make([v.requires_grad_() for v in each]) for each in views]
            self._views = views
        self.trained = torch.zeros(self.copies, dtype=torch.bool)  # copies with rows since a step
        self._kept: list[tuple[Tensor, Tensor]] = []
        if self.elementwise:
            self.list[0].register_step_pre_hook(self._keep)
            self.list[0].register_step_post_hook(self._restore)

    def step(self) -> None:
        """Make a step of every copy that had rows since the last one, and clear the gradients."""
        if self.elementwise:
            self.list[0].step()
        else:
            for k in self.trained.nonzero().flatten().tolist():
                for view, stacked in zip(self._views[k], self._stacked, strict=True):
                    view.grad = None if stacked.grad is None else stacked.grad[k]
                self.list[k].step()
            self.trained.zero_()
        for parameter in self._stacked:
            parameter.grad = None

    def _keep(self, optimizer: Optimizer, *_: Any) -> None:
        """Keep weights and memory of copies without rows, which must not move."""
        self._kept = []
        if bool(self.trained.any()) and not bool(self.trained.all()):
            idle = (~self.trained).nonzero().flatten().to(self._stacked[0].device)
            for parameter in self._stacked:
                state = optimizer.state[parameter].values()
                for value in (parameter, *state):
                    if isinstance(value, Tensor) and value.shape == parameter.shape:
                        self._kept.append((value, value.detach()[idle].clone()))
            self._idle = idle

    def _restore(self, *_: Any) -> None:
        with torch.no_grad():
            for value, kept in self._kept:
                value[self._idle] = kept
        self._kept = []
        self.trained.zero_()

    def clip_grad_norm_(self, most: float) -> Tensor:
        """Scale the gradient of each copy to a norm of at most ``most``; return the norms."""
        result = [p.grad for p in self._stacked if p.grad is not None]
        if not result:
            return torch.zeros(self.copies)
        norms = sum(grad.flatten(1).square().sum(1) for grad in result)
        norms = torch.as_tensor(norms).sqrt()
        factors = (most / (norms + 1e-6)).clamp_max(1.0)  # as torch.nn.utils.clip_grad_norm_
        for grad in result:
            grad.mul_(factors.reshape(-1, *[1] * (grad.ndim - 1)))
        return norms


def treats_entries_alone(make: MakeOptimizer, parameters: Sequence[Tensor]) -> bool:
    """Whether an optimiser moves copies as it would without the others.

    Raises ``ValueError`` for what is no optimiser, and for one that needs a closure (LBFGS).
    """
    ends = [_steps(make, parameters, change) for change in (1.0, 100.0)]
    if ends[0] is None or ends[1] is None:
        return False  # it does not take stacked weights at all
    return all(torch.equal(a[1:], b[1:]) for a, b in zip(*ends, strict=True))


def _steps(make: MakeOptimizer, parameters: Sequence[Tensor], change: float) -> list[Tensor] | None:
    """Weights of three copies after three steps; the gradients of the first are multiplied."""
    generator = torch.Generator().manual_seed(0)
    tried = [_corner(p, TRIED).requires_grad_() for p in parameters]
    with ignoring(UserWarning):
        try:
            optimizer = make(tried)
        except (ValueError, RuntimeError):
            make([_corner(p, 1)[0].clone().requires_grad_() for p in parameters])
            return None
        if not isinstance(optimizer, Optimizer):
            raise ValueError(
                f"optimizer returned {optimizer!r}; it must return a torch.optim.Optimizer, as "
                "lambda parameters: torch.optim.AdamW(parameters, lr=1e-3) does"
            )
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ValueError(
                "optimizer is LBFGS, which evaluates the loss several times per step; use SGD, "
                "Adam or AdamW"
            )
        for _ in range(TRIED):
            for p in tried:
                p.grad = torch.randn(p.shape, generator=generator, dtype=p.dtype).to(p.device)
                p.grad[0] *= change
            optimizer.step()
    return [p.detach() for p in tried]


def _corner(parameter: Tensor, copies: int) -> Tensor:
    """A small part of a parameter: whether copies mix does not depend on its size."""
    return parameter.detach()[(slice(copies), *[slice(CORNER)] * (parameter.ndim - 1))].clone()


def check_make(make: Any) -> MakeOptimizer:
    """Raise ``ValueError`` unless it is a function of parameters."""
    if isinstance(make, Optimizer) or not callable(make):
        raise ValueError(
            f"optimizer={type(make).__name__} must be a function of parameters, such as "
            "lambda parameters: torch.optim.AdamW(parameters, lr=1e-3)"
        )
    checked: MakeOptimizer = make
    return checked
