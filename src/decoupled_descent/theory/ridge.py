r"""What a step does to overlaps in the limit, for rows of any covariance C/d and any ridge λ.

Rows are x = μ_j/d + z with z ~ N(0, C/d). A step c A⁻¹Xᵀq is a ridge regression of q on X. A
divergence-free direction q is uncorrelated with the noise of the rows (Stein's lemma). So the
regression treats it as a response that depends on the modes alone, and deterministic equivalents of
the ridge resolvent give the limit. Without a ridge, the corrections of decoupled descent have the
same effect for any direction: θ̃ has the limits below at λ = ∞.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from decoupled_descent.datasets.mixtures import GaussianMixture
from decoupled_descent.datasets.responses import Sampler
from decoupled_descent.descent.info import LimitStep
from decoupled_descent.theory.gaussian import hermite_rule
from decoupled_descent.theory.laws import MixtureLaw, as_limit, check_theta, require_psd


class RidgeStep(NamedTuple):
    """The limits that :func:`ridge_step` gives.

    Attributes:
        align: K, shape (J, J).
        noise: a.
        signal: H, shape (J, J).
        start: D, shape (J, J).
        weights: The eigenvalues of W, in the order of the spectrum.
        leverage: lim p_i = e/(1 + e).
    """

    align: Tensor
    noise: float
    signal: Tensor
    start: Tensor
    weights: Tensor
    leverage: float


def ridge_step(
    spectrum: Tensor,
    project: Callable[[Tensor], Tensor],
    probabilities: Tensor,
    ratio: float,
    ridge: float,
) -> RidgeStep:
    r"""Deterministic equivalents of b = c A⁻¹Xᵀq, for divergence-free q and l_j = p_j E[q | j].

    .. math::
       \mu_j^\top b/d \to (Kl)_j, \qquad b_s^\top C b_t/d \to a\,\Sigma[s,t] + l_s^\top H l_t,
       \qquad v^\top C b/d \to (MWCv/d)^\top D\,l

    for v independent of the data. With τ̄ = tr C/d, Π = diag(p), χ_F = MFMᵀ/d for the means M, and

    .. math::
       e &= \tfrac1d\mathrm{tr}\,C\bar Q, \qquad \bar Q = (kC + \lambda\alpha\bar\tau I)^{-1},
       \qquad k = \tfrac{\alpha}{1 + e}, \qquad u = \tfrac1c = \tfrac{e}{\bar\tau(1 + e)},
       \qquad W = c\,\bar Q, \\
       K &= (I + u k \chi_W \Pi)^{-1} k\chi_W, \qquad D = k (I - u\Pi K), \qquad
       g = \tfrac{\alpha}{(1+e)^2}\tfrac1d \mathrm{tr}(WC)^2, \\
       a &= \frac{g}{1 - u^2 g}, \qquad
       H = \frac{u^2 g\,K\Pi K - 2 u g K + D^\top \chi_{WCW} D}{1 - u^2 g} .

    λ = ∞ has e = u = 0 and W = I: K = αχ, a = α tr C²/d, H = α² χ_C, D = αI. With C = I as well,
    these are the limits of Definition "ddState".

    Args:
        spectrum: The eigenvalues of C, or a sample of their law.
        project: f ↦ χ_F for F with eigenvalues f on the eigenvectors of C.
        probabilities: p, shape (J,).
        ratio: α.
        ridge: λ, positive.

    Example:
        >>> white, unit = torch.ones(1).double(), torch.eye(1).double()
        >>> step = ridge_step(white, lambda f: 4 * f.mean() * unit, unit[0], ratio=2.0, ridge=1.0)
        >>> round(step.leverage, 6)  # e/(1 + e), e = (√17 − 3)/4
        0.219224
    """
    mean, e, u = float(spectrum.mean()), 0.0, 0.0
    weights = torch.ones_like(spectrum)
    if not math.isinf(ridge):
        shift, tau = ridge * ratio * mean, spectrum.numpy()

        def excess(e: float) -> float:  # concave, positive at 0
            return float(np.mean(tau / (ratio * tau / (1 + e) + shift))) - e

        e = float(brentq(excess, 0.0, mean / shift, xtol=1e-300, rtol=1e-14))
        u = e / (mean * (1 + e))
        weights = 1 / (u * (ratio / (1 + e) * spectrum + shift))
    k, diagonal = ratio / (1 + e), torch.diag(probabilities)
    identity = torch.eye(len(probabilities), dtype=spectrum.dtype)
    pulled = k * project(weights)
    align = torch.linalg.solve(identity + u * pulled @ diagonal, pulled)
    start = k * (identity - u * diagonal @ align)
    g = ratio / (1 + e) ** 2 * float((weights * spectrum).square().mean())
    signal = u * u * g * align @ diagonal @ align - 2 * u * g * align
    signal = signal + start.T @ project(weights.square() * spectrum) @ start
    rest = 1 - u * u * g
    return RidgeStep(align, g / rest, signal / rest, start, weights, e / (1 + e))


class StartingOverlaps(NamedTuple):
    """Overlaps of θ_1."""

    alignment: Tensor  # m_1 = Mθ_1/d, shape (J, L)
    overlap: Tensor  # Ω[1,1] = θ_1ᵀCθ_1/d, shape (L, L)
    pull: Tensor  # M W C θ_1/d, shape (J, L)


@dataclass(frozen=True)
class CovarianceGeometry:
    """The position of means and parameters relative to the eigenvectors of C."""

    mixture: MixtureLaw  # gives χ
    spectrum: Tensor  # eigenvalues of C; a single one for C = I
    axes: Tensor | None = None  # eigenvectors of C as columns; None if they are the coordinates
    means: Tensor | None = None  # M in their coordinates; None for C = I, or in general position

    @classmethod
    def of(cls, mixture: MixtureLaw, covariance: Tensor | None) -> CovarianceGeometry:
        """Decompose C, the identity by default."""
        if covariance is None:
            return cls(mixture, torch.ones(1, dtype=torch.float64))
        means = mixture.means
        spectrum, axes = decompose(covariance, mixture.dimension)
        return cls(mixture, spectrum, axes, None if means is None else rotated(means, axes))

    def project(self, values: Tensor) -> Tensor:
        """Return χ_F for F with these eigenvalues on the eigenvectors of C, shape (J, J)."""
        if self.means is None:
            return self.mixture.overlaps * values.mean()
        return (self.means * values) @ self.means.T / len(values)

    def start(self, theta: Any, weights: Tensor) -> StartingOverlaps:
        """Return the overlaps of an actual θ_1, given the eigenvalues of W."""
        means, theta = check_theta(self.mixture, theta)
        means, theta = rotated(means, self.axes), rotated(theta, self.axes)
        coloured = self.spectrum * theta / theta.shape[1]
        pull = (means * weights) @ coloured.T
        return StartingOverlaps(means @ theta.T / theta.shape[1], theta @ coloured.T, pull)


def teacher(
    beta: Tensor,
    law: Callable[[float], Sampler],
    covariance: Tensor | None = None,
    order: int = 32,
) -> tuple[GaussianMixture, Tensor]:
    r"""Rows x ~ N(0, C/d) labelled by a teacher, y ~ law(xᵀβ), as a mixture for the limit.

    Given s = xᵀβ ~ N(0, v), v = βᵀCβ/d, a row is N((s/v) Cβ/d, C̃/d) with C̃ = C − CββᵀC/(v d): a
    mixture over s. The limit needs only averages over modes, and a Gauss–Hermite rule gives them.

    Args:
        beta: β, shape (d,), with entries of order one.
        law: The law of y given s, such as ``lambda s: responses.Noisy(s, 0.1)``.
        covariance: C, shape (d, d), or its diagonal, shape (d,); the identity by default.
        order: Nodes for s.

    Returns:
        The mixture and C̃, both for :class:`~decoupled_descent.StateEvolution`.

    Example:
        >>> from decoupled_descent.datasets.responses import Noisy
        >>> mixture, covariance = teacher(torch.ones(4), lambda s: Noisy(s, 0.1), order=2)
        >>> mixture.means[:, 0], covariance[0]
        (tensor([-1.,  1.], dtype=torch.float64),
         tensor([ 0.7500, -0.2500, -0.2500, -0.2500], dtype=torch.float64))
    """
    beta = as_limit(beta)
    if beta.ndim != 1:
        raise ValueError(f"beta has shape {tuple(beta.shape)}; it must be (d,)")
    spectrum, axes = decompose(covariance, len(beta))
    matrix = torch.diag(spectrum) if axes is None else (axes * spectrum) @ axes.T
    pulled = matrix @ beta
    variance = float(beta @ pulled) / len(beta)
    if not 0 < variance < math.inf:
        raise ValueError(f"beta has βᵀCβ/d = {variance:g}, which must be positive and finite")
    nodes, weights = hermite_rule(order)
    scores = nodes * math.sqrt(variance)
    laws = [law(score) for score in scores.tolist()]
    mixture = GaussianMixture(torch.outer(scores / variance, pulled), weights, laws)
    return mixture, matrix - torch.outer(pulled, pulled) / (variance * len(beta))


def decompose(covariance: Tensor | None, d: int | None) -> tuple[Tensor, Tensor | None]:
    """Return the eigenvalues of C, and its eigenvectors as columns unless C is diagonal.

    C has shape (d, d), or (d,) for a diagonal; None is the identity. Without d, any size is right.
    """
    matrix, axes, wanted = as_limit([1.0] * (d or 1)), None, d or "d"
    if covariance is not None:
        matrix = as_limit(covariance)
    if matrix.ndim not in (1, 2) or {*matrix.shape} != {d or len(matrix)}:
        raise ValueError(
            f"covariance has shape {tuple(matrix.shape)}; it must be ({wanted}, {wanted}), or "
            f"({wanted},) for a diagonal"
        )
    if matrix.ndim == 2:
        require_psd("covariance", matrix)
        matrix, axes = torch.linalg.eigh(matrix)
        matrix = matrix.clamp(min=0)
    if not bool((matrix >= 0).all()) or not 0 < float(matrix.sum()) < math.inf:
        raise ValueError(
            f"covariance has eigenvalues from {float(matrix.min()):g} to {float(matrix.max()):g}; "
            "they must be finite, at least 0 and not all 0"
        )
    return matrix, axes


def rotated(rows: Tensor, axes: Tensor | None) -> Tensor:
    """Return rows of shape (N, d) in the coordinates of the eigenvectors of C."""
    return rows if axes is None else rows @ axes


def agreed_covariance(step: LimitStep, covariance: Tensor | None) -> Tensor | None:
    """Return C, or raise ``ValueError`` when the algorithm corrects for another one."""
    assumed = step.covariance
    if covariance is None or step.divergence_free or not step.corrected:
        return assumed if covariance is None else covariance
    variances = as_limit(covariance)
    expected = as_limit([1.0] * len(variances) if assumed is None else assumed)
    expected = torch.diag(expected) if variances.ndim > expected.ndim else expected
    if variances.shape != expected.shape or not torch.allclose(variances, expected):
        raise ValueError(
            "covariance is not the one that the algorithm corrects for: pass it to the algorithm, "
            "as noise=Covariance(…), or use OrthogonalDecoupledDescent"
        )
    return covariance
