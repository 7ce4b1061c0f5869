r"""A head as a pure function 𝓜_a(h): the parameters are given, and nothing is changed."""

from __future__ import annotations

import copy
import threading
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from decoupled_descent.objective.derivatives import Parameters


class PureHead:
    """A copy of a head (n, L) → (n,) or (n, K) that is called with parameters from outside."""

    def __init__(self, head: nn.Module) -> None:
        head = getattr(head, "_orig_mod", head)  # compiled modules have no second derivatives
        if any(map(nn.parameter.is_lazy, [*head.parameters(), *head.buffers()])):
            raise ValueError(
                f"head {type(head).__name__} has parameters whose shape is not known yet "
                "(LazyLinear?); call it once, head(torch.zeros(1, L)), before Objective(head, …)"
            )
        self.module = _own_copy(head)
        frozen = {k: v for k, v in self.module.named_parameters() if not v.requires_grad}
        fixed = dict(self.module.named_buffers()) | frozen
        self._fixed = {k: v.detach().clone() for k, v in fixed.items()}
        self._tied = _shares(head)
        self._turn = threading.RLock()  # a call puts parameters into the module

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied: all but the lock, and a clean copy of the module."""
        with self._turn:
            state = vars(self) | {"module": _own_copy(self.module)}
        return {name: value for name, value in state.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, with its own lock."""
        vars(self).update(state)
        self._turn = threading.RLock()

    def __call__(self, h: Tensor, parameters: Parameters) -> Tensor:
        """Evaluate 𝓜_a(h), shape (n,) or (n, K), for h of shape (n, L)."""
        h = h.clone(memory_format=torch.contiguous_format)  # a head may change its input
        fixed = {k: v.to(h) if v.is_floating_point() else v for k, v in self._fixed.items()}
        with self._turn:
            outputs: Tensor = functional_call(
                self.module, fixed | parameters, (h,), tie_weights=self._tied
            )
        return outputs

    def parameters(self, like: Tensor | None = None) -> Parameters:
        """Return copies of the trainable parameters by name, in the dtype of ``like``."""
        with self._turn:
            return {
                k: v.detach().clone() if like is None else v.detach().to(like, copy=True)
                for k, v in self.module.named_parameters()
                if v.requires_grad
            }

    def with_parameters(self, parameters: Parameters) -> nn.Module:
        """Return a module that carries the given parameters, in their dtype and device."""
        with self._turn:
            head = _own_copy(self.module)
        for value in parameters.values():
            head = head.to(value)
        own = dict(head.named_parameters())
        with torch.no_grad():
            for name, value in parameters.items():
                own[name].copy_(value)
        return head

    @torch.no_grad()
    def check(self, probe: Tensor) -> Tensor:
        """Return the outputs for a few rows; raise ``ValueError`` if the head mixes rows."""
        parameters, name = self.parameters(probe), type(self.module).__name__
        before = _generators(probe)
        try:
            outputs = self(probe, parameters)
        except Exception as error:
            raise ValueError(
                f"head {name} cannot take pre-activations of shape {tuple(probe.shape)}: {error}"
            ) from error
        wrong = self._wrong(outputs, probe, parameters)
        if wrong:
            _restore(before, probe)
            raise ValueError(f"head {name} {wrong}")
        return outputs

    def _wrong(self, outputs: Any, probe: Tensor, parameters: Parameters) -> str:
        """Say what is wrong with the outputs; an empty string if nothing is."""
        if not isinstance(outputs, Tensor):
            kind = type(outputs).__name__
            return f"returned a {kind}; it must return one tensor of shape (n,) or (n, K)"
        if outputs.ndim not in (1, 2) or len(outputs) != len(probe):
            shape = tuple(outputs.shape)
            return f"returned shape {shape} for {len(probe)} rows; it must return (n,) or (n, K)"
        if not outputs.isfinite().all():
            bad = outputs[~outputs.isfinite()][0].item()
            return f"returned {bad} for finite pre-activations; check its parameters"
        try:
            alone = torch.cat([self(row.unsqueeze(0), parameters) for row in probe])
            independent = torch.allclose(alone, outputs, rtol=1e-3, atol=1e-5)
        except (RuntimeError, ValueError):  # batch normalisation refuses single rows
            independent = False
        if independent and not self._draws(probe, parameters):
            return ""
        return (
            "mixes rows or is random (batch normalisation, dropout?); decoupled descent needs a "
            "head that treats rows one by one: remove such layers, or call head.eval() before "
            "Objective(head, …)"
        )

    def _draws(self, probe: Tensor, parameters: Parameters) -> bool:
        """Whether the head draws random numbers; three tries, as another thread may draw in one."""
        for _ in range(3):
            before = _generators(probe)
            self(probe, parameters)
            if all(map(torch.equal, before, _generators(probe))):
                return False
        return True


def _own_copy(head: nn.Module) -> nn.Module:
    """Copy a head; what it derived from its parameters (weight normalisation) is copied as a value.

    Such tensors carry a graph, with which ``deepcopy`` refuses to copy them.
    """
    derived = {
        id(value): value.detach().clone()
        for module in head.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    return copy.deepcopy(head, derived)


def _shares(head: nn.Module) -> bool:
    """Whether a parameter or a buffer has two names; checked once, because it takes time."""
    return any(
        len(list(named())) < len(list(named(remove_duplicate=False)))
        for named in (head.named_parameters, head.named_buffers)
    )


def _generators(like: Tensor) -> list[Tensor]:
    """The states of the global generators that a head may draw from."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(like.device)] if like.is_cuda else states


def _restore(states: list[Tensor], like: Tensor) -> None:
    torch.set_rng_state(states[0])
    if like.is_cuda:
        torch.cuda.set_rng_state(states[1], like.device)
