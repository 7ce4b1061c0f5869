r"""Linear stability of a fixed point of damped decoupled descent."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from decoupled_descent.curvature import Parameters
from decoupled_descent.state_evolution.equations import Equations, Point, pack, unpack
from decoupled_descent.state_evolution.gaussian import psd_root

#: Step of the central differences, relative to a unit change.
DIFFERENCE = 1e-5


def spectral_radius(equations: Equations, point: Point, eta: float, gamma: float) -> float:
    r"""Growth per step of a small change of (m, Ω, ā).

    A change at time r alone, of size λʳ, moves Ω[r,s] to Ω + λʳ A with A = lim δθ_rᵀ θ_s/d, and
    Ω[r,r] to Ω + λʳ(A + Aᵀ): to first order Gʳ = (I + K) G with K = A Ω⁻¹. The expectations at
    time r against the unchanged iterate therefore close on (m, K, ā),

    .. math::
       \lambda\,\delta m &= (1-\eta)\,\delta m - \eta\,c\,\alpha\,\chi\,\delta l \\
       \lambda\,\delta K &= (1-\eta)\,\delta K
           + \eta\,c^2\,
           \delta\big(\alpha E[g g_*^\top] + \alpha^2\, l^\top\chi\,l_*\big)\,\Omega^{-1}\\
       \lambda\,\delta a &= \delta a - \gamma\,\delta E f ,

    and the largest |λ| of this finite matrix is returned.

    Args:
        equations: At the fixed point's c.
        point: The fixed point.
        eta: η = 1 − η₀.
        gamma: γ₁.

    Returns:
        The largest modulus of an eigenvalue.
    """
    noise = equations.nodes.normals @ psd_root(point.overlap)
    modes = equations.nodes.population.modes
    inverse = torch.zeros_like(point.overlap)
    if float(point.overlap.abs().max()) > 1e-12:  # at Ω = 0 there is nothing to tilt
        inverse = torch.linalg.pinv(point.overlap, hermitian=True, rtol=1e-10)
    names = list(point.head) if equations.trains_head else []
    still = equations.directions(point.alignment[modes] + noise, point.head)
    origin = Point(point.alignment, torch.zeros_like(point.overlap), point.head)

    def step(at: Point) -> Point:
        h = at.alignment[modes] + noise + noise @ at.overlap.T
        alignment, overlap = equations.standing(equations.directions(h, at.head), still)
        tilt = (overlap - point.overlap) @ inverse
        pull = equations.head_direction(h, at.head)
        return Point(
            (1 - eta) * at.alignment + eta * alignment,
            (1 - eta) * at.overlap + eta * tilt,
            at.head | {name: at.head[name] - gamma * pull[name] for name in names},
        )

    def packed(values: Tensor) -> Tensor:
        return pack(step(unpack(values, origin, names)), names)

    jacobian = central_differences(packed, pack(origin, names))
    return float(torch.linalg.eigvals(jacobian).abs().max())


def central_differences(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Jacobian of a vector function by central differences.

    Args:
        function: From (k,) to (k,).
        at: Where, shape (k,).

    Returns:
        The Jacobian, shape (k, k).

    Example:
        >>> central_differences(lambda x: x**2, torch.tensor([3.0], dtype=torch.float64)).round()
        tensor([[6.]], dtype=torch.float64)
    """
    columns = []
    for direction in torch.eye(len(at), dtype=at.dtype) * DIFFERENCE:
        columns.append((function(at + direction) - function(at - direction)) / (2 * DIFFERENCE))
    return torch.stack(columns, 1)


def replicon(equations: Equations, point: Point) -> float:
    r"""Growth of the squared distance between two iterates at the same overlaps.

    .. math::
       c^2\,\alpha\,\varrho\big(X \mapsto
       \textstyle\sum_j p_j E[\nabla g\,X\,\nabla g^\top]\big)

    A filter v ← (1 − η) v − c η w amplifies slow differences most, by c; hence no η.

    Args:
        equations: At the fixed point's c.
        point: The fixed point.

    Returns:
        The growth; iterates come together when it is below one.
    """
    h = equations.nodes.place(point.alignment, point.overlap)
    rows = row_jacobians(equations, h, point.head)
    weights = equations.nodes.population.weights
    width = rows.shape[1]
    operator = torch.einsum("n,nij,nkl->ikjl", weights, rows, rows).reshape(width**2, width**2)
    growth = float(torch.linalg.eigvals(operator).abs().max())
    return equations.c**2 * equations.ratio * growth


def row_jacobians(equations: Equations, h: Tensor, parameters: Parameters) -> Tensor:
    """∂g_i/∂h_j row by row, shape (N, L, L)."""
    objective, g = equations.theory.objective, equations.theory.algorithm.g
    responses = equations.nodes.population.responses
    with torch.enable_grad():
        h = h.detach().requires_grad_()
        if g is None:
            total = objective.losses(h, responses, parameters).sum()
            (direction,) = torch.autograd.grad(total, h, create_graph=True)
        else:
            direction = g(h, responses, parameters)
        if not direction.requires_grad:
            return direction.new_zeros(len(h), h.shape[1], h.shape[1])
        columns = [
            torch.autograd.grad(part.sum(), h, retain_graph=True, materialize_grads=True)[0]
            for part in direction.unbind(1)
        ]
    return torch.stack(columns, 1).detach()
