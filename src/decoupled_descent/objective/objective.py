r"""The objective Ψ(h, y, a) = loss(head_a(h), y): the only place that knows derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.objective import autodiff, loss_kinks, smoothed, structured
from decoupled_descent.objective.derivatives import Engine, Parameters, RowDerivatives
from decoupled_descent.objective.losses import (
    RowLoss,
    check_labels,
    check_rows_one_by_one,
    get_loss,
    varied_rows,
)
from decoupled_descent.objective.pure_head import PureHead

#: g(h, y, a): one row of ĥ per sample, shape (n, L). ``a`` maps parameter names to tensors.
Direction = Callable[[Tensor, Tensor, Parameters], Tensor]
#: f(h, y, a): one row per sample for each head parameter, shapes (n, *parameter.shape).
HeadDirection = Callable[[Tensor, Tensor, Parameters], Parameters]

CURVATURES = ("auto", "structured", "autodiff", "smoothed")


class Objective:
    r"""What is minimised: Ψ(h, y, a) = loss(head_a(h), y), row by row (Definition "lossGrad").

    Args:
        head: 𝓜_a, any ``nn.Module`` from (n, L) to (n,) or (n, K) that treats rows independently.
            Parameters with ``requires_grad=False`` stay as they are. The objective keeps a copy:
            it never changes the module, and later changes to the module do not reach it.
        loss: ``"squared"``, ``"absolute"``, ``"logistic"``, ``"cross_entropy"`` or a callable
            ``loss(outputs, y)`` that returns one value per row.
        width: L; read off the head where possible.
        curvature: How J̄ is found: ``"structured"`` by closed forms, ``"autodiff"`` by reverse
            passes, ``"smoothed"`` by macroscopic differences that see kinks, or ``"auto"``: closed
            forms whenever the head and the loss have them, and smoothed where there are kinks.

    Example:
        >>> import torch, decoupled_descent as dd
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> rows = objective.derivatives(torch.ones(4, 2), torch.ones(4))
        >>> rows.direction.shape, rows.jacobian.shape, list(rows.head)
        (torch.Size([4, 2]), torch.Size([2, 2]), ['a'])
    """

    def __init__(
        self,
        head: nn.Module,
        loss: str | RowLoss,
        *,
        width: int | None = None,
        curvature: str = "auto",
    ) -> None:
        if not isinstance(head, nn.Module):
            raise ValueError(
                f"head={head!r} must be a torch.nn.Module; see decoupled_descent.heads for ready "
                "ones, or wrap a function with decoupled_descent.heads.GeneralisedLinear"
            )
        if curvature not in CURVATURES:
            raise ValueError(f"curvature={curvature!r} must be one of {', '.join(CURVATURES)}")
        self.pure_head = PureHead(head)
        self.loss = get_loss(loss)
        self._declared = width if width is not None else getattr(head, "width", None)
        self.width: int | None = self._declared or _first_linear(head)
        self.curvature = curvature
        self._build_engine()
        if curvature == "structured" and not self._closed:
            raise ValueError(
                f"curvature='structured' has no closed form for head {type(head).__name__} with "
                f"loss {self.loss.name!r}; use curvature='auto'"
            )
        self._automatic = curvature == "auto"
        self._settled: list[tuple[Direction | None, str]] = []
        self._seen: list[tuple[float, float]] = []
        self._kinked = smoothed.has_kinked_module(head) or not self.loss.smooth
        if self._automatic and self._closed and not self._kinked:
            self.curvature = "structured"
            self._settled.append((None, "structured"))

    @property
    def head(self) -> nn.Module:
        """The objective's own copy of the head, as it was given."""
        return self.pure_head.module

    def _build_engine(self) -> None:
        insists = self.curvature == "autodiff"
        closed = None if insists else structured.engine(self.head, self.loss)
        self._closed = closed is not None
        self._engine: Engine = closed or autodiff.engine(self._row_losses)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made anew: engines refer to the objective that they belong to."""
        settled = [(g, curvature) for g, curvature in self._settled if g is None]
        return {k: v for k, v in vars(self).items() if k != "_engine"} | {"_settled": settled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, with an engine of its own."""
        vars(self).update(state)
        self._build_engine()

    def __repr__(self) -> str:
        """Name the head, the loss and the way derivatives are taken."""
        return f"Objective({type(self.head).__name__}, {self.loss.name!r}, {self.curvature})"

    def parameters(self, like: Tensor | None = None) -> Parameters:
        """Return copies of the head's trainable parameters: a, by name.

        Args:
            like: Gives the dtype and the device; the head's own by default.

        Returns:
            Detached copies.
        """
        return self.pure_head.parameters(like)

    def module(self, parameters: Parameters) -> nn.Module:
        """Return a copy of the head that carries the given parameters, in their dtype and device.

        Args:
            parameters: a, by name.

        Returns:
            A new module.
        """
        return self.pure_head.with_parameters(parameters)

    def outputs(self, h: Tensor, parameters: Parameters | None = None) -> Tensor:
        """Evaluate the head.

        Args:
            h: Pre-activations, shape (n, L).
            parameters: a, by name; the head's own by default.

        Returns:
            𝓜_a(h), shape (n,) or (n, K); a single column is squeezed.
        """
        outputs = self.pure_head(h, self.parameters(h) if parameters is None else parameters)
        return outputs.squeeze(1) if outputs.ndim == 2 and outputs.shape[1] == 1 else outputs

    def losses(self, h: Tensor, y: Tensor, parameters: Parameters | None = None) -> Tensor:
        """Evaluate Ψ row by row.

        Args:
            h: Pre-activations, shape (n, L).
            y: Labels, n rows.
            parameters: a, by name; the head's own by default.

        Returns:
            Ψ(h_i, y_i, a), shape (n,).
        """
        return self._row_losses(h, y, self.parameters(h) if parameters is None else parameters)

    def losses_of(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Evaluate the loss row by row, given outputs.

        Args:
            outputs: What the head returns, shape (n,) or (n, K).
            y: Labels, n rows.

        Returns:
            Shape (n,).
        """
        if self.loss.builtin and outputs.ndim == 1:
            outputs = outputs.unsqueeze(1)
        return self.loss.value(outputs, self._labels(y, outputs))

    def derivatives(
        self,
        h: Tensor,
        y: Tensor,
        parameters: Parameters | None = None,
        *,
        g: Direction | None = None,
        f: HeadDirection | None = None,
        jacobian: bool = True,
        head: bool = True,
        spacing: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> RowDerivatives:
        r"""Return loss, ĥ, J̄ and the head's direction in one call.

        Args:
            h: Pre-activations, shape (n, L).
            y: Labels, n rows.
            parameters: a, by name; the head's own by default.
            g: Replaces ∇_hΨ (the general family of the paper); J̄ then comes from autodiff of g.
            f: Replaces ∇_aΨ.
            jacobian: Whether J̄ is wanted.
            head: Whether the head's direction is wanted.
            spacing: δ, shape (L,), the step of smoothed differences; from the spread of ``h`` by
                default.
            weights: w, shape (n,), for J̄ = Σ_r w_r ∇g_r / n; ones by default.

        Returns:
            The row derivatives.
        """
        if parameters is None:
            parameters = self.parameters(h)
        if jacobian and self.curvature_for(y, h.shape[1], g) == "smoothed":
            return self._smoothed(h, y, parameters, g, f, head, spacing, weights)
        head_gradient = head and bool(parameters) and f is None
        if g is None:
            labels = self._engine_labels(y, h)
            rows = self._engine(h, labels, parameters, jacobian, head_gradient, weights)
        else:
            rows = self._general(h, y, parameters, g, jacobian, head_gradient, weights)
        if f is not None and head:
            rows = rows._replace(head=_mean_rows(f(h, y, parameters), parameters, len(h)))
        return rows

    def held_out(
        self,
        h: Tensor,
        y: Tensor,
        heads: Sequence[Parameters],
        f: HeadDirection | None = None,
    ) -> tuple[Tensor, list[Parameters]]:
        """Judge the rows of each fold by a head of its own, and say where that head should move.

        Args:
            h: Pre-activations, shape (n, L).
            y: Labels, n rows.
            heads: One per fold, by parameter name; the i-th row is in fold i mod their number.
            f: Replaces ∇_aΨ.

        Returns:
            The losses, shape (n,), and for each fold the mean of ∇_aΨ over the rows outside it.
        """
        at_once = getattr(self._engine, "held_out", None)
        if at_once is not None and f is None:
            found: tuple[Tensor, list[Parameters]] = at_once(h, self._engine_labels(y, h), heads)
            return found
        losses, means = h.new_empty(len(h)), []
        for fold, head in enumerate(heads):
            everyone, own = (
                self.derivatives(h[span], y[span], head, f=f, jacobian=False)
                for span in (slice(None), slice(fold, None, len(heads)))
            )
            losses[fold :: len(heads)] = own.loss
            share = len(own.loss) / len(h)
            means.append(
                {
                    name: torch.add(mean, own.head[name], alpha=-share) / (1 - share)
                    for name, mean in everyone.head.items()
                }
            )
        return losses, means

    def check(self, y: Tensor, width: int, like: Tensor) -> None:
        """Raise ``ValueError`` if head, loss, labels and width do not fit together.

        Args:
            y: All labels.
            width: L, from θ.
            like: Gives the dtype and the device.
        """
        if self._declared is not None and self._declared != width:
            raise ValueError(
                f"the head takes L = {self._declared} pre-activations, but theta has {width} rows; "
                "theta is (L, d), laid out as nn.Linear.weight"
            )
        count = min(len(y), 8)
        probe = torch.linspace(-1.0, 1.0, count * width, dtype=like.dtype, device=like.device)
        probe = probe.reshape(count, width)
        outputs = self.pure_head.check(probe)
        if self.loss.builtin:
            check_labels(self.loss, y, 1 if outputs.ndim == 1 else outputs.shape[1])
        else:
            check_rows_one_by_one(self.loss, outputs, y)
        self._look_again(y)

    def _look_again(self, y: Tensor) -> None:
        """Forget that no kinks were found as soon as there are labels beyond those seen so far."""
        columns = y.detach().reshape(len(y), -1).double()
        found = list(zip(columns.amin(0).tolist(), columns.amax(0).tolist(), strict=True))
        seen = self._seen if len(self._seen) == len(found) else found
        wider = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(seen, found, strict=True)]
        if wider != self._seen:
            self._settled = [known for known in self._settled if known[1] != "autodiff"]
        self._seen = wider

    def curvature_for(self, y: Tensor, width: int, g: Direction | None = None) -> str:
        """Say how J̄ is found; with ``curvature="auto"``, look for kinks once for every g.

        Labels of a wider range, given to :meth:`check`, are a reason to look again.

        Args:
            y: Labels, some of which are probed with.
            width: L.
            g: Replaces ∇_hΨ.

        Returns:
            ``"structured"``, ``"autodiff"`` or ``"smoothed"``.
        """
        if not self._automatic:
            return self.curvature
        for known, curvature in self._settled:
            if known is g:
                return curvature
        kinked = (g is None and self._kinked) or smoothed.find_kinks(self, y, width, g)
        if g is None and not kinked and not self.loss.builtin:
            kinked = loss_kinks.loss_has_kinks(self, y[varied_rows(y, 16)], width)
        smooth = "structured" if self._closed and g is None else "autodiff"
        curvature = "smoothed" if kinked else smooth
        self._settled.append((g, curvature))
        if g is None:
            self.curvature = curvature
        if kinked:
            subject = f"head {type(self.head).__name__} with loss {self.loss.name!r}"
            warnings.warn(
                f"{subject if g is None else 'g'} has kinks, where exact second derivatives miss "
                "the jumps of the first: J̄ is taken by macroscopic differences instead. Say "
                "curvature='smoothed' to agree, 'autodiff' to insist on pointwise derivatives",
                smoothed.KinkWarning,
                stacklevel=3,
            )
        return curvature

    def _smoothed(
        self,
        h: Tensor,
        y: Tensor,
        parameters: Parameters,
        g: Direction | None,
        f: HeadDirection | None,
        head: bool,
        spacing: Tensor | None,
        weights: Tensor | None,
    ) -> RowDerivatives:
        rows = self.derivatives(h, y, parameters, g=g, f=f, jacobian=False, head=head)
        if spacing is None:
            spacing = smoothed.spacing(h.std(0), len(h))

        def direction(shifted: Tensor) -> Tensor:
            if g is not None:
                return g(shifted, y, parameters)
            labels = self._engine_labels(y, h)
            return self._engine(shifted, labels, parameters, False, False, None).direction

        bend = smoothed.mean_jacobian(direction, h, spacing, weights).detach()
        return rows._replace(jacobian=bend if g is not None else (bend + bend.T) / 2)

    def _general(
        self,
        h: Tensor,
        y: Tensor,
        parameters: Parameters,
        g: Direction,
        jacobian: bool,
        head: bool,
        weights: Tensor | None,
    ) -> RowDerivatives:
        rows = self._engine(h, self._engine_labels(y, h), parameters, False, head, None)
        with torch.enable_grad():
            h = h.detach().requires_grad_(jacobian)
            direction = g(h, y, parameters)
            if direction.shape != h.shape:
                raise ValueError(
                    f"g returned shape {tuple(direction.shape)} for pre-activations of shape "
                    f"{tuple(h.shape)}; it must return one row of L values per sample"
                )
            if jacobian and not direction.requires_grad:
                _check_constant(g, h, y, parameters, direction)
            bend = autodiff.mean_jacobian(direction, h, weights) if jacobian else None
        return rows._replace(direction=direction.detach(), jacobian=bend)

    def _row_losses(self, h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        return self.losses_of(self.pure_head(h, parameters), y)

    def _engine_labels(self, y: Tensor, like: Tensor) -> Tensor:
        """Closed forms work feature by feature and take yᵀ; autodiff takes labels as they are."""
        if not self._closed:
            return y
        if self.loss.categorical:
            return y.long()
        y = y if y.is_floating_point() else y.to(like.dtype)
        return y.unsqueeze(0) if y.ndim == 1 else y.T

    def _labels(self, y: Tensor, like: Tensor) -> Tensor:
        """Bring labels into the form the loss wants: class indices, or one column per output."""
        if not self.loss.builtin:
            return y
        if self.loss.categorical:
            return y.long()
        y = y if y.is_floating_point() else y.to(like.dtype)
        return y.unsqueeze(1) if y.ndim == 1 else y


def _check_constant(
    g: Direction, h: Tensor, y: Tensor, parameters: Parameters, direction: Tensor
) -> None:
    """Raise ``ValueError`` when g varies with h but autograd cannot see how."""
    if not torch.equal(g(h.detach() + 0.5, y, parameters), direction):
        raise ValueError(
            "g depends on h, but autograd does not know how, so that J̄ would be 0: compute it "
            "without torch.no_grad(), detach() or NumPy, use torch.autograd.grad(…, "
            "create_graph=True), or choose Objective(…, curvature='smoothed'), which needs values "
            "only"
        )


def _mean_rows(directions: Parameters, parameters: Parameters, n: int) -> Parameters:
    """Average what f returned over the rows, once it is known to fit the parameters."""
    for name, value in parameters.items():
        found = directions[name].shape if name in directions else None
        if found != (n, *value.shape):
            raise ValueError(
                f"f returned {'nothing' if found is None else f'shape {tuple(found)}'} for head "
                f"parameter {name!r}; it must return one row per sample, {(n, *value.shape)}"
            )
    return {name: directions[name].detach().mean(0) for name in parameters}


def _first_linear(head: nn.Module) -> int | None:
    """Guess L as the number of inputs of the head's first linear layer."""
    for module in head.modules():
        if isinstance(module, nn.Linear):
            return module.in_features
    return None
