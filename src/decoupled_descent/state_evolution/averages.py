r"""Ψ, its derivatives and the direction of a step, averaged over rows (h, y) of a mixture.

Derivatives are taken here and nowhere else in state evolution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.common import LimitStep
from decoupled_descent.objective import loss_kinks, smoothed
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.losses import varied_rows
from decoupled_descent.objective.objective import Direction, HeadDirection, Objective
from decoupled_descent.state_evolution.laws import MixtureLaw, typical_responses
from decoupled_descent.state_evolution.populations import Nodes, Population

#: How many responses to look for kinks with.
PROBED = 16


class Observed(NamedTuple):
    r"""Averages at one iterate (m, Ω, a).

    Attributes:
        loss: E Ψ, the test error.
        direction: The direction of the step row by row, shape (N, L).
        signal: l_j = p_j E[direction | j], shape (J, L).
        head: E f, by parameter name; empty for a frozen head.
    """

    loss: Tensor
    direction: Tensor
    signal: Tensor
    head: Parameters


class Model:
    """An objective and a step on a mixture, for heads of L inputs.

    Attributes:
        trains_head: Whether ā moves.
    """

    def __init__(
        self,
        objective: Objective,
        mixture: MixtureLaw,
        width: int,
        step: LimitStep | None = None,
        trains_head: bool = False,
    ) -> None:
        self.objective, self.mixture, self.width = objective, mixture, width
        self.step = LimitStep() if step is None else step
        self.trains_head = trains_head and bool(objective.parameters())
        self.responses = typical_responses(mixture)
        objective.check(self.responses, width, torch.zeros((), dtype=torch.float64))

    def announce_kinks(self) -> None:
        """Warn of kinks of g before any step, as training does."""
        self.objective.curvature_for(self.responses, self.width, self.step.g)

    def losses(self, h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        """Return Ψ row by row, shape (N,)."""
        return self.objective.losses(h, y, parameters).detach().double()

    def gradients(self, h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        """Return ∇_hΨ row by row, shape (N, L)."""
        return self._rows(h, y, parameters, None)[1]

    def directions(
        self, h: Tensor, y: Tensor, parameters: Parameters, jacobian: Tensor | None = None
    ) -> Tensor:
        """Return g, or g − h J̄ᵀ where J̄ is given, shape (N, L)."""
        return _corrected(self._rows(h, y, parameters, self.step.g)[1], h, jacobian)

    def observe(
        self,
        population: Population,
        h: Tensor,
        parameters: Parameters,
        jacobian: Tensor | None = None,
    ) -> Observed:
        """Average the loss, the direction and f over rows with pre-activations h."""
        loss, g = self._rows(h, population.responses, parameters, self.step.g)
        direction = _corrected(g, h, jacobian)
        head: Parameters = {}
        if self.trains_head:
            head = self.head_direction(population, h, parameters, self.step.f)
        signal = population.by_mode(direction)
        return Observed(population.weights @ loss, direction, signal, head)

    def _rows(
        self, h: Tensor, y: Tensor, parameters: Parameters, g: Direction | None
    ) -> tuple[Tensor, Tensor]:
        found = self.objective.derivatives(h, y, parameters, g=g, jacobian=False, head=False)
        return found.loss, found.direction

    def head_direction(
        self,
        population: Population,
        h: Tensor,
        parameters: Parameters,
        f: HeadDirection | None = None,
    ) -> Parameters:
        """Return the mean of f by name, of ∇_aΨ by default."""
        y, weights = population.responses, population.weights
        if f is not None:
            values = f(h, y, parameters)
            return {k: torch.tensordot(weights, v.detach(), 1) for k, v in values.items()}
        with torch.enable_grad():
            leaves = {k: v.detach().requires_grad_() for k, v in parameters.items()}
            mean = weights @ self.objective.losses(h, y, leaves)
            gradients = torch.autograd.grad(mean, list(leaves.values()), materialize_grads=True)
        return dict(zip(leaves, gradients, strict=True))

    def correction(
        self, nodes: Nodes, alignment: Tensor, overlap: Tensor, parameters: Parameters
    ) -> Tensor | None:
        """Return J̄ at (m, Ω, a), which a divergence-free direction takes off; else None."""
        if not self.step.divergence_free:
            return None
        h = nodes.place(alignment, overlap)
        noise = h - alignment[nodes.population.modes]
        return self.mean_jacobian(nodes.population, h, noise, overlap, parameters, self.step.g)

    def mean_jacobian(
        self,
        population: Population,
        h: Tensor,
        noise: Tensor,
        overlap: Tensor,
        parameters: Parameters,
        g: Direction | None = None,
    ) -> Tensor:
        r"""Return E ∇_h g for h = m_j + noise, of ∇²_hΨ by default, shape (L, L).

        Across kinks by Stein's lemma, E[g noiseᵀ] Ω⁻¹ with Ω the covariance of the noise.
        """
        y = population.responses
        if self.objective.curvature_for(y, h.shape[1], g) == "smoothed":
            weighted = population.weights * self._rows(h, y, parameters, g)[1].T
            stein: Tensor = weighted @ noise @ torch.linalg.pinv(overlap, hermitian=True)
            return stein
        weights = population.weights * len(h)
        found = self.objective.derivatives(h, y, parameters, g=g, head=False, weights=weights)
        assert found.jacobian is not None
        return found.jacobian

    def row_jacobians(
        self, h: Tensor, y: Tensor, parameters: Parameters, g: Direction | None = None
    ) -> Tensor:
        """Return ∇_h g row by row, of ∇²_hΨ by default, shape (N, L, L)."""
        with torch.enable_grad():
            h = h.detach().requires_grad_()
            if g is not None:
                direction = g(h, y, parameters)
            else:
                losses = self.objective.losses(h, y, parameters).sum()
                (direction,) = torch.autograd.grad(losses, h, create_graph=True)
            if not direction.requires_grad:
                return direction.new_zeros(len(h), h.shape[1], h.shape[1])
            columns = [
                torch.autograd.grad(part.sum(), h, retain_graph=True, materialize_grads=True)[0]
                for part in direction.unbind(1)
            ]
        return torch.stack(columns, 1).detach()

    @property
    def known_kinks(self) -> bool:
        """Whether the head contains a module, or the loss is one, that is known for its kinks."""
        head, loss = self.objective.head, self.objective.loss
        return smoothed.has_kinked_module(head) or not loss.smooth

    @property
    def closed_form(self) -> bool:
        """Whether the derivatives of Ψ have closed forms, which only smooth Ψ have."""
        return self.objective.curvature == "structured"

    def probed_responses(self) -> Tensor:
        """Return a few responses that differ."""
        return self.responses[varied_rows(self.responses, PROBED)]

    def loss_jumps(self) -> bool:
        """Whether the slope of the loss jumps at outputs that the head may reach."""
        return loss_kinks.loss_has_kinks(self.objective, self.probed_responses(), self.width)


def jumps(values: Callable[[Tensor, Tensor], Tensor], width: int, y: Tensor) -> bool:
    """Whether values(h, y) jump along a few lines within a few units of zero."""
    return smoothed.jumps(values, width, y)


def _corrected(direction: Tensor, h: Tensor, jacobian: Tensor | None) -> Tensor:
    return direction if jacobian is None else direction - h @ jacobian.T
