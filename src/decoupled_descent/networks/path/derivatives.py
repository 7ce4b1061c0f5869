r"""A module as a function of one vector of parameters, and its derivatives row by row.

β holds all trainable parameters of the module, one after the other; o_j(β) are the outputs of row
j. Products over many rows or many copies of β are made in chunks, so that memory is bounded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, jvp, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from decoupled_descent.networks.frozen import Frozen
from decoupled_descent.networks.path.layered import Layered
from decoupled_descent.networks.path.losses import LossOfOutputs
from decoupled_descent.objective.losses import Loss

#: The most numbers that a chunk of a product may hold at a time: 32 MB in float32. Smaller chunks
#: spend their time in Python, larger ones in memory: with four times as many, three networks took
#: 0.95, 1.34 and 1.35 times as long.
CHUNK = 2**23


class Network(LossOfOutputs):
    r"""A module and a loss as functions of the vector β of all trainable parameters.

    Args:
        module: Any module whose outputs for a row, (n,) or (n, K), depend on that row alone. It is
            copied. Parameters with ``requires_grad=False`` and buffers stay as they are.
        loss: Gives one value per row.
        like: The dtype and the device.

    Attributes:
        start: β of the module as it was given, shape (P,).
        size: P.
    """

    def __init__(self, module: nn.Module, loss: Loss, like: Tensor) -> None:
        self.module = copy.deepcopy(module).to(like)
        self.loss = loss
        trained = [(k, v) for k, v in self.module.named_parameters() if v.requires_grad]
        self.names = [name for name, _ in trained]
        self.shapes = [value.shape for _, value in trained]
        self.sizes = [value.numel() for _, value in trained]
        self.size = sum(self.sizes)
        self.start = self.flat(self.module)
        self.module.requires_grad_(False)
        recurrent = any(isinstance(each, nn.RNNBase) for each in self.module.modules())
        self._mapped: Callable[..., Any] = _looped if recurrent else vmap
        self._recurrent = recurrent
        self._layered: Layered | None = None  # the layers, if their derivatives are written out
        self.frozen: Frozen | None = None  # layers before this module, whose outputs the rows are
        self.activations = 0  # numbers per row that a reverse pass keeps, see ``measure``

    @property
    def by_layers(self) -> bool:
        """Whether the derivatives of the layers are written out, or those of ``torch.func``."""
        return self._layered is not None

    def flat(self, module: nn.Module) -> Tensor:
        """The trainable parameters of such a module as one vector, shape (P,)."""
        own = dict(module.named_parameters())
        parts = [own[name].detach().reshape(-1) for name in self.names]
        return torch.cat(parts) if parts else torch.zeros(0)

    def with_parameters(self, beta: Tensor) -> nn.Module:
        """A copy of the module with these parameters, which may be trained further."""
        module = copy.deepcopy(self.module)
        with torch.no_grad():
            for name, value in self._named(beta).items():
                module.get_parameter(name).copy_(value).requires_grad_(True)
        return module if self.frozen is None else self.frozen.joined(module)

    def features(self, X: Tensor) -> Tensor:
        """What the trained part gets for these rows: outputs of frozen layers, or the rows."""
        return X if self.frozen is None else self.frozen.features(X)

    def _named(self, beta: Tensor) -> dict[str, Tensor]:
        return dict(zip(self.names, self._parts(beta), strict=True))

    def outputs(self, beta: Tensor, X: Tensor) -> Tensor:
        """o(β), shape (n, K)."""
        return self._of_parts(self._parts(beta), X)

    def gradient(self, beta: Tensor, X: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """Σ_j w_j J_jᵀ g_j, shape (P,)."""
        return self.residuals(beta.unsqueeze(0), X, y, weights.unsqueeze(0))[0][0]

    def direction(self, beta: Tensor, X: Tensor, along: Tensor) -> Tensor:
        """J_j p for all rows, shape (n, K)."""
        if self._layered is not None:
            passed = self._layered.value(self._stacked(beta.unsqueeze(0)), self._layered.inputs(X))
            return self._layered.direction(passed, self._stacked(along.unsqueeze(0)))[0].T
        blocks = torch.split(X, self._rows(1, len(X)))
        parts = [jvp(lambda b, x=x: self.outputs(b, x), (beta,), (along,))[1] for x in blocks]
        return torch.cat(parts)

    def own_outputs(self, betas: Tensor, X: Tensor) -> Tensor:
        """The outputs of row j at parameters of its own β_j, shape (n, K)."""
        if self._layered is not None:
            return self._layered.own_value(self._stacked(betas), X).outputs.squeeze(2)
        return self._mapped(lambda b, x: self.outputs(b, x.unsqueeze(0))[0])(betas, X)  # type: ignore[no-any-return]

    def own_directions(self, betas: Tensor, X: Tensor, along: Tensor) -> Tensor:
        """J_j(β_j) v_j, shape (n, K)."""
        if self._layered is not None:
            passed = self._layered.own_value(self._stacked(betas), X)
            return self._layered.direction(passed, self._stacked(along)).squeeze(2)

        def one(b: Tensor, x: Tensor, v: Tensor) -> Tensor:
            result: Tensor = jvp(lambda c: self.outputs(c, x.unsqueeze(0))[0], (b,), (v,))[1]
            return result

        return self._mapped(one)(betas, X, along)  # type: ignore[no-any-return]

    def jacobians(self, beta: Tensor, X: Tensor, count: int) -> Iterator[tuple[slice, Tensor]]:
        """J_j in chunks of rows, each of shape (b, K, P); ``count`` is K."""
        rows = max(1, CHUNK // max(1, count * (self.size + self.activations)))
        one = jacrev(lambda b, x: self.outputs(b, x.unsqueeze(0))[0])
        every = self._mapped(one, in_dims=(None, 0))
        for first in range(0, len(X), rows):
            span = slice(first, min(first + rows, len(X)))
            if self._layered is None:
                yield span, every(beta, X[span])
            else:
                parts = self._stacked(beta.unsqueeze(0))
                yield span, self._layered.jacobians(parts, X[span], count)

    def residuals(
        self,
        betas: Tensor,
        X: Tensor,
        y: Tensor,
        weights: Tensor,
        along: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        r"""For each copy β_i: what is missing in the equations of a Gauss–Newton step p.

        .. math:: \sum_j c_{ij} J_j^\top (g_j - W_j J_j p) \quad \text{at } \beta_i

        Args:
            betas: β_i, shape (m, P).
            X: The rows.
            y: Their labels.
            weights: c, shape (m, n).
            along: p, shape (P,), or one for each copy, (m, P); None for p = 0.

        Returns:
            These, shape (m, P), and the outputs o_j(β_i), shape (m, n, K).
        """

        def one(
            b: tuple[Tensor, ...], p: tuple[Tensor, ...], c: Tensor, x: Tensor, t: Tensor
        ) -> tuple[tuple[Tensor, ...], Tensor]:
            def moved(at: tuple[Tensor, ...]) -> Any:
                if not p:
                    return self._of_parts(at, x)
                return jvp(lambda to: self._of_parts(to, x), (at,), (p,))

            # one forward pass for the outputs and their change along p
            outputs, pull, *moves = cast(Any, vjp)(moved, b, has_aux=bool(p))
            slopes = self.slopes(outputs, t)
            if p:
                slopes = slopes - self.hessian_times(outputs, t, moves[0])
            return pull(slopes * c.unsqueeze(1))[0], outputs

        each = 0 if along is not None and along.ndim == 2 else None
        every = self._mapped(one, in_dims=(0, each, 0, None, None))
        copies = max(1, CHUNK // (self._cost(along) * len(X) + 4 * self.size))
        rows = self._rows(self._cost(along) // max(1, self.activations), len(X))
        if self._layered is not None:
            every, (copies, rows) = self._residuals_by_layer, self._layered.sizes(len(X))
        spans = [slice(start, start + rows) for start in range(0, len(X), rows)]
        blocks = [
            X[span] if self._layered is None else self._layered.inputs(X[span]) for span in spans
        ]
        result, outputs = torch.empty_like(betas), []
        for first in range(0, len(betas), copies):
            some = slice(first, first + copies)
            parts = self._stacked(betas[some])
            if along is None:
                step: tuple[Tensor, ...] = ()
            else:
                step = self._stacked(along[some]) if each == 0 else self._parts(along)
            of_rows: list[Tensor] = []
            for span, block in zip(spans, blocks, strict=True):
                pulled, seen = every(parts, step, weights[some, span], block, y[span])
                whole = torch.split(result[some], self.sizes, 1)
                for old, new in zip(whole, pulled, strict=True):
                    old.add_(new.flatten(1)) if of_rows else old.copy_(new.flatten(1))
                of_rows.append(seen)
            outputs.append(torch.cat(of_rows, 1) if len(of_rows) > 1 else of_rows[0])
        return result, torch.cat(outputs)

    def _residuals_by_layer(
        self, parts: tuple[Tensor, ...], step: tuple[Tensor, ...], c: Tensor, X: Tensor, y: Tensor
    ) -> tuple[list[Tensor], Tensor]:
        """The same as ``residuals`` for all copies at once, with the layers' own derivatives."""
        assert self._layered is not None
        count = len(parts[0])
        shared = bool(step) and step[0].ndim < parts[0].ndim
        moved = tuple(each.unsqueeze(0) for each in step) if shared else step
        labels = y.repeat(count, *(1,) * (y.ndim - 1))

        def slopes(outputs: Tensor, change: Tensor | None) -> Tensor:
            flat = outputs.mT.reshape(len(labels), -1)
            result = self.slopes(flat, labels)
            if change is not None:
                result = result - self.hessian_times(flat, labels, change.mT.reshape(flat.shape))
            return result.reshape(count, len(y), -1).mT * c.unsqueeze(1)

        pulled, outputs = self._layered.residuals(parts, moved, X, slopes)
        return pulled, outputs.mT

    def copy_outputs(self, betas: Tensor, X: Tensor) -> Tensor:
        """o_j(β_i), shape (m, n, K)."""
        if self._layered is not None:
            copies, rows = self._layered.sizes(len(X))
            inputs = [self._layered.inputs(some) for some in torch.split(X, rows)]
            stacks = [self._stacked(some) for some in torch.split(betas, copies)]
            return torch.cat(
                [torch.cat([self._layered.value(b, x).outputs for x in inputs], 2) for b in stacks]
            ).mT
        every = self._mapped(self._of_parts, in_dims=(0, None))
        copies = max(1, CHUNK // (2 * max(1, self.activations) * len(X) + self.size))
        return torch.cat([every(self._stacked(some), X) for some in torch.split(betas, copies)])

    def _of_parts(self, parts: tuple[Tensor, ...], X: Tensor) -> Tensor:
        """o(β), shape (n, K), for β in the shapes of the parameters."""
        result: Tensor = functional_call(
            self.module, dict(zip(self.names, parts, strict=True)), (X,)
        )
        return result.unsqueeze(1) if result.ndim == 1 else result

    def _parts(self, beta: Tensor) -> tuple[Tensor, ...]:
        split = zip(torch.split(beta, self.sizes), self.shapes, strict=True)
        return tuple(part.reshape(shape) for part, shape in split)

    def _stacked(self, betas: Tensor) -> tuple[Tensor, ...]:
        """Each parameter of all copies, without gaps: one product then serves all copies."""
        split = zip(torch.split(betas, self.sizes, 1), self.shapes, strict=True)
        return tuple(part.reshape(len(betas), *shape).contiguous() for part, shape in split)

    def _cost(self, along: Tensor | None) -> int:
        """Numbers per row and copy that a product holds."""
        return max(1, self.activations) * (2 if along is None else 4)

    def _rows(self, factor: int, count: int) -> int:
        """How many rows go into a chunk of a single copy."""
        return max(1, min(count, CHUNK // max(1, factor * self.activations)))

    def measure(self, X: Tensor) -> None:
        """Count what a reverse pass keeps per row, and find out whether copies can be stacked."""
        kept = [0]

        def pack(saved: Tensor) -> Tensor:
            shared = saved.untyped_storage().data_ptr() == X.untyped_storage().data_ptr()
            if saved.ndim and len(saved) == len(X) and not shared:  # X is there once, for all
                kept[0] += saved.numel()
            return saved

        beta = self.start.clone().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
            outputs = self.outputs(beta, X)
        self.activations = max(1, kept[0] // len(X), outputs[0].numel())
        self._layered = Layered.of(self.module, self.names)
        if self._layered is not None:
            if self._layered.fits(self._parts(self.start), X, outputs.detach()):
                return
            self._layered = None
        if self._mapped is not vmap:
            return
        try:
            betas = self.start.repeat(2, 1)
            self.own_outputs(betas, X[:2])
            y, ones = torch.zeros(len(X)), torch.ones(2, len(X)).to(outputs)
            probe = Network.__new__(Network)
            vars(probe).update(vars(self), loss=_SUM)
            probe.residuals(betas, X, y, ones, self.start)
            next(self.jacobians(self.start, X[:2], outputs.shape[1]))
        except (RuntimeError, NotImplementedError):  # a layer that torch.func does not stack
            self._mapped = _looped
            self.direction(self.start, X[:2], self.start)

    @contextmanager
    def differentiable(self) -> Iterator[None]:
        """Within this block, layers use kernels that have all derivatives."""
        fast, mkldnn = torch.backends.mha.get_fastpath_enabled(), cast(Any, torch.backends.mkldnn)
        fused = mkldnn.enabled
        torch.backends.mha.set_fastpath_enabled(False)
        if self._recurrent:  # its LSTM has no forward-mode derivative
            mkldnn.enabled = False
        try:
            with sdpa_kernel(SDPBackend.MATH):
                yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            if self._recurrent:
                mkldnn.enabled = fused


#: A loss for trying derivatives out, whose labels do not matter.
_SUM = Loss("sum", lambda outputs, _: outputs.reshape(len(outputs), -1).square().sum(1))


def _looped(function: Callable[..., Any], in_dims: Any = 0) -> Callable[..., Any]:
    """Like ``vmap``, one call after the other: for layers that cannot be stacked."""

    def every(*arguments: Any) -> Any:
        dims = (0,) * len(arguments) if in_dims == 0 else in_dims
        pairs = list(zip(arguments, dims, strict=True))
        count = next(len(a[0] if isinstance(a, tuple) else a) for a, dim in pairs if dim == 0)
        result = [
            function(*(a if d is None else _entry(a, k) for a, d in pairs)) for k in range(count)
        ]
        return _joined(result)

    return every


def _entry(stacked: Any, k: int) -> Any:
    if isinstance(stacked, tuple):
        return tuple(each[k] for each in stacked)
    return stacked[k]


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], tuple):
        return tuple(_joined(list(each)) for each in zip(*parts, strict=True))
    return torch.stack(parts)
