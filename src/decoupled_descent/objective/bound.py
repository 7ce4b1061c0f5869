r"""An objective bound to labels and a width: all derivatives of Ψ, taken in one way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from decoupled_descent.objective import autodiff, smoothed
from decoupled_descent.objective.derivatives import (
    Ask,
    Direction,
    HeadDirection,
    Parameters,
    RowDerivatives,
    Timed,
)

if TYPE_CHECKING:
    from decoupled_descent.objective.objective import Objective


@dataclass(frozen=True, eq=False)
class BoundObjective:
    r"""What :meth:`Objective.bind` returns: Ψ with a fixed g, f and way to find J̄."""

    objective: Objective
    width: int  #: L
    curvature: str  #: how J̄ is found: "structured", "autodiff" or "smoothed"
    g: Direction | None = None  #: replaces ∇_hΨ
    f: HeadDirection | None = None  #: replaces ∇_aΨ
    turn: int = 0  #: the step, by which autodiff chooses the components of wide heads

    def at(self, step: int) -> BoundObjective:
        """Return the objective of one step: with its g, if g depends on the step, and its turn."""
        if isinstance(self.g, Timed):
            return replace(self, g=Timed(self.g.g, step), turn=step)
        return replace(self, turn=step) if self.curvature == "autodiff" else self

    @property
    def kinked(self) -> bool:
        """Whether J̄ is taken by differences across kinks."""
        return self.curvature == "smoothed"

    def misses_jumps(self, y: Tensor) -> bool:
        """Whether g jumps, but exact second derivatives were asked for, which do not see that."""
        if self.kinked or self.objective.curvature == "auto":
            return False
        return self.objective.has_kinks(y, self.width, self.g)

    @property
    def theta(self) -> Tensor | None:
        """θ of the model, where training starts; None for a head alone."""
        return self.objective.theta

    def parameters(self, like: Tensor | None = None) -> Parameters:
        """Return detached copies of the head's trainable parameters: a, by name."""
        return self.objective.parameters(like)

    def outputs(self, h: Tensor, parameters: Parameters | None = None) -> Tensor:
        """Evaluate the head, shape (n,) or (n, K)."""
        return self.objective.outputs(h, parameters)

    def losses(self, h: Tensor, y: Tensor, parameters: Parameters | None = None) -> Tensor:
        """Evaluate Ψ row by row, shape (n,)."""
        return self.objective.losses(h, y, parameters)

    def derivatives(
        self,
        h: Tensor,
        y: Tensor,
        parameters: Parameters | None = None,
        *,
        jacobian: bool = True,
        head: bool = True,
        weights: Tensor | None = None,
        jacobian_weights: Tensor | None = None,
        spacing: Tensor | None = None,
    ) -> RowDerivatives:
        r"""Return loss, ĥ, J̄ and the head's direction in one call.

        Args:
            h: Pre-activations, shape (n, L).
            y: Their labels, n rows of the kind that was bound.
            parameters: a, by name; the head's own by default.
            jacobian: Whether J̄ is wanted.
            head: Whether the head's direction is wanted.
            weights: w, shape (n,), for means Σ_r w_r (…)_r / n of the Jacobian and of the head's
                direction; ones by default.
            jacobian_weights: Other weights for the Jacobian alone.
            spacing: δ, shape (L,), the step of smoothed differences; from the spread of ``h`` by
                default.
        """
        if parameters is None:
            parameters = self.parameters(h)
        shares = weights if jacobian_weights is None else jacobian_weights
        own = self.f is None and head and bool(parameters)
        bend = jacobian and self.g is None and not self.kinked
        ask = Ask(bend, own, shares, weights, self.turn)
        rows = self.objective.engine(h, y, parameters, ask)
        if self.g is not None:
            bend = jacobian and not self.kinked
            direction, mean = self._along_g(h, y, parameters, bend, shares)
            rows = rows._replace(direction=direction, jacobian=mean)
        if jacobian and self.kinked:
            rows = rows._replace(jacobian=self._smoothed(h, y, parameters, spacing, shares))
        if head and self.f is not None:
            means = _mean_rows(self.f(h, y, parameters), parameters, len(h), weights)
            rows = rows._replace(head=means)
        return rows

    def several_heads(
        self, h: Tensor, y: Tensor, heads: Parameters, weights: Tensor
    ) -> tuple[Tensor, Parameters]:
        r"""Return losses (G, n) and mean directions of G heads on the same rows.

        Args:
            h: Pre-activations, shape (n, L).
            y: Labels.
            heads: Their parameters by name, with a first axis of length G; the directions have it,
                too.
            weights: Weights of the rows in the mean direction of each head, shape (G, n).
        """
        if self.objective.several is not None and self.f is None:
            return self.objective.several(h, y, heads, weights)
        results = [
            self.derivatives(
                h, y, {name: value[k] for name, value in heads.items()}, jacobian=False, weights=own
            )
            for k, own in enumerate(weights)
        ]
        directions = {name: torch.stack([rows.head[name] for rows in results]) for name in heads}
        return torch.stack([rows.loss for rows in results]), directions

    def row_jacobians(
        self,
        h: Tensor,
        y: Tensor,
        parameters: Parameters | None = None,
        *,
        spacing: Tensor | None = None,
    ) -> Tensor:
        """Return ∂g_i/∂h_j row by row, by default of ∇_hΨ, shape (n, L, L).

        With ``spacing``, shape (L,), they are differences with these steps, across kinks.
        """
        parameters = self.parameters(h) if parameters is None else parameters
        if spacing is not None:
            g = self.g or self.objective.slopes
            return smoothed.row_jacobians(lambda at: g(at, y, parameters), h, spacing).detach()
        with torch.enable_grad():
            h = h.detach().requires_grad_()
            if self.g is not None:
                direction = self.g(h, y, parameters)
            else:
                total = self.losses(h, y, parameters).sum()
                (direction,) = torch.autograd.grad(total, h, create_graph=True)
            return autodiff.row_jacobians(direction, h).transpose(0, 1)

    def _along_g(
        self, h: Tensor, y: Tensor, parameters: Parameters, jacobian: bool, shares: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """g, and its mean Jacobian if requested."""
        assert self.g is not None
        with torch.enable_grad():
            h = h.detach().requires_grad_(jacobian)
            direction = self.g(h, y, parameters)
            require_shape(direction, h)
            if not jacobian:
                return direction.detach(), None
            constant = not direction.requires_grad
            if constant and not torch.equal(self.g(h.detach() + 0.5, y, parameters), direction):
                raise ValueError(
                    "g depends on h, but autograd does not know how: the derivative would be 0. "
                    "Compute g without torch.no_grad(), detach() or NumPy, use "
                    "torch.autograd.grad(…, create_graph=True), or choose "
                    "Objective(…, curvature='smoothed'), which needs values only"
                )
            return direction.detach(), autodiff.mean_jacobian(direction, h, shares, self.turn)

    def _smoothed(
        self,
        h: Tensor,
        y: Tensor,
        parameters: Parameters,
        spacing: Tensor | None,
        shares: Tensor | None,
    ) -> Tensor:
        """J̄ by differences across kinks; symmetric where g is a gradient."""
        if spacing is None:
            spacing = smoothed.spacing(h.std(0), len(h))
        g = self.g or self.objective.slopes
        bend = smoothed.mean_jacobian(lambda at: g(at, y, parameters), h, spacing, shares).detach()
        return bend if self.g is not None else (bend + bend.T) / 2


def require_shape(direction: Tensor, h: Tensor) -> None:
    """Raise ``ValueError`` unless g returned something of the shape of h."""
    if direction.shape != h.shape:
        raise ValueError(
            f"g returned shape {tuple(direction.shape)} for pre-activations of shape "
            f"{tuple(h.shape)}; it must return one row of L values per sample"
        )


def _mean_rows(
    directions: Parameters, parameters: Parameters, n: int, weights: Tensor | None
) -> Parameters:
    """Check that what f returned has the shapes of the parameters, and average over the rows."""
    for name, value in parameters.items():
        shape = directions[name].shape if name in directions else None
        if shape != (n, *value.shape):
            raise ValueError(
                f"f returned {'nothing' if shape is None else f'shape {tuple(shape)}'} for head "
                f"parameter {name!r}; it must return one row per sample, {(n, *value.shape)}"
            )
    if weights is None:
        return {name: directions[name].detach().mean(0) for name in parameters}
    return {name: torch.tensordot(weights, directions[name].detach(), 1) / n for name in parameters}
