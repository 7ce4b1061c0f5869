r"""What a ridge-regression step does to overlaps in the limit, for rows of any covariance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from decoupled_descent.datasets.mixtures import GaussianMixture
from decoupled_descent.datasets.responses import Sampler
from decoupled_descent.state_evolution.gaussian import hermite_rule
from decoupled_descent.state_evolution.laws import require_psd


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
    r"""Deterministic equivalents of b = c A⁻¹Xᵀq, for q free of divergence and l_j = p_j E[q | j].

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

    λ = ∞ has e = u = 0 and W = I: K = αχ, a = α tr C²/d, H = α² χ_C.

    Args:
        spectrum: The eigenvalues of C, or a sample of their law.
        project: f ↦ χ_F for F with eigenvalues f on the eigenvectors of C.
        probabilities: p, shape (J,).
        ratio: α.
        ridge: λ, positive.

    Returns:
        The limits.

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


def teacher(
    beta: Tensor,
    law: Callable[[float], Sampler],
    covariance: Tensor | None = None,
    order: int = 32,
) -> tuple[GaussianMixture, Tensor]:
    r"""Rows x ~ N(0, C/d) labelled by a teacher, y ~ law(xᵀβ), as a mixture for the limit.

    Given s = xᵀβ ~ N(0, v), v = βᵀCβ/d, a row is N((s/v) Cβ/d, C̃/d) with C̃ = C − CββᵀC/(v d): a
    mixture over s. The limit only averages over modes, for which a Gauss–Hermite rule will do.

    Args:
        beta: β, shape (d,), with entries of order one.
        law: The law of y given s, such as ``lambda s: responses.Noisy(s, 0.1)``.
        covariance: C, shape (d, d), or its diagonal, shape (d,); the identity by default.
        order: Nodes for s.

    Returns:
        The mixture and C̃, both for :class:`~decoupled_descent.state_evolution.OrthogonalLimit`.

    Example:
        >>> from decoupled_descent.datasets.responses import Noisy
        >>> mixture, covariance = teacher(torch.ones(4), lambda s: Noisy(s, 0.1), order=2)
        >>> mixture.means[:, 0], covariance[0]
        (tensor([-1.,  1.], dtype=torch.float64),
         tensor([ 0.7500, -0.2500, -0.2500, -0.2500], dtype=torch.float64))
    """
    beta = torch.as_tensor(beta).detach().to("cpu", torch.float64)
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
    """Eigenvalues of C, and its eigenvectors unless C is diagonal.

    Args:
        covariance: C, shape (d, d), or its diagonal, shape (d,); None is the identity.
        d: What d must be; None takes any.

    Returns:
        Eigenvalues, shape (d,), and eigenvectors as columns or None, in float64.

    Example:
        >>> decompose(torch.tensor([1.0, 3.0]), 2)
        (tensor([1., 3.], dtype=torch.float64), None)
    """
    matrix = torch.ones(d or 1) if covariance is None else torch.as_tensor(covariance).detach()
    matrix, axes, wanted = matrix.to("cpu", torch.float64), None, d or "d"
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
    """Rows in the coordinates of the eigenvectors of C.

    Args:
        rows: Shape (N, d).
        axes: From :func:`decompose`.

    Returns:
        Shape (N, d).

    Example:
        >>> rotated(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        tensor([[2., 1.]])
    """
    return rows if axes is None else rows @ axes
