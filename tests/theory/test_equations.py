import numpy as np
import pytest
import torch
from scipy.stats import norm

import decoupled_descent as dd
from decoupled_descent.theory import fixed_point
from decoupled_descent.theory.equations import central_differences

from . import problems


def trained_head():
    mixture = dd.mixtures.flipped_classes(80, snr=2.0, flip=0.1)
    objective = dd.Objective(dd.heads.TwoLayer(1).double(), "squared")
    algorithm = dd.DecoupledDescent(0.1, 0.9, head_lr=0.5)
    start = {"head": {"1.weight": torch.tensor([[0.8]])}, "theta": problems.informed(mixture, [1])}
    return dd.StateEvolution(mixture, objective, algorithm), start


def test_the_paper_s_equations_with_a_trained_head():
    """Equations "fixM" and "fixA", each expectation by its own quadrature."""
    theory, start = trained_head()
    evolution, point = theory.run(400, **start), fixed_point(theory, **start)
    assert point.stable
    np.testing.assert_allclose(evolution.overlap[-1], point.overlap, rtol=0, atol=1e-6)
    np.testing.assert_allclose(evolution.alignment[-1], point.alignment, rtol=0, atol=1e-6)
    weight = float(point.head["1.weight"])
    assert float(evolution.head["1.weight"][-1]) == pytest.approx(weight, abs=1e-6)
    nodes, masses = np.polynomial.hermite_e.hermegauss(40)
    masses /= masses.sum()
    m, sd = point.alignment.numpy()[:, 0], float(point.overlap[0, 0]) ** 0.5
    h = m[:, None] + sd * nodes
    y = 0.8 * np.array([[-1.0], [1.0]])  # the mean response: g and f are affine in y
    residual = weight * np.tanh(h) - y
    expected_g = (residual * weight * (1 - np.tanh(h) ** 2)) @ masses
    expected_f = (residual * np.tanh(h)) @ masses
    p, chi = theory.mixture.weights.numpy(), theory.mixture.overlaps.numpy()
    np.testing.assert_allclose(m, -1.0 * chi @ (p * expected_g), rtol=0, atol=1e-8)
    assert abs(p @ expected_f) < 1e-8


def flipped_theory(c, eta=0.1, ratio=1.0):
    mixture = dd.mixtures.flipped_classes(100, snr=2.0, flip=0.1, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    return dd.StateEvolution(mixture, objective, dd.DecoupledDescent(c * eta, 1 - eta), ratio)


@pytest.mark.parametrize("c", [1.5, 5.0])
def test_the_approach_has_the_predicted_rate(c):
    theory = flipped_theory(c)
    point, evolution = fixed_point(theory), theory.run(220)
    gap = (evolution.overlap[:, 0, 0] - point.overlap[0, 0]).abs()
    measured = float((gap[210] / gap[170]) ** (1 / 40))
    # where differences between iterates are the slower ones, a power of t comes on top
    assert point.rate - 0.012 < measured < point.rate + 0.001
    assert point.rate < 0.95


@pytest.mark.parametrize(("c", "ratio"), [(0.5, 1.0), (0.9, 1.0), (1.2, 1.0), (0.5, 5.0)])
def test_signalless_regression_contracts_below_c_squared_alpha_one(c, ratio):
    """The replicon is c² α: the recursion contracts to zero below one and explodes above."""
    algorithm = dd.DecoupledDescent(0.1 * c, 0.9)
    objective = dd.Objective(dd.heads.Linear(), "squared")
    theory = dd.StateEvolution(dd.mixtures.signalless(10), objective, algorithm, ratio)
    point = fixed_point(theory, overlap=[[1e-6]])
    assert float(point.overlap[0, 0]) == pytest.approx(0, abs=1e-9)
    assert point.replicon == pytest.approx(c**2 * ratio, rel=1e-10)
    error = theory.run(200).test_error
    assert point.stable == (c**2 * ratio < 1) == bool(error[-1] < error[150])


def robust(loss, c=1.0, **options):
    mixture = dd.mixtures.flipped_classes(100, snr=2.0, flip=0.1)
    objective = dd.Objective(dd.heads.Linear(), loss, curvature="smoothed")
    algorithm = dd.DecoupledDescent(0.1 * c, 0.9, **options)
    return dd.StateEvolution(mixture, objective, algorithm, paths=2**11, randomisations=4)


def huber(u, y):
    return torch.nn.functional.huber_loss(u[:, 0], y, reduction="none", delta=0.5)


def hinge(u, y):
    return torch.nn.functional.relu(1 - y * u[:, 0])


def test_iterates_wander_where_the_direction_jumps():
    """At any distance half a jump's worth of rows disagree: the recursion ends elsewhere."""
    theory = robust("absolute")
    point, evolution = fixed_point(theory, tolerance=1e-3), theory.run(110)
    assert point.replicon == point.rate == np.inf
    assert np.isnan(point.spectral_radius)
    assert not point.stable
    stderr = evolution.stderr["overlap"][-1, 0, 0]
    assert point.overlap[0, 0] - evolution.overlap[-1, 0, 0] > 10 * stderr
    assert evolution.overlap[-1, 0, 0] - evolution.omega[-1, -60, 0, 0] > 10 * stderr


@pytest.mark.parametrize(
    ("loss", "options", "finite"),
    [
        (hinge, {}, False),
        ("squared", {"g": lambda h, y, a: torch.sign(h - y.unsqueeze(1))}, False),
        ("absolute", {"g": lambda h, y, a: torch.tanh(h - y.unsqueeze(1))}, True),
        (huber, {}, True),
    ],
)
def test_only_jumps_make_the_replicon_infinite(loss, options, finite):
    point = fixed_point(robust(loss, **options), tolerance=1e-3)
    assert np.isfinite(point.replicon) == point.stable == finite


def test_relu_heads_jump_unless_the_residual_vanishes():
    """g = (w relu(h) − y) w 1{h > 0} jumps by −wy at zero."""
    head = dd.heads.TwoLayer(1, activation="relu", seed=0).double()
    torch.nn.init.ones_(next(head.parameters()))
    objective = dd.Objective(head, "squared", curvature="smoothed")
    algorithm = dd.DecoupledDescent(0.05, 0.9, head_lr=0.0)
    for response, finite in ((0.0, True), (1.0, False)):
        limit = dd.theory.MixtureLimit([[1.0]], [1.0], [response])
        theory = dd.StateEvolution(limit, objective, algorithm)
        point = fixed_point(theory, tolerance=1e-3)
        assert np.isfinite(point.replicon) == finite


@pytest.mark.slow
@pytest.mark.parametrize("c", [1.0, 3.0])
def test_the_replicon_across_kinks_that_do_not_jump(c):
    """Huber loss: c² α P(|h − y| < δ), and the recursion ends there when it is below one."""
    theory = robust(huber, c)
    point, evolution = fixed_point(theory), theory.run(150)
    m, sd = float(point.alignment[1, 0]), float(point.overlap[0, 0]) ** 0.5
    near = [norm.cdf((y + 0.5 - m) / sd) - norm.cdf((y - 0.5 - m) / sd) for y in (1, -1)]
    assert point.replicon == pytest.approx(c**2 * np.dot([0.9, 0.1], near), rel=1e-2)
    assert point.stable == (c == 1)
    gap = abs(float(evolution.overlap[-1, 0, 0] - point.overlap[0, 0]))
    assert (gap < 5 * float(evolution.stderr["overlap"][-1, 0, 0]) + 1e-3) == point.stable


def test_central_differences_of_a_polynomial():
    at = torch.tensor([3.0, -1.0], dtype=torch.float64)
    result = central_differences(lambda x: torch.stack([x[0] ** 2, x[0] * x[1]]), at)
    np.testing.assert_allclose(result, [[6.0, 0.0], [-1.0, 3.0]], atol=1e-8)
