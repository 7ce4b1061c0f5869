r"""Reference iteration of decoupled descent for noise of covariance w_i C / d in row i."""

import numpy as np

from .descent import Path, memory
from .rows import Array, Head, Rows


def iterate(
    X: Array,
    y: Array,
    theta: Array,
    a: Head,
    rows: Rows,
    C: Array,
    w: Array,
    lr: float,
    damping: float,
    head_lr: float,
    head_damping: float,
    steps: int,
) -> Path:
    r"""Run the iteration with theta of shape (d, L), the memory summed afresh at every step.

    .. math::
        h_{t,i} = x_i^\top\theta_t + w_i \frac{\mathrm{tr} C}{d} \mathrm{memory}_i, \quad
        \tilde\theta_t = X^\top\hat h_t - C\theta_t \Big(\frac{1}{d}\sum_i w_i
        \nabla_h g(h_{t,i}, y_i, a_t)\Big)^\top
    """
    (n, d), path, h_hats = X.shape, Path([], [], [], []), []
    for _ in range(steps):
        h = X @ theta
        if h_hats:
            past = memory(h_hats, lr, damping)
            h = h + np.array([w[i] * np.trace(C) / d * past[i] for i in range(n)])
        path.record(theta, h, np.mean([rows.loss(h[i], y[i], a) for i in range(n)]), a)
        h_hats.append(np.array([rows.g(h[i], y[i], a) for i in range(n)]))
        bend = sum(w[i] * rows.g_jacobian(h[i], y[i], a) for i in range(n)) / d
        theta_tilde = X.T @ h_hats[-1] - C @ theta @ bend.T
        f_rows = [rows.f(h[i], y[i], a) for i in range(n)]
        theta = damping * theta - lr * theta_tilde
        a = {
            name: head_damping * a[name] - head_lr * np.mean([row[name] for row in f_rows], axis=0)
            for name in a
        }
    return path
