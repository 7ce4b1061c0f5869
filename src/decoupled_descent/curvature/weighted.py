r"""Mean Jacobians in which rows count differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from decoupled_descent.curvature import Parameters, autodiff, smoothed

if TYPE_CHECKING:
    from decoupled_descent.objective import Direction, Objective


def weighted_jacobian(
    objective: Objective,
    h: Tensor,
    y: Tensor,
    parameters: Parameters,
    weights: Tensor,
    g: Direction | None = None,
    spacing: Tensor | None = None,
) -> Tensor:
    r"""Average Jacobians of g with weights that do not depend on h.

    .. math:: \bar J = \frac1n\sum_r w_r \nabla_h g(h_r, y_r, a)

    Args:
        objective: Ψ; its ``curvature`` says whether differences must be macroscopic.
        h: Pre-activations, shape (n, L).
        y: Labels, n rows.
        parameters: a, by name.
        weights: w, shape (n,).
        g: Replaces ∇_hΨ.
        spacing: δ, shape (L,), the step of smoothed differences; from the spread of ``h`` by
            default.

    Returns:
        J̄, shape (L, L).

    Example:
        >>> import decoupled_descent as dd
        >>> objective = dd.Objective(dd.heads.Linear(), "squared")  # whose second derivative is 1
        >>> weighted_jacobian(
        ...     objective, torch.ones(2, 1), torch.ones(2), {}, torch.tensor([1.0, 4.0])
        ... )
        tensor([[2.5000]])
    """
    column = weights.unsqueeze(1)
    if objective.curvature == "smoothed":
        if spacing is None:
            spacing = smoothed.spacing(h.std(0), len(h))

        def direction(shifted: Tensor) -> Tensor:
            found = objective.derivatives(
                shifted, y, parameters, g=g, jacobian=False, head=False
            ).direction
            return column * found

        return smoothed.mean_jacobian(direction, h, spacing)
    with torch.enable_grad():
        h = h.detach().requires_grad_()
        if g is None:
            total = objective.losses(h, y, parameters).sum()
            (slope,) = torch.autograd.grad(total, h, create_graph=True)
        else:
            slope = g(h, y, parameters)
        return autodiff.mean_jacobian(column * slope, h).detach()
