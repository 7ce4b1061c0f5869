"""Copies of one module as one tensor dimension."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm

Tensors = dict[str, Tensor]
Parts = Mapping[str, Sequence[Tensor]]
#: Rounding of float32 in the outputs of a network, relative to their size.
ROUNDING = 1e-4
#: On a processor, copies of more weights than this are computed one after the other. With ten folds
#: of perceptrons in batches of 32, at once takes 0.7 of that time for 55,000 weights, 1.5 of it for
#: 270,000.
MOST_AT_ONCE = 100_000
#: A relative change of a row's outputs, with another row in its batch, that is no rounding.
MIXING = 1e-6


class StackedModule:
    """Several copies of a module that start equal, with their weights stacked.

    Trainable parameters, and buffers that training changes, have a first axis of the length
    ``copies``. Frozen parameters and all other buffers are shared, so that a frozen backbone is
    stored once, and computed once for all copies.

    Attributes:
        copies: How many.
        parameters: Trainable parameters by name, stacked; leaves that an optimiser can take.
        buffers: Buffers that training changes, by name, stacked.
        shared: All other parameters and buffers.
        together: Whether all copies are evaluated at once by ``torch.vmap``.
        reason: Why they are not, in a sentence; empty if they are.
        mixes_rows: Whether outputs of a row depend on the other rows of its batch.
    """

    def __init__(self, model: nn.Module, copies: int) -> None:
        self.template = copy.deepcopy(model)
        if not self.template.training:
            self.template.train()
        self.modes = {name: part.training for name, part in self.template.named_modules()}
        self.copies = copies
        self.parameters: Tensors = {}
        self.buffers: Tensors = {}
        self.shared: Tensors = dict(self.template.named_buffers())
        for name, value in self.template.named_parameters():
            if value.requires_grad:
                self.parameters[name] = self._stack(value).requires_grad_()
            else:
                self.shared[name] = value.detach()
        if not self.parameters:
            raise ValueError("model has no trainable parameters; set requires_grad_(True) on some")
        self.together, self.reason, self.mixes_rows = True, "", False
        self._versions: dict[str, int] = {}

    def _stack(self, value: Tensor) -> Tensor:
        return torch.stack([value.detach()] * self.copies)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(iter(self.parameters.values())).device

    @property
    def size(self) -> int:
        """The number of trainable weights of one copy."""
        return sum(value[0].numel() for value in self.parameters.values())

    @contextmanager
    def mode(self, training: bool) -> Iterator[None]:
        """Training mode as the model was given, or evaluation mode, in a block."""
        parts = list(self.template.named_modules())
        before = [part.training for _, part in parts]
        for name, part in parts:
            part.training = training and self.modes[name]
        try:
            yield
        finally:
            for (_, part), mode in zip(parts, before, strict=True):
                part.training = mode

    def one(self, k: int, x: Tensor, parts: Parts | None = None) -> Tensor:
        """Outputs of copy k; for several copies in turn, give :meth:`apart`."""
        views = {name: value[k] for name, value in self.buffers.items()}
        if parts is None:
            views |= {name: value[k] for name, value in self.parameters.items()}
        else:
            views |= {name: values[k] for name, values in parts.items()}
        outputs: Tensor = functional_call(self.template, views | self.shared, (x,))
        return outputs

    def apart(self) -> Parts:
        """The parameters of each copy. Their gradients are put together once, not copy by copy."""
        return {name: value.unbind() for name, value in self.parameters.items()}

    def all(self, x: Tensor, each: bool = False) -> Tensor:
        """Outputs of all copies at once, shape (copies, B, …).

        With ``each``, x has a batch for each of the first copies, shape (k, B, …).
        """
        first = len(x) if each else self.copies
        stacked, buffers = self.parameters, self.buffers
        if first < self.copies:
            stacked = {name: value[:first] for name, value in stacked.items()}
            buffers = {name: value[:first] for name, value in buffers.items()}

        def call(parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> Any:
            return functional_call(self.template, {**self.shared, **parameters, **buffers}, (x,))

        dims = (0, 0 if buffers else None, 0 if each else None)
        with _plain_attention():
            outputs: Tensor = torch.vmap(call, dims, randomness="different")(stacked, buffers, x)
        return outputs

    def prepare(self, x: Tensor, together: bool | None) -> None:
        """Look at one batch: which buffers change, do rows mix, can copies be evaluated at once?

        The random numbers that follow, and the buffers, are as if nothing had been looked at.
        """
        self._check_outputs(x)
        before = {name: value.clone() for name, value in self.shared.items()}
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.no_grad(), torch.random.fork_rng(devices), self.mode(True):
            self.mixes_rows = _mixes_rows(self, x)
            for name, value in list(self.shared.items()):
                if not torch.equal(value, before[name]):
                    value.copy_(before[name])
                    self.buffers[name] = self._stack(self.shared.pop(name))
        if self.mixes_rows:
            self.reason = "outputs of a row depend on the other rows of its batch"
        elif together is None and self.device.type == "cpu" and self.size > MOST_AT_ONCE:
            self.reason = f"{self.size} weights are computed faster one copy after the other"
        elif together is not False:
            self.reason = self._why_not_together(x)
        else:
            self.reason = "together=False"
        if together and self.reason:
            raise ValueError(f"together=True does not work: {self.reason}; leave together out")
        self.together = not self.reason
        self._versions = {name: value._version for name, value in self.shared.items()}

    def check_shared(self) -> None:
        """Raise ``ValueError`` if training has changed what the copies share."""
        for name, value in self.shared.items():
            if value._version != self._versions[name]:
                raise ValueError(
                    f"model changes its buffer {name!r}, but did not in the first batch; change it "
                    "in every forward pass, or make it no buffer"
                )

    def _check_outputs(self, x: Tensor) -> None:
        """Raise ``ValueError`` unless there is one entry per row."""
        try:
            with torch.no_grad(), self.mode(False):
                result = self.one(0, x)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            line = str(error).partition("\n")[0]
            raise ValueError(
                f"model does not take X with rows of shape {tuple(x.shape[1:])} and {x.dtype}: "
                f"{line}"
            ) from error
        if not isinstance(result, Tensor) or result.ndim == 0 or len(result) != len(x):
            kind = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise ValueError(
                f"model returned {kind} for {len(x)} rows; wrap it in a module that returns a "
                "tensor with one entry per row"
            )

    def _why_not_together(self, x: Tensor) -> str:
        """Compare the outputs of all copies at once with those of one, without random parts."""
        try:
            with torch.no_grad(), self.mode(False), _without_fallback():
                alone, both = self.one(0, x), self.all(x[:1].expand(2, *x[:1].shape), each=True)
            devices = [self.device] if self.device.type == "cuda" else []
            before = self.snapshot()
            with torch.no_grad(), torch.random.fork_rng(devices), self.mode(True):
                self.all(x)
            self.load(before)
        except (RuntimeError, ValueError, NotImplementedError, TypeError) as error:
            line = str(error).partition("\n")[0].partition(". ")[0]
            return f"torch.vmap does not take this module ({line})"
        scale = alone.abs().max()
        if not (both[0, 0] - alone[0]).abs().max() <= ROUNDING * scale:
            return "torch.vmap gives other outputs for this module"
        return ""

    def snapshot(self) -> Tensors:
        """Copies of all stacked tensors."""
        return {k: v.detach().clone() for k, v in (self.parameters | self.buffers).items()}

    def load(self, snapshot: Mapping[str, Tensor]) -> None:
        """Take the values of a snapshot."""
        own = self.parameters | self.buffers
        if own.keys() != snapshot.keys():
            raise ValueError("the weights are of another model; load them into the same model")
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(snapshot[name])

    def module(self, k: int, snapshot: Mapping[str, Tensor]) -> nn.Module:
        """Return copy k as an ordinary module in evaluation mode."""
        result = copy.deepcopy(self.template)
        with torch.no_grad():
            targets = dict(result.named_parameters()) | dict(result.named_buffers())
            for name, value in snapshot.items():
                targets[name].copy_(value[k])
        return result.eval()


@contextmanager
def _without_fallback() -> Iterator[None]:
    """Layers that ``torch.vmap`` computes one copy after the other, with a warning, are errors."""
    functorch = cast(Any, torch._C)._functorch
    before = functorch._is_vmap_fallback_enabled()
    functorch._set_vmap_fallback_enabled(False)
    try:
        yield
    finally:
        functorch._set_vmap_fallback_enabled(before)


@contextmanager
def _plain_attention() -> Iterator[None]:
    """Without the fast kernels of attention, which ``torch.vmap`` computes copy by copy."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _mixes_rows(stack: StackedModule, x: Tensor) -> bool:
    """Whether the outputs of other rows change when one row does; the same random numbers."""
    if any(isinstance(part, _BatchNorm) and part.training for part in stack.template.modules()):
        if len(x) > 1:
            stack.one(0, x)  # changes the running statistics, which are noticed
        return True
    unequal = (x != x[:1]).flatten(1).any(1).nonzero()
    if not len(unequal):
        return False
    other = x.clone()
    other[0] = x[unequal[0, 0]]
    result = []
    for batch in (x, other):
        torch.manual_seed(0)
        result.append(stack.one(0, batch)[1:])
    return not bool((result[0] - result[1]).abs().max() <= MIXING * result[0].abs().max())
