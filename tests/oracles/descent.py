r"""Reference iterations of the paper, with :math:`\theta` of shape (d, L) as it is there.

Nothing is carried from step to step but the whole history of :math:`\hat h_s`: the memory
:math:`\eta_1 \sum_{s<t} \eta_0^{(t-1)-s} \hat h_s` is summed afresh at every step. Entry 0 of every
list is the starting point; `steps` iterates take `steps - 1` updates. With `decoupled=False` both
corrections are left out, which is gradient descent (with weight decay if `damping` is not one).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .rows import (
    ACTIVATIONS,
    ROTATION,
    Array,
    Head,
    Rows,
    biased_two_layer_rows,
    finite_difference_head_gradient,
    finite_difference_jacobian,
    linear_rows,
    logistic,
    rotational_rows,
    sigmoid,
    softmax_rows,
    three_layer_rows,
    two_layer_rows,
    xor_rows,
)

__all__ = [
    "ACTIVATIONS",
    "ROTATION",
    "Path",
    "Rows",
    "biased_two_layer_rows",
    "finite_difference_head_gradient",
    "finite_difference_jacobian",
    "general",
    "linear_rows",
    "memory",
    "rotational_rows",
    "signalless",
    "softmax_rows",
    "three_layer_rows",
    "two_layer_listing",
    "two_layer_rows",
    "xor",
    "xor_rows",
]


class Path(NamedTuple):
    r"""The iterates :math:`\theta_t` (d, L), :math:`h_t` (n, L), mean loss at h_t, :math:`a_t`."""

    theta: list[Array]
    preactivations: list[Array]
    train_error: list[float]
    head: list[Head]

    def record(self, theta: Array, h: Array, error: float, head: Head) -> None:
        """Append copies of one iterate."""
        self.theta.append(theta.copy())
        self.preactivations.append(h.copy())
        self.train_error.append(float(error))
        self.head.append({name: np.array(value, dtype=float) for name, value in head.items()})


def memory(h_hats: list[Array], lr: float, damping: float) -> Array | float:
    r"""Return :math:`\eta_1 \sum_{s=1}^{t-1} \eta_0^{(t-1)-s} \hat h_s` from all t - 1 terms.

    The sum is empty, hence zero, at t = 1.
    """
    t = len(h_hats) + 1
    return sum(lr * damping ** ((t - 1) - s) * h_hats[s - 1] for s in range(1, t))


def general(
    X: Array,
    y: Array,
    theta: Array,
    a: Head,
    g: Callable[[Array, float, Head], Array],
    g_jacobian: Callable[[Array, float, Head], Array],
    f: Callable[[Array, float, Head], Head],
    loss: Callable[[Array, float, Head], float],
    lr: float,
    damping: float,
    head_lr: float,
    head_damping: float,
    steps: int,
    decoupled: bool = True,
) -> Path:
    r"""Run the general family, equation (dd), row by row.

    .. math::
        h_t &= X \theta_t + \eta_1 \sum_{s=1}^{t-1} \eta_0^{(t-1)-s} \hat h_s, \quad
        \hat h_{t,i} = g(h_{t,i}, y_i, a_t), \quad
        \bar J_t = \frac{1}{n} \sum_i \nabla_h g(h_{t,i}, y_i, a_t) \\
        \tilde\theta_t &= X^\top \hat h_t - \alpha \theta_t \bar J_t^\top, \quad
        \theta_{t+1} = \eta_0 \theta_t - \eta_1 \tilde\theta_t, \quad
        a_{t+1} = \gamma_0 a_t - \frac{\gamma_1}{n} \sum_i f(h_{t,i}, y_i, a_t)

    The text writes :math:`\bar J_t \theta_t`, which is the same for theta laid out as (L, d).
    """
    (n, d), path, h_hats = X.shape, Path([], [], [], []), []
    for _ in range(steps):
        h = X @ theta + (memory(h_hats, lr, damping) if decoupled else 0.0)
        path.record(theta, h, np.mean([loss(h[i], y[i], a) for i in range(n)]), a)
        h_hats.append(np.array([g(h[i], y[i], a) for i in range(n)]))
        J_bar = np.mean([g_jacobian(h[i], y[i], a) for i in range(n)], axis=0)
        theta_tilde = X.T @ h_hats[-1] - (n / d * theta @ J_bar.T if decoupled else 0.0)
        f_rows = [f(h[i], y[i], a) for i in range(n)]
        theta = damping * theta - lr * theta_tilde
        a = {
            name: head_damping * a[name] - head_lr * np.mean([row[name] for row in f_rows], axis=0)
            for name in a
        }
    return path


def signalless(
    X: Array, theta: Array, lr: float, damping: float, steps: int, decoupled: bool = True
) -> Path:
    r"""Run signal-less regression, loss (x theta)^2 / 2 and y = 0 (section "Faithful Test Error").

    .. math::
        h_t = X \theta_t + \eta_1 \sum_{s=1}^{t-1} \eta_0^{(t-1)-s} \hat h_s, \quad
        \tilde\theta_t = X^\top h_t - \alpha \theta_t, \quad
        \theta_{t+1} = \eta_0 \theta_t - \eta_1 \tilde\theta_t, \quad \hat h_t = h_t
    """
    (n, d), path, h_hats = X.shape, Path([], [], [], []), []
    for _ in range(steps):
        h = X @ theta
        if decoupled:
            h = h + memory(h_hats, lr, damping)
        path.record(theta, h, np.mean(0.5 * h**2), {})
        h_hats.append(h)
        theta_tilde = X.T @ h
        if decoupled:
            theta_tilde = theta_tilde - n / d * theta
        theta = damping * theta - lr * theta_tilde
    return path


def xor(
    X: Array,
    y: Array,
    theta: Array,
    a: float,
    lr: float,
    steps: int,
    damping: float = 1.0,
    fixed_a: bool = False,
    decoupled: bool = True,
) -> Path:
    r"""Run the XOR iterations as displayed in the appendix "The XOR Training Iterations".

    `fixed_a` with `damping` is the damped variant (there a = 1); `decoupled=False` the GD column.
    A trained a is never damped: its rate is :math:`\eta` and :math:`\gamma_0 = 1`.
    """
    (n, d), path, h_hats = X.shape, Path([], [], [], []), []
    for _ in range(steps):
        h = X @ theta + (memory(h_hats, lr, damping) if decoupled else 0.0)
        h1, h2 = h[:, 0], h[:, 1]
        y_hat = sigmoid(a * (h1 * h2))
        path.record(theta, h, np.mean(logistic(a * (h1 * h2), y)), {"a": a})
        h_hat = np.stack([(y_hat - y) * (a * h2), (y_hat - y) * (a * h1)], axis=1)
        h_hats.append(h_hat)
        theta_tilde = X.T @ h_hat
        if decoupled:
            theta_tilde = theta_tilde - n / d * theta @ xor_hessian(h1, h2, y_hat, y, a)
        theta = damping * theta - lr * theta_tilde
        if not fixed_a:
            a = a - lr * (y_hat - y) @ (h1 * h2) / n
    return path


def xor_hessian(h1: Array, h2: Array, y_hat: Array, y: Array, a: float) -> Array:
    r"""Return :math:`H_t` of the XOR iterations.

    .. math::
        H_t = \frac{1}{n} \sum_i \Big( \hat y_i (1 - \hat y_i) a^2
        \begin{bmatrix} (h^2_i)^2 & h^1_i h^2_i \\ h^1_i h^2_i & (h^1_i)^2 \end{bmatrix}
        + (\hat y_i - y_i) \begin{bmatrix} 0 & a \\ a & 0 \end{bmatrix} \Big)
    """
    n, H = len(y), np.zeros((2, 2))
    for i in range(n):
        squares = np.array([[h2[i] ** 2, h1[i] * h2[i]], [h1[i] * h2[i], h1[i] ** 2]])
        H += y_hat[i] * (1.0 - y_hat[i]) * a**2 * squares
        H += (y_hat[i] - y[i]) * np.array([[0.0, a], [a, 0.0]])
    return H / n


def two_layer_listing(
    X: Array, y: Array, theta: Array, w: Array, lr: float, steps: int, decoupled: bool = True
) -> Path:
    r"""Run the MNIST listing: logits w . tanh(h), mean logistic loss, no bias.

    The loss is a mean, so with residuals :math:`r_i = (\sigma(u_i) - y_i) / n`

    .. math::
        \hat h_{il} = r_i w_l (1 - s_{il}^2), \quad s = \tanh(h), \quad
        \partial_w = \sum_i r_i s_i,

    :math:`\hat h` carries the factor 1/n, in the memory and in :math:`\bar J` as well.
    """
    (n, d), path, h_hats = X.shape, Path([], [], [], []), []
    for _ in range(steps):
        h = X @ theta + (memory(h_hats, lr, 1.0) if decoupled else 0.0)
        s = np.tanh(h)
        path.record(theta, h, np.mean(logistic(s @ w, y)), {"w": w})
        residual = (sigmoid(s @ w) - y) / n
        h_hat = np.einsum("i,l,il->il", residual, w, 1.0 - s**2)
        h_hats.append(h_hat)
        theta_tilde = X.T @ h_hat
        if decoupled:
            theta_tilde = theta_tilde - n / d * theta @ listing_jacobian(s, y, w).T
        theta = theta - lr * theta_tilde
        w = w - lr * np.einsum("i,il->l", residual, s)
    return path


def listing_jacobian(s: Array, y: Array, w: Array) -> Array:
    r"""Return `J_bar` of the MNIST listing at s = tanh(h): the mean over rows of the Jacobian.

    .. math::
        \partial_m \hat h_{ik} = \frac{1}{n} \big( p_i (1 - p_i) w_k s'_{ik} w_m s'_{im}
        + \delta_{km} (p_i - y_i) w_k s''_{ik} \big), \quad
        s' = 1 - s^2, \quad s'' = -2 s (1 - s^2).
    """
    n, L = s.shape
    J_bar = np.zeros((L, L))
    for i in range(n):
        p = sigmoid(s[i] @ w)
        first, second = 1.0 - s[i] ** 2, -2.0 * s[i] * (1.0 - s[i] ** 2)
        for k in range(L):
            for m in range(L):
                J_bar[k, m] += p * (1.0 - p) * w[k] * first[k] * w[m] * first[m] / n
            J_bar[k, k] += (p - y[i]) * w[k] * second[k] / n
    return J_bar / n
