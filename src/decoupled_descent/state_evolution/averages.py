r"""Weighted averages over rows (h, y) that stand for a mixture."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.objective import Direction, HeadDirection, Objective, autodiff
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.state_evolution.populations import Population


class Observed(NamedTuple):
    r"""One-time averages at (m, Ω, a).

    Attributes:
        loss: E Ψ, the test error.
        direction: g(h, y, a) row by row, shape (N, L).
        signal: l_j = p_j E g, shape (J, L).
        head: E f, by parameter name.
    """

    loss: Tensor
    direction: Tensor
    signal: Tensor
    head: Parameters


def observe(
    objective: Objective,
    algorithm: DecoupledDescent,
    population: Population,
    h: Tensor,
    parameters: Parameters,
) -> Observed:
    """Average the loss, g and f over weighted rows.

    Args:
        objective: Ψ.
        algorithm: Gives g and f.
        population: The rows.
        h: Their pre-activations, shape (N, L).
        parameters: a, by name.

    Returns:
        The averages.
    """
    y = population.responses
    rows = objective.derivatives(h, y, parameters, g=algorithm.g, jacobian=False, head=False)
    head: Parameters = {}
    if algorithm.trains_head and parameters:
        head = mean_head_direction(objective, population, h, parameters, algorithm.f)
    loss = population.weights @ rows.loss
    return Observed(loss, rows.direction, population.by_mode(rows.direction), head)


def mean_head_direction(
    objective: Objective,
    population: Population,
    h: Tensor,
    parameters: Parameters,
    f: HeadDirection | None = None,
) -> Parameters:
    """Weighted mean of f, by default of ∇_aΨ.

    ``Objective.derivatives`` averages with equal weights, which nodes of a rule do not have.

    Args:
        objective: Ψ.
        population: The rows.
        h: Their pre-activations, shape (N, L).
        parameters: a, by name.
        f: Replaces ∇_aΨ.

    Returns:
        The mean, by parameter name.
    """
    y, weights = population.responses, population.weights
    if f is not None:
        values = f(h, y, parameters)
        return {k: torch.tensordot(weights, v.detach(), 1) for k, v in values.items()}
    with torch.enable_grad():
        leaves = {k: v.detach().requires_grad_() for k, v in parameters.items()}
        mean = weights @ objective.losses(h, y, leaves)
        gradients = torch.autograd.grad(mean, list(leaves.values()), materialize_grads=True)
    return dict(zip(leaves, gradients, strict=True))


def mean_jacobian(
    objective: Objective,
    population: Population,
    h: Tensor,
    parameters: Parameters,
    g: Direction | None = None,
) -> Tensor:
    """Weighted mean of ∇_h g, by default of ∇²_hΨ.

    Args:
        objective: Ψ.
        population: The rows.
        h: Their pre-activations, shape (N, L).
        parameters: a, by name.
        g: Replaces ∇_hΨ.

    Returns:
        The mean, shape (L, L).
    """
    with torch.enable_grad():
        h = h.detach().requires_grad_()
        direction = _direction(objective, h, population.responses, parameters, g)
        weighted = direction * population.weights.unsqueeze(1)
        return autodiff.mean_jacobian(weighted, h).detach() * len(h)


def row_jacobians(
    objective: Objective,
    h: Tensor,
    y: Tensor,
    parameters: Parameters,
    g: Direction | None = None,
) -> Tensor:
    """∂g_i/∂h_j row by row, by default of ∇_hΨ.

    Args:
        objective: Ψ.
        h: Pre-activations, shape (N, L).
        y: Responses, shape (N,).
        parameters: a, by name.
        g: Replaces ∇_hΨ.

    Returns:
        The Jacobians, shape (N, L, L).
    """
    with torch.enable_grad():
        h = h.detach().requires_grad_()
        direction = _direction(objective, h, y, parameters, g)
        if not direction.requires_grad:
            return direction.new_zeros(len(h), h.shape[1], h.shape[1])
        columns = [
            torch.autograd.grad(part.sum(), h, retain_graph=True, materialize_grads=True)[0]
            for part in direction.unbind(1)
        ]
    return torch.stack(columns, 1).detach()


def _direction(
    objective: Objective, h: Tensor, y: Tensor, parameters: Parameters, g: Direction | None
) -> Tensor:
    """Return g as a function of h that autograd can differentiate."""
    if g is not None:
        return g(h, y, parameters)
    (direction,) = torch.autograd.grad(
        objective.losses(h, y, parameters).sum(), h, create_graph=True
    )
    return direction
