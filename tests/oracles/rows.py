r"""Row functions (g, Jacobian of g, f, loss) of one sample, with derivatives taken by hand.

Every function sees one row: its pre-activations `h` of shape (L,), its response `y` and the head's
parameters `a` (name -> array). In the gradient cases :math:`g = \nabla_h \Psi` and
:math:`f = \nabla_a \Psi` (pure DD), so that the Jacobian of g is the Hessian of the loss.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Head = dict[str, Array]


class Rows(NamedTuple):
    r"""Functions of one row: g, its Jacobian [i, j] = dg_i/dh_j, f and the loss."""

    g: Callable[[Array, float, Head], Array]
    g_jacobian: Callable[[Array, float, Head], Array]
    f: Callable[[Array, float, Head], Head]
    loss: Callable[[Array, float, Head], float]


def sigmoid(u: Array) -> Array:
    r"""Return 1 / (1 + exp(-u)), written so that it cannot overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * u))


def logistic(u: Array, y: Array) -> Array:
    r"""Return -y log(p) - (1 - y) log(1 - p) at p = sigmoid(u), for y in {0, 1}."""
    return np.logaddexp(0.0, u) - y * u


ACTIVATIONS = {  # name -> the function, its first and its second derivative
    "tanh": (
        np.tanh,
        lambda x: 1.0 - np.tanh(x) ** 2,
        lambda x: -2.0 * np.tanh(x) * (1.0 - np.tanh(x) ** 2),
    ),
    "sigmoid": (
        sigmoid,
        lambda x: sigmoid(x) * (1.0 - sigmoid(x)),
        lambda x: sigmoid(x) * (1.0 - sigmoid(x)) * (1.0 - 2.0 * sigmoid(x)),
    ),
    "softplus": (
        lambda x: np.logaddexp(0.0, x),
        sigmoid,
        lambda x: sigmoid(x) * (1.0 - sigmoid(x)),
    ),
}


def linear_rows() -> Rows:
    r"""Linear regression, :math:`\Psi = (h - y)^2 / 2`, no head parameters (Example A.2 (1))."""
    return Rows(
        g=lambda h, y, a: h - y,
        g_jacobian=lambda h, y, a: np.eye(1),
        f=lambda h, y, a: {},
        loss=lambda h, y, a: 0.5 * (h[0] - y) ** 2,
    )


def xor_rows() -> Rows:
    r"""Product head :math:`u = a h_1 h_2` with logistic loss, parameter a (Example A.2 (4))."""

    def g(h: Array, y: float, a: Head) -> Array:
        slope = sigmoid(a["a"] * h[0] * h[1]) - y
        return np.array([slope * a["a"] * h[1], slope * a["a"] * h[0]])

    def g_jacobian(h: Array, y: float, a: Head) -> Array:
        p = sigmoid(a["a"] * h[0] * h[1])
        gradient = a["a"] * np.array([h[1], h[0]])
        hessian = a["a"] * np.array([[0.0, 1.0], [1.0, 0.0]])
        return p * (1.0 - p) * np.outer(gradient, gradient) + (p - y) * hessian

    def f(h: Array, y: float, a: Head) -> Head:
        return {"a": (sigmoid(a["a"] * h[0] * h[1]) - y) * h[0] * h[1]}

    def loss(h: Array, y: float, a: Head) -> float:
        return logistic(a["a"] * h[0] * h[1], y)

    return Rows(g, g_jacobian, f, loss)


def two_layer_rows() -> Rows:
    r"""Head :math:`u = w \cdot \tanh(h)` with logistic loss, parameter w (L,)."""

    def g(h: Array, y: float, a: Head) -> Array:
        s = np.tanh(h)
        return (sigmoid(a["w"] @ s) - y) * a["w"] * (1.0 - s**2)

    def g_jacobian(h: Array, y: float, a: Head) -> Array:
        s = np.tanh(h)
        p = sigmoid(a["w"] @ s)
        gradient = a["w"] * (1.0 - s**2)
        hessian = np.diag(a["w"] * -2.0 * s * (1.0 - s**2))
        return p * (1.0 - p) * np.outer(gradient, gradient) + (p - y) * hessian

    def f(h: Array, y: float, a: Head) -> Head:
        s = np.tanh(h)
        return {"w": (sigmoid(a["w"] @ s) - y) * s}

    def loss(h: Array, y: float, a: Head) -> float:
        return logistic(a["w"] @ np.tanh(h), y)

    return Rows(g, g_jacobian, f, loss)


def three_layer_rows(activation: str = "tanh") -> Rows:
    r"""Head :math:`u = w_2 \cdot \phi(k)`, :math:`k = W_1 \phi(h)`, with logistic loss.

    .. math::
        \partial_j u &= \phi'(h_j) \sum_m w_{2,m} \phi'(k_m) W_{1,mj} \\
        \partial_{ij} u &= \phi'(h_i) \phi'(h_j) \sum_m w_{2,m} \phi''(k_m) W_{1,mi} W_{1,mj}
            + \delta_{ij} \phi''(h_i) \sum_m w_{2,m} \phi'(k_m) W_{1,mi}
    """
    phi, slope, bend = ACTIVATIONS[activation]

    def output(h: Array, a: Head) -> Array:
        return a["w2"] @ phi(a["W1"] @ phi(h))

    def gradient(h: Array, a: Head) -> Array:
        k = a["W1"] @ phi(h)
        return slope(h) * np.einsum("m,mj->j", a["w2"] * slope(k), a["W1"])

    def hessian(h: Array, a: Head) -> Array:
        k = a["W1"] @ phi(h)
        outer = np.einsum("m,mi,mj->ij", a["w2"] * bend(k), a["W1"], a["W1"])
        inner = np.einsum("m,mi->i", a["w2"] * slope(k), a["W1"])
        return np.outer(slope(h), slope(h)) * outer + np.diag(bend(h) * inner)

    def g_jacobian(h: Array, y: float, a: Head) -> Array:
        p = sigmoid(output(h, a))
        du = gradient(h, a)
        return p * (1.0 - p) * np.outer(du, du) + (p - y) * hessian(h, a)

    def f(h: Array, y: float, a: Head) -> Head:
        k = a["W1"] @ phi(h)
        residual = sigmoid(output(h, a)) - y
        return {"W1": residual * np.outer(a["w2"] * slope(k), phi(h)), "w2": residual * phi(k)}

    return Rows(
        g=lambda h, y, a: (sigmoid(output(h, a)) - y) * gradient(h, a),
        g_jacobian=g_jacobian,
        f=f,
        loss=lambda h, y, a: logistic(output(h, a), y),
    )


def biased_two_layer_rows() -> Rows:
    r"""Head :math:`u = w \cdot \tanh(h) + b` with loss :math:`(u - y)^2 / 2`, parameters w, b."""

    def residual(h: Array, y: float, a: Head) -> Array:
        return a["w"] @ np.tanh(h) + a["b"] - y

    def g(h: Array, y: float, a: Head) -> Array:
        return residual(h, y, a) * a["w"] * (1.0 - np.tanh(h) ** 2)

    def g_jacobian(h: Array, y: float, a: Head) -> Array:
        s = np.tanh(h)
        gradient = a["w"] * (1.0 - s**2)
        hessian = np.diag(a["w"] * -2.0 * s * (1.0 - s**2))
        return np.outer(gradient, gradient) + residual(h, y, a) * hessian

    def f(h: Array, y: float, a: Head) -> Head:
        return {"w": residual(h, y, a) * np.tanh(h), "b": residual(h, y, a)}

    return Rows(g, g_jacobian, f, lambda h, y, a: 0.5 * residual(h, y, a) ** 2)


def softmax_rows() -> Rows:
    r"""Head :math:`u = W \tanh(h)` with cross-entropy, parameter W (K, L), y in {0, ..., K - 1}.

    With p = softmax(u), s = tanh(h) and D = diag(1 - s^2),

    .. math::
        g = D W^\top (p - e_y), \quad
        \nabla_h g = D W^\top (\mathrm{diag}(p) - p p^\top) W D
            - 2\,\mathrm{diag}(s \odot D W^\top (p - e_y)).
    """

    def error(h: Array, y: float, a: Head) -> tuple[Array, Array]:
        u = a["W"] @ np.tanh(h)
        p = np.exp(u - u.max()) / np.exp(u - u.max()).sum()
        return p, p - np.eye(len(u))[int(y)]

    def g(h: Array, y: float, a: Head) -> Array:
        return np.diag(1.0 - np.tanh(h) ** 2) @ a["W"].T @ error(h, y, a)[1]

    def g_jacobian(h: Array, y: float, a: Head) -> Array:
        p = error(h, y, a)[0]
        D = np.diag(1.0 - np.tanh(h) ** 2)
        curvature = np.diag(p) - np.outer(p, p)
        return D @ a["W"].T @ curvature @ a["W"] @ D - 2.0 * np.diag(np.tanh(h) * g(h, y, a))

    def f(h: Array, y: float, a: Head) -> Head:
        return {"W": np.outer(error(h, y, a)[1], np.tanh(h))}

    def loss(h: Array, y: float, a: Head) -> float:
        u = a["W"] @ np.tanh(h)
        return np.logaddexp.reduce(u) - u[int(y)]

    return Rows(g, g_jacobian, f, loss)


ROTATION = np.array([[0.5, 1.0, -0.5], [-1.0, 0.5, 1.5], [0.5, -0.5, 0.5]])


def rotational_rows(rotation: Array = ROTATION) -> Rows:
    r"""Return a (g, f) that is no gradient, for L = len(R) and a scalar parameter a.

    .. math::
        g = a \tanh(R h - y), \quad \nabla_h g = a\,\mathrm{diag}(1 - \tanh^2(R h - y)) R, \quad
        f = \tanh(a \textstyle\sum_j h_j) - y,

    with R not symmetric. The loss, :math:`(\tanh(h_1) - y)^2 / 2`, is only watched.
    """
    return Rows(
        g=lambda h, y, a: a["a"] * np.tanh(rotation @ h - y),
        g_jacobian=lambda h, y, a: (
            a["a"] * np.diag(1.0 - np.tanh(rotation @ h - y) ** 2) @ rotation
        ),
        f=lambda h, y, a: {"a": np.tanh(a["a"] * h.sum()) - y},
        loss=lambda h, y, a: 0.5 * (np.tanh(h[0]) - y) ** 2,
    )


def finite_difference_jacobian(
    g: Callable[[Array, float, Head], Array], h_i: Array, y_i: float, a: Head, step: float = 1e-5
) -> Array:
    r"""Return [i, j] = dg_i/dh_j by central differences, (g(h + s e_j) - g(h - s e_j)) / 2s."""
    columns = []
    for j in range(len(h_i)):
        shift = np.zeros_like(h_i)
        shift[j] = step
        columns.append((g(h_i + shift, y_i, a) - g(h_i - shift, y_i, a)) / (2.0 * step))
    return np.stack(columns, axis=-1)


def finite_difference_head_gradient(
    loss: Callable[[Array, float, Head], float], h_i: Array, y_i: float, a: Head, step: float = 1e-5
) -> Head:
    r"""Return the gradient of the loss in every entry of every head parameter, as above."""
    gradient = {name: np.zeros_like(value) for name, value in a.items()}
    for name, value in a.items():
        for index in np.ndindex(value.shape):
            shift = np.zeros_like(value)
            shift[index] = step
            above = loss(h_i, y_i, {**a, name: value + shift})
            below = loss(h_i, y_i, {**a, name: value - shift})
            gradient[name][index] = (above - below) / (2.0 * step)
    return gradient
