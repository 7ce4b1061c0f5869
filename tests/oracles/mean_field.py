r"""Dynamical mean-field theory of gradient descent with L = 1, response by response, in NumPy.

.. math::
   Z^\top\hat h_t &= w_t + \sum_{s \le t} C_{ts}\theta_s, \quad C_{ts} = \alpha E D_{ts}, \qquad
   Z\theta_t = G_t + \sum_{s<t} A_{ts}\hat h_s, \quad A_{ts} = \partial\theta_t/\partial w_s \\
   D_{ts} &= g'(h_t) \Big(\delta_{ts} + \sum_{s \le r < t} A_{tr} D_{rs}\Big), \qquad
   E G_r G_s = \Omega_{rs}, \quad E w_r w_s = \alpha \Sigma_{rs}

Times run from 0. All vectors of length d are combinations of θ_1, the w_s and the means.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Law(NamedTuple):
    """A mixture by its limits: χ, p, and mean and variance of the response in every mode."""

    chi: Array
    p: Array
    mean: Array
    variance: Array


class Limits(NamedTuple):
    """Indexed by time, modes second."""

    train: Array
    test: Array
    m: Array
    omega: Array


def squared_loss(
    law: Law,
    alpha: float,
    eta0: float,
    eta1: float,
    steps: int,
    spectrum: Array,
    factors: Array | None = None,
) -> Limits:
    r"""Squared loss ½ (h − y)²: all is linear, D is not random and no integral is left.

    With R = (I − A)⁻¹ one has ĥ = R (G + m_j − y) path by path, D = R. Rows have covariance C/d
    with the given spectrum, to which the means have no relation; θ_1 has N(0, 1) entries.
    Mini-batches multiply ĥ by S = diag(s_1, …, s_t): ``factors`` has all equally likely s, one per
    row, and R = (I − SA)⁻¹S is averaged over them. The train error is of all rows.
    """
    factors = np.ones((1, steps)) if factors is None else factors
    J, S = len(law.p), len(spectrum)
    coefficients = np.zeros((steps, S, 1 + steps + J))  # of θ_t: θ_1, w_0 …, μ_1 …
    coefficients[0, :, 0] = 1.0
    gram = np.zeros((1 + steps + J,) * 2)
    gram[0, 0] = 1.0
    gram[1 + steps :, 1 + steps :] = law.chi
    root = np.sqrt(spectrum)
    A, omega, m = np.zeros((steps, steps)), np.zeros((steps, steps)), np.zeros((steps, J))
    train, test = np.zeros(steps), np.zeros(steps)
    for t in range(steps):
        for s in range(t + 1):
            pair = coefficients[t] @ gram * coefficients[s]
            omega[t, s] = omega[s, t] = np.mean(spectrum * pair.sum(1))
            A[t, s] = np.mean(root * coefficients[t, :, 1 + s]) if s < t else 0.0
        m[t] = np.mean(coefficients[t] @ gram[:, 1 + steps :], 0)
        now = slice(0, t + 1)
        every = [
            np.linalg.inv(np.eye(t + 1) - s[now, None] * A[now, now]) * s[now] for s in factors
        ]
        R = np.mean(every, 0)
        residual = omega[now, now].copy()
        for j in range(J):
            gap = m[now, j] - law.mean[j]
            residual += law.p[j] * (np.outer(gap, gap) + law.variance[j])
        sigma = np.mean([r @ residual @ r.T for r in every], 0)
        own = np.mean(
            [(h @ residual @ h.T)[t, t] for r in every for h in [np.eye(t + 1) + A[now, now] @ r]]
        )
        gram[1 : t + 2, 1 : t + 2] = alpha * sigma
        signal = law.p * (R @ (m[now] - law.mean))[t]
        train[t], test[t] = own / 2, residual[t, t] / 2
        if t + 1 < steps:
            moved = np.zeros((S, 1 + steps + J))
            moved[:, 1 + t] = root
            for s in range(t + 1):
                moved += spectrum[:, None] * alpha * R[t, s] * coefficients[s]
            moved[:, 1 + steps :] += alpha * signal
            coefficients[t + 1] = eta0 * coefficients[t] - eta1 * moved
    return Limits(train, test, m, omega)


def by_quadrature(
    g: Callable[[Array, float], Array],
    slope: Callable[[Array, float], Array],
    loss: Callable[[Array, float], Array],
    modes: list[tuple[int, float, float]],
    chi: Array,
    alpha: float,
    m1: Array,
    omega1: float,
    eta: float,
    steps: int,
    order: int,
) -> Limits:
    r"""Any smooth g, a few steps: one product rule over (G_0, …, G_t) at every time.

    `modes` has (j, response, probability). θ_t is a combination of θ_1, w_s and μ_j.
    """
    J = len(m1)
    size = 1 + steps + J
    gram = np.zeros((size, size))
    gram[0, 0], gram[0, 1 + steps :], gram[1 + steps :, 0] = omega1, m1, m1
    gram[1 + steps :, 1 + steps :] = chi
    theta = np.zeros((steps, size))
    theta[0, 0] = 1.0
    A, train, test = np.zeros((steps, steps)), np.zeros(steps), np.zeros(steps)
    z, w = np.polynomial.hermite_e.hermegauss(order)
    w = w / w.sum()
    for t in range(steps):
        A[t, :t] = theta[t, 1 : 1 + t]
        omega = theta[: t + 1] @ gram @ theta[: t + 1].T
        m = theta[: t + 1] @ gram[:, 1 + steps :]
        grids = np.stack(np.meshgrid(*[z] * (t + 1), indexing="ij"), -1).reshape(-1, t + 1)
        weights = np.prod(np.stack(np.meshgrid(*[w] * (t + 1), indexing="ij"), -1), -1).ravel()
        G = grids @ np.linalg.cholesky(omega).T
        sigma, C, signal = np.zeros(t + 1), np.zeros(t + 1), np.zeros(J)
        for j, y, p in modes:
            hats: list[Array] = []
            D = np.zeros((t + 1, t + 1, len(weights)))
            for r in range(t + 1):
                h = m[r, j] + G[:, r] + sum(A[r, s] * hats[s] for s in range(r))
                hats.append(g(h, y))
                for s in range(r + 1):
                    past = sum(A[r, q] * D[q, s] for q in range(s, r))
                    D[r, s] = slope(h, y) * ((r == s) + past)
            train[t] += p * weights @ loss(h, y)
            test[t] += p * weights @ loss(m[t, j] + G[:, t], y)
            sigma += p * np.array([weights @ (hats[t] * hat) for hat in hats])
            C += alpha * p * D[t] @ weights
            signal[j] += p * weights @ hats[t]
        gram[1 + t, 1 : t + 2] = gram[1 : t + 2, 1 + t] = alpha * sigma
        if t + 1 < steps:
            moved = C @ theta[: t + 1]
            moved[1 + t] += 1.0
            moved[1 + steps :] += alpha * signal
            theta[t + 1] = theta[t] - eta * moved
    m = theta @ gram[:, 1 + steps :]
    return Limits(train, test, m, theta @ gram @ theta.T)
