r"""Linear stability of a fixed point of damped decoupled descent."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from decoupled_descent.objective import kinks
from decoupled_descent.state_evolution.averages import row_jacobians
from decoupled_descent.state_evolution.equations import Equations, Point, pack, unpack
from decoupled_descent.state_evolution.gaussian import psd_root

#: Step of the central differences, relative to a unit change.
DIFFERENCE = 1e-5
#: Rows to look for jumps with.
PROBED = 64


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

    and the largest |λ| of this finite matrix is returned. For continuous g only: see :func:`jumps`.

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

    A filter v ← (1 − η) v − c η w amplifies slow differences most, by c; hence no η. For continuous
    g only, kinks allowed: where g jumps it is infinite, see :func:`jumps`.

    Args:
        equations: At the fixed point's c.
        point: The fixed point.

    Returns:
        The growth; iterates come together when it is below one.
    """
    h = equations.nodes.place(point.alignment, point.overlap)
    theory, population = equations.theory, equations.nodes.population
    rows = row_jacobians(theory.objective, h, population.responses, point.head, theory.algorithm.g)
    width = rows.shape[1]
    operator = torch.einsum("n,nij,nkl->ikjl", population.weights, rows, rows).reshape(
        width**2, width**2
    )
    growth = float(torch.linalg.eigvals(operator).abs().max())
    return equations.c**2 * equations.ratio * growth


def jumps(equations: Equations, point: Point) -> bool:
    r"""Whether g jumps within a few standard deviations of h.

    Where g jumps by Δ, two iterates at a small distance ε fall on different sides with a
    probability of order ε: E‖g − g'‖² ∝ Δ² ε, against ε² where g is continuous. However close they
    are, the step drives them apart; and Σ[r,s] has a cusp at r = s, where it should be
    differentiated.

    Args:
        equations: At the fixed point's c.
        point: The fixed point.

    Returns:
        Whether a jump was found; kinks of a continuous g are none.
    """
    objective, g = equations.theory.objective, equations.theory.algorithm.g
    population, root = equations.nodes.population, psd_root(point.overlap)
    size = len(population.weights)
    probed = torch.linspace(0, size - 1, min(size, PROBED), dtype=torch.float64)

    def direction(z: Tensor, row: Tensor) -> Tensor:
        rows = row.long()
        h = point.alignment[population.modes[rows]] + z @ root
        responses = population.responses[rows]
        return objective.derivatives(
            h, responses, point.head, g=g, jacobian=False, head=False
        ).direction

    return kinks.jumps(direction, len(root), probed)
