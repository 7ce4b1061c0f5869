r"""Reference iteration of orthogonal decoupled descent, with theta of shape (d, L).

Nothing clever: at every step, for every row, the ridge system *without that row* is built and
solved, and the row meets its solution. The shift :math:`\mu = \lambda \|X\|_F^2 / d` and the scale
c are those of all rows, left out or not.
"""

from collections.abc import Callable

import numpy as np

from .descent import Path
from .rows import Array, Head, Rows


def shift_and_leverages(X: Array, ridge: float) -> tuple[float, list[float]]:
    r"""Return :math:`\mu` and p_i = x_i' (X'X + mu)^{-1} x_i."""
    n, d = X.shape
    mu = ridge * sum(X[i] @ X[i] for i in range(n)) / d
    A = X.T @ X + mu * np.eye(d)
    return mu, [X[i] @ np.linalg.solve(A, X[i]) for i in range(n)]


def shift_and_scale(X: Array, ridge: float) -> tuple[float, float]:
    r"""Return :math:`\mu` and c = mean |x_i|^2 / mean p_i."""
    mu, leverages = shift_and_leverages(X, ridge)
    return mu, np.mean([x @ x for x in X]) / np.mean(leverages)


def step_without(X: Array, q: Array, mu: float, row: int | None) -> Array:
    r"""Return :math:`(\sum_j x_j x_j' + \mu)^{-1} \sum_j x_j q_j'`, the sums without ``row``."""
    kept = [j for j in range(len(X)) if j != row]
    A = X[kept].T @ X[kept] + mu * np.eye(X.shape[1])
    return np.linalg.solve(A, X[kept].T @ q[kept])


def plain_without(X: Array, q: Array, row: int | None) -> Array:
    r"""Return :math:`\sum_j x_j q_j'`, the sum without ``row``: the same for an infinite ridge."""
    kept = [j for j in range(len(X)) if j != row]
    return X[kept].T @ q[kept]


def iterate(
    X: Array,
    y: Array,
    theta: Array,
    a: Head,
    rows: Rows,
    lr: float,
    damping: float,
    ridge: float,
    head_lr: float,
    head_damping: float,
    steps: int,
) -> Path:
    r"""Run the iteration, row by row.

    .. math::
        q_{t,i} &= g(h_{t,i}, y_i, a_t) - \bar J_t h_{t,i}, \quad
        \bar J_t = \sum_i p_i \nabla g(h_{t,i}, y_i, a_t) / \sum_i p_i, \\
        \theta_{t+1} = \eta_0 \theta_t - \eta_1 c\, s(q_t), \quad
        h_{t+1,i} = \eta_0 h_{t,i} - \eta_1 c\, x_i^\top s_{-i}(q_t)

    with s(q) the ridge solution for all rows, s_{-i}(q) that without row i and
    c = mean |x_i|^2 / mean p_i; for an infinite ridge c = 1 and p_i = |x_i|^2.
    """
    n, path = len(X), Path([], [], [], [])
    solve: Callable[[Array, int | None], Array]
    if np.isinf(ridge):
        c, p = 1.0, [X[i] @ X[i] for i in range(n)]
        solve = lambda q, row: plain_without(X, q, row)  # noqa: E731
    else:
        (mu, c), (_, p) = shift_and_scale(X, ridge), shift_and_leverages(X, ridge)
        solve = lambda q, row: step_without(X, q, mu, row)  # noqa: E731
    h = X @ theta
    for _ in range(steps):
        path.record(theta, h, np.mean([rows.loss(h[i], y[i], a) for i in range(n)]), a)
        J_bar = sum(p[i] * rows.g_jacobian(h[i], y[i], a) for i in range(n)) / sum(p)
        q = np.array([rows.g(h[i], y[i], a) - J_bar @ h[i] for i in range(n)])
        f_rows = [rows.f(h[i], y[i], a) for i in range(n)]
        theta = damping * theta - lr * c * solve(q, None)
        h = np.array([damping * h[i] - lr * c * X[i] @ solve(q, i) for i in range(n)])
        a = {
            name: head_damping * a[name] - head_lr * np.mean([row[name] for row in f_rows], axis=0)
            for name in a
        }
    return path
