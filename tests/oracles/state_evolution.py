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
