r"""Fixed points of damped descent (Theorem "global"), and critical points of the test error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from decoupled_descent.objective import Parameters
from decoupled_descent.theory.averages import Point
from decoupled_descent.theory.equations import (
    Equations,
    direction_jumps,
    replicon,
    solve,
    spectral_radius,
)
from decoupled_descent.theory.laws import head_parameters, on_cpu
from decoupled_descent.theory.state_evolution import StateEvolution
from decoupled_descent.theory.taylor import head_rates, step_rates

#: Relaxation steps before Newton's method takes over.
RELAXATION_STEPS = 400


@dataclass(frozen=True)
class FixedPoint:
    r"""A fixed point of the recursion, and its stability.

    Attributes:
        alignment: m*, shape (J, L).
        overlap: Ω*, shape (L, L).
        head: ā*, by name.
        test_error: At the fixed point.
        residual: Largest violation of the equations.
        spectral_radius: Growth per step of a small change of (m, Ω, ā); NaN where g jumps, because
            the recursion then has no derivative.
        replicon: Growth of the squared distance of two iterates at these overlaps. Below one the
            iterates converge to one vector. Infinite if g jumps (absolute or hinge loss, ReLU
            heads): then iterates keep moving, and the recursion does not converge to this point.
            Kinks of a continuous g (Huber loss) do not matter.
        eta: η, one minus the damping.
    """

    alignment: Tensor = field(repr=False)
    overlap: Tensor = field(repr=False)
    head: Parameters = field(repr=False)
    test_error: float
    residual: float
    spectral_radius: float
    replicon: float
    eta: float

    @property
    def rate(self) -> float:
        """Factor per step by which Ω[t,t] finally approaches Ω*: the slower of two rates.

        Changes of (m, Ω, ā) shrink by the spectral radius per step. Differences between iterates
        shrink by 1 − η + η √replicon, up to a power of t, and enter the variance squared. Infinite
        if g jumps, because Ω[t,t] then does not converge.
        """
        if self.replicon == math.inf:
            return math.inf
        return max(self.spectral_radius, (1 - self.eta + self.eta * math.sqrt(self.replicon)) ** 2)

    @property
    def stable(self) -> bool:
        """Whether the recursion returns to it after a small change."""
        return self.spectral_radius < 1 and self.replicon < 1


@on_cpu
def fixed_point(
    theory: StateEvolution,
    theta: Tensor | None = None,
    *,
    alignment: Tensor | None = None,
    overlap: Tensor | None = None,
    head: nn.Module | Mapping[str, Tensor] | None = None,
    tolerance: float = 1e-10,
) -> FixedPoint:
    r"""Solve for the fixed point near the one that relaxation reaches (Theorem "global").

    .. math::
       m_j = -c\,\alpha \textstyle\sum_k \chi_{jk} l_k, \qquad
       \Omega = c^2\big(\alpha\Sigma + \alpha^2 \textstyle\sum_{jk}\chi_{jk} l_j l_k^\top\big),
       \qquad 0 = \textstyle\sum_j p_j E[f(m_j + G, Y_j, \bar a)]

    for decoupled descent, and with the limits of its own step for any other algorithm.

    Args:
        theory: With damping η₀ = 1 − η below one and head damping one; then c = η₁/η.
        theta: Starting point, as in :meth:`StateEvolution.run`.
        alignment: Instead of ``theta``; the end of a run is a good start.
        overlap: Instead of ``theta``.
        head: ā, a module or its parameters by name; the objective's own by default.
        tolerance: Largest violation of the equations that is accepted. If g jumps, averages over
            points jump as well, and about 1e-3 is the best possible value.

    Returns:
        The fixed point and its stability.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.flipped_classes(10, snr=2.0, labels=(0.0, 1.0))
        >>> objective = dd.Objective(dd.heads.Linear(), "logistic")
        >>> theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.05, 0.9))
        >>> point = fixed_point(theory)
        >>> point.stable, point.residual < 1e-10
        (True, True)
    """
    (eta0, eta1), (gamma0, gamma) = step_rates(theory), head_rates(theory)
    if not eta0 < 1:
        raise ValueError(
            f"damping={eta0:g} must be below 1: fixed points need η₀ = 1 − η and η₁ = c η"
        )
    if gamma0 != 1:
        raise ValueError(f"head_damping={gamma0:g} must be 1, as in Theorem 'global'")
    eta, c = 1 - eta0, eta1 / (1 - eta0)
    m, omega, _ = theory.start(theta, alignment, overlap)
    equations = Equations(theory, c, theory.nodes(len(omega)))
    start = Point(m, omega, head_parameters(theory.objective, head))
    point = _polish(equations, _relax(equations, start, gamma))
    residual = _largest(equations.residual(point))
    wandering = math.isfinite(residual) and direction_jumps(equations, point)
    if not residual <= tolerance:
        raise ValueError(
            f"no fixed point was found: the equations are violated by {residual:.3g} > "
            f"tolerance={tolerance:g}; start closer (the end of a run), or lower lr: for large c "
            "the variance has no fixed point"
            + ("; g jumps, and so do its averages: pass tolerance=1e-3" if wandering else "")
        )
    radius = math.nan if wandering else spectral_radius(equations, point, eta, gamma)
    growth = math.inf if wandering else replicon(equations, point)
    return FixedPoint(*point, equations.loss(point), residual, radius, growth, eta)


def _relax(equations: Equations, point: Point, gamma: float) -> Point:
    """Iterate the equations with half steps, as the recursion would without memory."""
    for _ in range(RELAXATION_STEPS):
        image = equations.image(point)
        moved = Point(
            (point.alignment + image.alignment) / 2,
            (point.overlap + image.overlap) / 2,
            point.head | {k: point.head[k] - gamma * v for k, v in image.head.items()},
        )
        size = float(moved.overlap.abs().max())
        if not math.isfinite(size) or size > 1e12:
            break
        change = (moved.overlap - point.overlap).abs().max()
        point = moved
        if float(change) < 1e-12 * size:
            break
    return point


def _polish(equations: Equations, start: Point) -> Point:
    """Finish with Newton's method, which also finds points that are unstable under relaxation."""
    point = solve(equations.residual, start, equations.unknowns(start))
    point = point._replace(overlap=(point.overlap + point.overlap.T) / 2)
    return min(start, point, key=lambda p: _largest(equations.residual(p)))


def _largest(residual: Point) -> float:
    """The largest entry by absolute value; infinite where one is not finite."""
    parts = [residual.alignment, residual.overlap, *residual.head.values()]
    largest = max(float(part.abs().max()) for part in parts)
    return largest if math.isfinite(largest) else math.inf


@dataclass(frozen=True)
class CriticalPoint:
    r"""A critical point (θ, a) of the population test error, by its overlaps.

    Attributes:
        alignment: m, shape (J, L).
        overlap: Ω, shape (L, L).
        head: a, by name.
        test_error: At the critical point.
        hessian: H = Σ_j p_j E∇²_hΨ, shape (L, L).
        residual: Largest violation of the equations.
    """

    alignment: Tensor = field(repr=False)
    overlap: Tensor = field(repr=False)
    head: Parameters = field(repr=False)
    test_error: float
    hessian: Tensor
    residual: float

    @property
    def scale(self) -> float:
        """c* with H ≈ c* I."""
        return float(self.hessian.diagonal().mean())

    @property
    def anisotropy(self) -> float:
        """‖H − c* I‖/‖H‖, zero when the comparison with decoupled descent is exact."""
        isotropic = self.scale * torch.eye(len(self.hessian), dtype=torch.float64)
        return float((self.hessian - isotropic).norm() / self.hessian.norm())

    def matching_c(self, ratio: float) -> float:
        """Return c = 1/(α c*), with which equation "fixM" is that of this critical point."""
        return 1 / (ratio * self.scale)


@on_cpu
def critical_point(
    theory: StateEvolution,
    theta: Tensor | None = None,
    *,
    alignment: Tensor | None = None,
    overlap: Tensor | None = None,
    head: nn.Module | Mapping[str, Tensor] | None = None,
    tolerance: float = 1e-9,
) -> CriticalPoint:
    r"""Solve ∇_θ = ∇_a = 0 for the population test error (equations "aCritical", "thetaCritical").

    With u_j = p_j E∇_hΨ a critical θ satisfies θ H = −Σ_j μ_j u_jᵀ, hence

    .. math:: m_j H = -\textstyle\sum_k \chi_{jk} u_k^\top, \qquad
              H\,\Omega\,H = \textstyle\sum_{jk}\chi_{jk} u_j u_k^\top, \qquad
              \textstyle\sum_j p_j E\nabla_a\Psi = 0 .

    Args:
        theory: Gives the mixture and Ψ; its algorithm only says whether the head is trained.
        theta: Starting point, as in :meth:`StateEvolution.run`.
        alignment: Instead of ``theta``.
        overlap: Instead of ``theta``.
        head: a; the objective's own by default.
        tolerance: Largest violation of the equations that is accepted.

    Returns:
        The critical point.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.flipped_classes(10, snr=2.0, labels=(0.0, 1.0))
        >>> objective = dd.Objective(dd.heads.Linear(), "logistic")
        >>> theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.05, 0.9))
        >>> point = critical_point(theory)
        >>> point.anisotropy, point.residual < 1e-9
        (0.0, True)
    """
    if theory.covariance is not None:
        raise ValueError(
            "critical points are known for covariance=None only; leave the covariance out"
        )
    m, omega, _ = theory.start(theta, alignment, overlap)
    equations = Equations(theory, 1.0, theory.nodes(len(omega)))
    nodes, chi = equations.nodes, theory.mixture.overlaps
    start = Point(m, omega, head_parameters(theory.objective, head))
    names = equations.unknowns(start)

    def residual(at: Point) -> Point:
        slopes = equations.model.slopes(nodes, at)
        H, u = slopes.curvature, slopes.alignment
        return Point(
            at.alignment @ H + chi @ u,
            H @ at.overlap @ H - u.T @ chi @ u,
            {name: slopes.head[name] for name in names},
        )

    point = solve(residual, start, names)
    violation = _largest(residual(point))
    if not violation <= tolerance:
        raise ValueError(
            f"no critical point was found: the equations are violated by {violation:.3g} > "
            f"tolerance={tolerance:g}; start closer, for instance from a trained theta"
        )
    hessian = equations.model.slopes(nodes, point).curvature
    return CriticalPoint(*point, equations.loss(point), hessian, violation)
