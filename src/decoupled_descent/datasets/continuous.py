r"""Signals of continuous strength: means c v with c drawn from any law (Remark "lowDimData")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

from decoupled_descent.datasets.mixtures import GaussianMixture
from decoupled_descent.datasets.noise_laws import NoiseLaw
from decoupled_descent.datasets.responses import Sampler, dirac

#: A fine rule that represents the law: numbers of panels of equal and of halved probability, and of
#: points per panel.
PANELS, GRADES, POINTS = 16, 80, 16
#: The probability beyond the outermost atom of a discrete law, at each end.
TAIL = 1e-15
#: The most nodes to try.
MOST_NODES = 128


def prior_nodes(prior: Any, accuracy: float = 1e-6) -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes and weights of a Gauss rule for a law: the smallest rule with a given accuracy.

    .. math:: E f(c) \approx \textstyle\sum_q w_q f(c_q)

    A rule of N nodes is exact for polynomials up to degree 2N − 1. The accuracy is the largest
    error over logistic curves 1/(1 + exp(−k (c − c₀)/sd)) and their slopes, with k = 1 and 2, c₀ at
    the quantiles 5 %, 50 % and 95 %. Averages over h are about as smooth if one standard deviation
    of c moves h by about one standard deviation of its noise.

    Args:
        prior: A frozen law of :mod:`scipy.stats` with a variance, continuous or discrete.
        accuracy: The largest error allowed.

    Returns:
        Nodes and weights, both of shape (N,).

    Example:
        >>> from scipy import stats
        >>> nodes, weights = prior_nodes(stats.uniform(-1, 2))
        >>> len(nodes), round(float(weights @ nodes**2), 12)  # the variance, 1/3
        (11, 0.333333333333)
    """
    points, masses = _fine(prior)
    mean = masses @ points
    scale = np.sqrt(masses @ (points - mean) ** 2)
    if not 0 < scale < np.inf:
        raise ValueError(f"prior={prior!r} has standard deviation {scale:g}; it must be positive")
    centred = (points - mean) / scale
    cuts = (prior.ppf([0.05, 0.5, 0.95]) - mean) / scale
    diagonal, off = _recurrence(centred, masses, min(MOST_NODES, len(points)))
    error, wanted = np.inf, masses @ _curves(centred, cuts)
    for count in range(1, len(diagonal) + 1):
        nodes, vectors = eigh_tridiagonal(diagonal[:count], off[: count - 1])
        weights = vectors[0] ** 2
        error = float(np.abs(weights @ _curves(nodes, cuts) - wanted).max())
        if error <= accuracy:
            return mean + scale * nodes, weights
    raise ValueError(
        f"accuracy={accuracy:g} is not reached by {MOST_NODES} nodes (the error is {error:.2g}); "
        "pass a larger accuracy, or use a prior with lighter tails"
    )


def _fine(prior: Any) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights that represent a law: its atoms, or a rule for u with c = F⁻¹(u).

    The panels of u are graded towards both ends, where quantiles of unbounded laws are steep.
    """
    if hasattr(prior, "pmf"):
        points = np.arange(prior.ppf(TAIL), prior.isf(TAIL) + 1)
        masses = prior.pmf(points)
    else:
        lower = 0.5 ** np.arange(GRADES, 0, -1)
        edges = np.unique(np.append(lower, np.linspace(0, 0.5, PANELS + 1)[1:]))
        x, w = np.polynomial.legendre.leggauss(POINTS)
        half = np.diff(edges)[:, None] / 2
        u, weights = (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()
        points = np.append(prior.ppf(u), prior.isf(u))
        masses = np.append(weights, weights)
    if not np.isfinite(points).all():
        raise ValueError(f"prior={prior!r} has quantiles that are not finite")
    return points, masses / masses.sum()


def _recurrence(
    points: np.ndarray, masses: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Recurrence coefficients of the orthogonal polynomials, by Lanczos with full orthogonality."""
    basis = [np.sqrt(masses)]
    diagonal, off = [], []
    for _ in range(count):
        image = points * basis[-1]
        diagonal.append(basis[-1] @ image)
        for _ in range(2):
            for vector in basis:
                image = image - (vector @ image) * vector
        length = np.linalg.norm(image)
        if length < 1e-13:
            break
        off.append(length)
        basis.append(image / length)
    return np.array(diagonal), np.array(off)


def _curves(x: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Logistic curves and their slopes, shape (N, 12)."""
    steepness = np.repeat([1.0, 2.0], len(cuts))
    s = 0.5 * (1 + np.tanh(steepness * (x[:, None] - np.tile(cuts, 2)) / 2))
    return np.hstack([s, 4 * s * (1 - s)])


class ContinuousMixture(GaussianMixture):
    r"""Rows with means c v/d, where every row has its own c, drawn from a law.

    .. math:: c \sim \pi, \qquad x \sim N(c\,v/d, I_d/d), \qquad y \sim P_c

    Rows are drawn from this law itself. Theory uses a mixture with one mode per node of a Gauss
    rule for π (``prior_nodes``); its averages agree to the stated accuracy.

    Args:
        direction: v, shape (d,), with entries of order one.
        prior: π, a frozen law of :mod:`scipy.stats`.
        response: The law of y given c: a number or a sampler, such as
            ``lambda c: responses.Noisy(c, 0.1)``.
        accuracy: Of the nodes; see ``prior_nodes``.
        noise: The noise law of the features.

    Example:
        >>> from scipy import stats
        >>> import decoupled_descent as dd
        >>> mixture = ContinuousMixture(torch.ones(50), stats.norm(0, 2), lambda c: float(c > 0))
        >>> X, y = mixture.sample(4, seed=0)
        >>> X.shape, mixture.modes < 40, round(float(mixture.weights @ mixture.strengths**2), 6)
        (torch.Size([4, 50]), True, 4.0)
    """

    def __init__(
        self,
        direction: Tensor,
        prior: Any,
        response: Callable[[float], float | Sampler],
        accuracy: float = 1e-6,
        noise: str | NoiseLaw = "gaussian",
    ) -> None:
        v = torch.as_tensor(direction, dtype=torch.float64, device="cpu")
        if v.ndim != 1:
            raise ValueError(f"direction has shape {tuple(v.shape)}; it must be (d,)")
        nodes, weights = prior_nodes(prior, accuracy)
        self.direction, self.prior, self.response = v, prior, response
        self.strengths = torch.from_numpy(nodes)
        laws = [response(float(c)) for c in nodes]
        super().__init__(torch.outer(self.strengths, v), torch.from_numpy(weights), laws, noise)

    def _draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draw from the law itself; the mode of a row is the node next to its c."""
        uniform = torch.rand(n, generator=generator, dtype=torch.float64)
        c = torch.from_numpy(np.asarray(self.prior.ppf(uniform.numpy()), dtype=float))
        laws = [self.response(float(value)) for value in c]
        drawn = [(law if callable(law) else dirac(law))(1, generator) for law in laws]
        modes = (c.unsqueeze(1) - self.strengths).abs().argmin(1)
        return modes, torch.outer(c, self.direction), torch.cat([value.double() for value in drawn])
