r"""State evolution straight from the paper, one expectation per pair (r, s), in NumPy.

Times run from 1 as they do there: arrays have an unused entry 0. Expectations are averages over
given standard normals (or nodes of a rule) with weights, transformed pair by pair.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Mode(NamedTuple):
    """One mode of the mixture with one value of its response, and the probability of both."""

    index: int
    response: float
    probability: float


class Model(NamedTuple):
    """Row functions on arrays: h is (M, L), a is an array; loss gives (M,), g (M, L), f (M, …)."""

    loss: Callable[[Array, float, Array], Array]
    g: Callable[[Array, float, Array], Array]
    f: Callable[[Array, float, Array], Array]


class Rates(NamedTuple):
    r"""The paper's :math:`\eta_0, \eta_1, \gamma_0, \gamma_1`."""

    eta0: float
    eta1: float
    gamma0: float
    gamma1: float


class States(NamedTuple):
    """Blocks indexed [r, s] and vectors indexed [t], from 1."""

    sigma: Array
    xi: Array
    omega: Array
    m: Array
    l: Array  # noqa: E741 - the paper's letter
    a: list[Array]
    test: Array


def root(covariance: Array) -> Array:
    """Return a square root of a covariance matrix that may be singular."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return vectors * np.sqrt(np.clip(values, 0.0, None))


def definition(
    model: Model,
    modes: list[Mode],
    chi: Array,
    alpha: float,
    m1: Array,
    omega1: Array,
    a1: Array,
    rates: Rates,
    steps: int,
    normals: tuple[Array, Array],
    weights: tuple[Array, Array],
) -> States:
    r"""Run Definition "ddState" as it stands, but with :math:`\Xi_t[r,s]` on its right-hand side.

    `normals` are nodes for one block (M, L) and for a pair of blocks (M', 2 L), with `weights`.
    Every pair (r, s) gets its own 2L x 2L covariance, its own samples and its own average.
    """
    J, L = m1.shape
    size = steps + 2
    sigma, xi, omega = (np.zeros((size, size, L, L)) for _ in range(3))
    m, l_ = np.zeros((size, J, L)), np.zeros((size, J, L))
    a: list[Array] = [a1, a1] + [a1] * steps
    test = np.zeros(size)
    m[1], omega[1, 1] = m1, omega1
    for t in range(1, steps + 1):
        G = normals[0] @ root(omega[t, t]).T
        mean_f = np.zeros_like(a1)
        for mode in modes:
            h, p = G + m[t, mode.index], mode.probability
            test[t] += p * weights[0] @ model.loss(h, mode.response, a[t])
            l_[t, mode.index] += p * weights[0] @ model.g(h, mode.response, a[t])
            mean_f = mean_f + p * np.tensordot(weights[0], model.f(h, mode.response, a[t]), 1)
        for r in range(1, t + 1):
            sigma[r, t] = pair(model, modes, m, a, omega, r, t, normals[1], weights[1])
            sigma[t, r] = sigma[r, t].T
        V = np.zeros((t + 1, L, L))
        for r in range(1, t + 1):
            V[r] = alpha * sigma[r, t]
            for j in range(J):
                for k in range(J):
                    V[r] += alpha**2 * chi[j, k] * np.outer(l_[r, j], l_[t, k])
        xi[1, t] = alpha * sum(np.outer(m[1, j], l_[t, j]) for j in range(J))
        for r in range(1, t):
            xi[r + 1, t] = rates.eta0 * xi[r, t] - rates.eta1 * V[r]
        # rows r > t of column t are wanted too, once their Σ exist: V[r, s] = V[s, r]^T
        for s in range(1, t):
            Vts = V[s].T
            xi[t + 1, s] = rates.eta0 * xi[t, s] - rates.eta1 * Vts
        xi[t + 1, t] = rates.eta0 * xi[t, t] - rates.eta1 * V[t]
        omega[1, t + 1] = rates.eta0 * omega[1, t] - rates.eta1 * xi[1, t]
        omega[t + 1, 1] = omega[1, t + 1].T
        for r in range(1, t + 1):
            omega[r + 1, t + 1] = (
                rates.eta0**2 * omega[r, t]
                - rates.eta0 * rates.eta1 * (xi[r, t] + xi[t, r].T)
                + rates.eta1**2 * V[r]
            )
            omega[t + 1, r + 1] = omega[r + 1, t + 1].T
        for j in range(J):
            pull = sum(chi[j, k] * l_[t, k] for k in range(J))
            m[t + 1, j] = rates.eta0 * m[t, j] - rates.eta1 * alpha * pull
        a[t + 1] = rates.gamma0 * a[t] - rates.gamma1 * mean_f
    return States(sigma, xi, omega, m, l_, a, test)


def pair(
    model: Model,
    modes: list[Mode],
    m: Array,
    a: list[Array],
    omega: Array,
    r: int,
    s: int,
    normals: Array,
    weights: Array,
) -> Array:
    r"""Return :math:`\sum_j p_j E[g(G^r + m_{j,r}, Y_j, a_r) g(G^s + m_{j,s}, Y_j, a_s)^\top]`."""
    L = omega.shape[-1]
    joint = np.block([[omega[r, r], omega[r, s]], [omega[s, r], omega[s, s]]])
    G = normals @ root(joint).T
    total = np.zeros((L, L))
    for mode in modes:
        g_r = model.g(G[:, :L] + m[r, mode.index], mode.response, a[r])
        g_s = model.g(G[:, L:] + m[s, mode.index], mode.response, a[s])
        total += mode.probability * g_r.T @ (weights[:, None] * g_s)
    return total


def linear_closed_form(
    alpha: float, omega1: float, eta0: float, eta1: float, steps: int
) -> tuple[Array, Array]:
    r"""Signal-less linear regression, where :math:`\Sigma = \Omega`: no expectation is left.

    Returns the blocks of Omega and of Xi, indexed from 1.
    """
    omega, xi = np.zeros((steps + 2, steps + 2)), np.zeros((steps + 2, steps + 2))
    omega[1, 1] = omega1
    for t in range(1, steps + 1):
        for r in range(1, t):
            xi[r + 1, t] = eta0 * xi[r, t] - eta1 * alpha * omega[r, t]
        for s in range(1, t + 1):
            xi[t + 1, s] = eta0 * xi[t, s] - eta1 * alpha * omega[t, s]
        for s in range(1, t + 1):
            omega[t + 1, s] = omega[s, t + 1] = eta0 * omega[t, s] - eta1 * xi[s, t]
        omega[t + 1, t + 1] = (
            eta0**2 * omega[t, t] - 2 * eta0 * eta1 * xi[t, t] + eta1**2 * alpha * omega[t, t]
        )
    return omega, xi


class Frozen(NamedTuple):
    r"""Iterates of the frozen algorithm: :math:`h_t`, :math:`\theta_t`, :math:`\tilde\theta_t`."""

    h: list[Array]
    theta: list[Array]
    theta_tilde: list[Array]


def frozen_descent(
    Z: Array,
    labels: Array,
    y: Array,
    theta1: Array,
    mu: Array,
    m: Array,
    l: Array,  # noqa: E741
    a: list[Array],
    g: Callable[[Array, Array, Array], Array],
    g_jacobian: Callable[[Array, Array, Array], Array],
    eta0: float,
    eta1: float,
) -> Frozen:
    r"""Run equation "frozenDd": decoupled descent with prescribed m_{j,t}, l_{j,t} and a_t.

    Z has variance 1/d, `labels` gives the mode of each row, theta is (d, L), m and l (T, J, L).
    """
    (n, d), path = Z.shape, Frozen([], [], [])
    theta, h_hats = theta1, []
    for t in range(len(m)):
        memory = sum(eta1 * eta0 ** (t - 1 - s) * h_hats[s] for s in range(t))
        h = m[t, labels] + Z @ theta + memory
        h_hats.append(g(h, y, a[t]))
        J_bar = g_jacobian(h, y, a[t]).mean(0)
        tilde = n / d * mu.T @ l[t] + Z.T @ h_hats[t] - n / d * theta @ J_bar.T
        path.h.append(h)
        path.theta.append(theta)
        path.theta_tilde.append(tilde)
        theta = eta0 * theta - eta1 * tilde
    return path


def frozen_amp(
    Z: Array,
    labels: Array,
    y: Array,
    theta1: Array,
    mu: Array,
    m: Array,
    l: Array,  # noqa: E741
    a: list[Array],
    g: Callable[[Array, Array, Array], Array],
    g_jacobian: Callable[[Array, Array, Array], Array],
    eta0: float,
    eta1: float,
) -> Frozen:
    r"""Run equation "frozenAmpSimp" and undo the change of variables "reparam".

    .. math::
        z_t &= \tilde Z \theta_t - \sum_{s<t} \hat h_s B_{t,s}^\top, \quad
        \hat h_t = G(z_t), \quad
        w_t = \tilde Z^\top \hat h_t - \theta_t C_t^\top, \quad
        \theta_{t+1} = F_t(w_1, \dots, w_t) \\
        B_{t,s} &= \frac1n \sum_i \partial_{w_{s,i}} F_{t-1}, \quad
        C_t = \frac1n \sum_i \partial_{z_{t,i}} G(z_{t,i})

    where :math:`\tilde Z = \alpha^{-1/2} Z` has variance 1/n. The Onsager coefficients B and C are
    derived from F and G as AMP prescribes, not copied from decoupled descent; C is evaluated at
    :math:`h_t` (the text has :math:`\tilde\theta_t` there, which has d rows and not n).
    """
    n, d = Z.shape
    L, alpha = theta1.shape[1], n / d
    Z_tilde, path = Z / np.sqrt(alpha), Frozen([], [], [])
    ws: list[Array] = []
    h_hats: list[Array] = []

    def F(t: int, ws: list[Array]) -> Array:
        moved = sum(
            eta0 ** (t - s) * (np.sqrt(alpha) * ws[s - 1] + alpha * mu.T @ l[s - 1])
            for s in range(1, t + 1)
        )
        return eta0**t * theta1 - eta1 * moved

    def dF(t: int, s: int) -> Array:
        # F is linear in w_s, and the same for every coordinate: one coordinate tells its derivative
        probe = [np.zeros((d, L)) for _ in range(t)]
        base, columns = F(t, probe)[0], []
        for k in range(L):
            probe[s - 1][0, k] = 1.0
            columns.append(F(t, probe)[0] - base)
            probe[s - 1][0, k] = 0.0
        return np.stack(columns, 1)

    for t in range(1, len(m) + 1):
        theta = F(t - 1, ws)
        onsager = sum(h_hats[s - 1] @ (d / n * dF(t - 1, s)).T for s in range(1, t))
        z = Z_tilde @ theta - onsager
        h = np.sqrt(alpha) * z + m[t - 1, labels]
        h_hats.append(g(h, y, a[t - 1]))
        C = np.sqrt(alpha) * g_jacobian(h, y, a[t - 1]).mean(0)
        ws.append(Z_tilde.T @ h_hats[-1] - theta @ C.T)
        path.h.append(h)
        path.theta.append(theta)
        path.theta_tilde.append(np.sqrt(alpha) * ws[-1] + alpha * mu.T @ l[t - 1])
    return path
