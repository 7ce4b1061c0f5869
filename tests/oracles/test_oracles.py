"""The oracles against finite differences, against one another and against what AMP promises."""

import numpy as np
import pytest

from .descent import (
    ACTIVATIONS,
    ROTATION,
    Array,
    Head,
    Path,
    Rows,
    biased_two_layer_rows,
    finite_difference_head_gradient,
    finite_difference_jacobian,
    general,
    linear_rows,
    memory,
    rotational_rows,
    signalless,
    softmax_rows,
    three_layer_rows,
    two_layer_listing,
    two_layer_rows,
    xor,
    xor_rows,
)

N, D, STEPS = 12, 7, 8

GRADIENT_CASES = {  # name -> rows, L, shapes of the head's parameters, number of classes
    "linear": (linear_rows(), 1, {}, 2),
    "xor": (xor_rows(), 2, {"a": ()}, 2),
    "two-layer": (two_layer_rows(), 4, {"w": (4,)}, 2),
    "biased-two-layer": (biased_two_layer_rows(), 4, {"w": (4,), "b": ()}, 2),
    "softmax": (softmax_rows(), 4, {"W": (3, 4)}, 3),
    **{
        f"three-layer-{name}": (three_layer_rows(name), 4, {"W1": (5, 4), "w2": (5,)}, 2)
        for name in ACTIVATIONS
    },
}
ALL_CASES = {**GRADIENT_CASES, "rotational": (rotational_rows(), 3, {"a": ()}, 2)}

Case = tuple[Rows, int, dict[str, tuple[int, ...]], int]


def draw_rows(case: Case, seed: int, count: int = 5) -> list[tuple[Array, float, Head]]:
    """Draw arguments (h_i, y_i, a) for the row functions."""
    _, width, shapes, classes = case
    rng = np.random.default_rng(seed)
    head = {name: np.array(rng.normal(size=shape)) for name, shape in shapes.items()}
    labels = rng.integers(classes, size=count).astype(float)
    return [(rng.normal(size=width), y_i, head) for y_i in labels]


def draw_problem(width: int, n: int = N, d: int = D) -> tuple[Array, Array, Array]:
    """Draw X with variance 1/d, labels in {0, 1} and theta of order one."""
    rng = np.random.default_rng(width)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    return X, rng.integers(2, size=n).astype(float), rng.normal(size=(d, width))


def assert_same(left: Path, right: Path, tolerance: float = 1e-12) -> None:
    """Compare two paths entry by entry."""
    close = {"rtol": tolerance, "atol": tolerance}
    assert len(left.theta) == len(right.theta) == STEPS
    np.testing.assert_allclose(left.theta, right.theta, **close)
    np.testing.assert_allclose(left.preactivations, right.preactivations, **close)
    np.testing.assert_allclose(left.train_error, right.train_error, **close)
    for mine, yours in zip(left.head, right.head, strict=True):
        assert mine.keys() == yours.keys()
        for name in mine:
            np.testing.assert_allclose(mine[name], yours[name], **close)


@pytest.mark.parametrize("name", GRADIENT_CASES)
def test_g_and_f_are_gradients_of_the_loss(name: str) -> None:
    """Hold g and f against central differences of the loss."""
    case = GRADIENT_CASES[name]
    rows = case[0]
    for h_i, y_i, head in draw_rows(case, seed=1):
        expected = finite_difference_jacobian(rows.loss, h_i, y_i, head)
        np.testing.assert_allclose(rows.g(h_i, y_i, head), expected, atol=1e-8)
        gradient = finite_difference_head_gradient(rows.loss, h_i, y_i, head)
        f_i = rows.f(h_i, y_i, head)
        assert f_i.keys() == head.keys()
        for key in head:
            assert np.shape(f_i[key]) == head[key].shape
            np.testing.assert_allclose(f_i[key], gradient[key], atol=1e-8)


@pytest.mark.parametrize("name", ALL_CASES)
def test_jacobian_is_the_derivative_of_g(name: str) -> None:
    """Hold the Jacobian against central differences of g; it is a Hessian unless rotational."""
    case = ALL_CASES[name]
    rows = case[0]
    for h_i, y_i, head in draw_rows(case, seed=2):
        jacobian = rows.g_jacobian(h_i, y_i, head)
        expected = finite_difference_jacobian(rows.g, h_i, y_i, head)
        assert jacobian.shape == (len(h_i), len(h_i))
        np.testing.assert_allclose(jacobian, expected, atol=1e-8)
        assert np.allclose(jacobian, jacobian.T, atol=1e-14) == (name != "rotational")


def test_finite_differences_of_a_known_map() -> None:
    """For g = R h the Jacobian is R, rows and columns the right way round."""
    jacobian = finite_difference_jacobian(lambda h, y, a: ROTATION @ h, np.ones(3), 0.0, {})
    np.testing.assert_allclose(jacobian, ROTATION, atol=1e-9)


def test_memory_by_hand() -> None:
    """At t = 1 the sum is empty; at t = 4 the oldest term has decayed twice."""
    first, second, third = (np.full((2, 1), value) for value in (1.0, 10.0, 100.0))
    np.testing.assert_array_equal(memory([], lr=0.5, damping=0.9), 0.0)
    expected = 0.5 * (0.81 * first + 0.9 * second + third)
    np.testing.assert_allclose(memory([first, second, third], lr=0.5, damping=0.9), expected)


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("damping", [1.0, 0.9])
def test_signalless_is_general(damping: float, decoupled: bool) -> None:
    """Signal-less regression is the general family with g = h."""
    X, _, theta = draw_problem(1)
    path = signalless(X, theta, 0.1, damping, STEPS, decoupled)
    rates = {"lr": 0.1, "damping": damping, "head_lr": 0.3, "head_damping": 1.0}
    expected = general(
        X, np.zeros(N), theta, {}, *linear_rows(), **rates, steps=STEPS, decoupled=decoupled
    )
    assert_same(path, expected)


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("fixed_a", [True, False])
@pytest.mark.parametrize("damping", [1.0, 0.9])
def test_xor_is_general(damping: float, fixed_a: bool, decoupled: bool) -> None:
    """The XOR iterations are the general family; a fixed a is a head of rate zero."""
    X, y, theta = draw_problem(2)
    path = xor(X, y, theta, 0.7, 0.05, STEPS, damping, fixed_a, decoupled)
    head_lr = 0.0 if fixed_a else 0.05
    rates = {"lr": 0.05, "damping": damping, "head_lr": head_lr, "head_damping": 1.0}
    head = {"a": np.array(0.7)}
    expected = general(X, y, theta, head, *xor_rows(), **rates, steps=STEPS, decoupled=decoupled)
    assert_same(path, expected)


@pytest.mark.parametrize("decoupled", [True, False])
def test_listing_is_general_with_rate_over_n(decoupled: bool) -> None:
    """The MNIST listing is the general family with eta_1 = lr / n and gamma_1 = lr."""
    X, y, theta = draw_problem(4)
    w = np.random.default_rng(0).normal(size=4)
    path = two_layer_listing(X, y, theta, w, 1.0, STEPS, decoupled)
    rates = {"lr": 1.0 / N, "damping": 1.0, "head_lr": 1.0, "head_damping": 1.0}
    head, rows = {"w": w}, two_layer_rows()
    expected = general(X, y, theta, head, *rows, **rates, steps=STEPS, decoupled=decoupled)
    assert_same(path, expected)


def test_first_step_by_hand() -> None:
    """With one sample, one feature and g = h everything is a product of numbers."""
    X, theta = np.array([[2.0]]), np.array([[3.0]])  # h_1 = 6, alpha = 1
    path = signalless(X, theta, lr=0.1, damping=0.5, steps=3)
    second = 0.5 * 3.0 - 0.1 * (2.0 * 6.0 - 3.0)  # 0.6
    h_second = 2.0 * second + 0.1 * 6.0
    third = 0.5 * second - 0.1 * (2.0 * h_second - second)
    h_third = 2.0 * third + 0.1 * (0.5 * 6.0 + h_second)
    np.testing.assert_allclose(np.ravel(path.theta), [3.0, second, third])
    np.testing.assert_allclose(np.ravel(path.preactivations), [6.0, h_second, h_third])
    np.testing.assert_allclose(path.train_error, [18.0, 0.5 * h_second**2, 0.5 * h_third**2])
    assert path.head == [{}, {}, {}]


def test_inputs_are_left_alone() -> None:
    """No oracle writes to its arguments."""
    case = ALL_CASES["three-layer-tanh"]
    X, y, theta = draw_problem(4)
    _, _, head = draw_rows(case, seed=3)[0]
    before = [X.copy(), y.copy(), theta.copy(), head["W1"].copy(), head["w2"].copy()]
    general(X, y, theta, head, *case[0], 0.1, 0.9, 0.2, 0.95, STEPS)
    two_layer_listing(X, y, theta, head["W1"][0], 0.1, STEPS)
    for array, copy in zip([X, y, theta, head["W1"], head["w2"]], before, strict=True):
        np.testing.assert_array_equal(array, copy)


def transposed(rows: Rows) -> Rows:
    """Return the rows with the Jacobian of g the wrong way round."""
    return rows._replace(g_jacobian=lambda h, y, a: rows.g_jacobian(h, y, a).T)


def test_onsager_term_takes_the_transpose() -> None:
    r"""Without signal theta^T theta_tilde / d vanishes, for theta J^T and not for theta J."""
    n, d = 2000, 1000
    X, y, theta = draw_problem(3, n, d)
    noise = np.sqrt(n / d / d)  # entries of theta_tilde have variance alpha E[g^2] < alpha

    def overlap(rows: Rows) -> float:
        path = general(X, y, theta, {"a": np.array(1.0)}, *rows, 1.0, 0.0, 0.0, 1.0, steps=2)
        return np.abs(theta.T @ path.theta[1] / d).max()  # theta_2 = -theta_tilde_1

    assert overlap(rotational_rows()) < 4.0 * noise
    assert overlap(transposed(rotational_rows())) > 10.0 * noise


def test_rows_of_h_look_fresh() -> None:
    """Without signal the covariance of h_t is theta_t^T theta_t / d under DD, and only there."""
    n = d = 1000
    X, y, theta = draw_problem(3, n, d)
    head, rates = {"a": np.array(1.0)}, (1.0, 0.95, 0.1, 1.0)

    def mismatch(rows: Rows, decoupled: bool = True) -> float:
        path = general(X, y, theta, head, *rows, *rates, steps=6, decoupled=decoupled)
        overlaps = [t.T @ t / d for t in path.theta]
        covariances = [h.T @ h / n for h in path.preactivations]
        pairs = zip(covariances, overlaps, strict=True)
        return max(np.abs(mine - truth).max() / np.trace(truth) for mine, truth in pairs)

    # Over seeds: 0.03 to 0.04 (sampling noise), 0.13 to 0.22 transposed, 0.6 to 0.8 for GD.
    assert mismatch(rotational_rows()) < 0.07
    assert mismatch(transposed(rotational_rows())) > 0.1
    assert mismatch(rotational_rows(), decoupled=False) > 0.4
