"""Kinks, and Gaussian responses in losses of every shape: what is sampled, and what is not."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import brentq
from torch import nn
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.datasets.responses import Noisy
from decoupled_descent.descent.info import LimitStep
from decoupled_descent.theory import orders
from decoupled_descent.theory.averages import Model, Point
from decoupled_descent.theory.orders import (
    has_kinks,
    loss_has_kinks,
    loss_orders,
    step_orders,
)
from tests.theory import problems

#: ρ(u − y) by name, with its derivative.
ROBUST = {
    "welsch": (lambda r: 1 - torch.exp(-(r**2) / 2), lambda r: r * math.exp(-(r**2) / 2)),
    "cauchy": (lambda r: torch.log1p(r**2), lambda r: 2 * r / (1 + r**2)),
    "log-cosh": (lambda r: nn.functional.softplus(-2 * r) + r - math.log(2), math.tanh),
}


def of_residuals(name, head=None):
    rho = ROBUST[name][0]
    return dd.Objective(head or dd.heads.Linear(), lambda u, y: rho(u.reshape(-1) - y))


def noise(scale, mean=0.0):
    return dd.theory.MixtureLimit([[1.0]], [1.0], [Noisy(mean, scale)])


def normal_mean(function, mean, variance):
    """E function(mean + √variance Z) by adaptive integration."""
    sd = math.sqrt(variance)
    cuts = [mean - 12 * sd, *np.linspace(-20, 20, 41), mean + 12 * sd]
    cuts = sorted(c for c in cuts if abs(c - mean) <= 12 * sd)

    def weighted(r):
        return function(r) * math.exp(-(((r - mean) / sd) ** 2) / 2) / (sd * math.sqrt(2 * math.pi))

    return sum(
        quad(weighted, a, b, epsabs=1e-13, epsrel=1e-12, limit=200)[0] for a, b in pairwise(cuts)
    )


def rho(name):
    return lambda r: float(ROBUST[name][0](torch.tensor(r, dtype=torch.float64)))


@pytest.mark.parametrize("order", [None, 200])
@pytest.mark.parametrize("scale", [0.4, 3.0])
@pytest.mark.parametrize("name", ROBUST)
def test_losses_that_are_no_polynomials_of_the_response(name, scale, order):
    result = dd.theory.asymptotic_test_error(
        noise(scale, 0.7), of_residuals(name), [[0.3]], [[0.25]], order=order
    )
    exact = normal_mean(rho(name), -0.4, 0.25 + scale**2)
    assert abs(float(result) - exact) < 3 * result.stderr + 1e-9
    assert result.stderr < 1e-9


def test_welsch_loss_in_closed_form():
    result = dd.theory.asymptotic_test_error(noise(3.0), of_residuals("welsch"), [[0.0]], [[0.25]])
    assert float(result) == pytest.approx(1 - 1 / math.sqrt(10.25), abs=1e-12)


@pytest.mark.parametrize("name", ROBUST)
def test_two_units(name):
    head = nn.Linear(2, 1, bias=False).double()
    nn.init.ones_(head.weight)
    overlap = [[0.5, 0.1], [0.1, 0.3]]
    result = dd.theory.asymptotic_test_error(
        noise(3.0), of_residuals(name, head), [[0.2, 0.1]], torch.tensor(overlap).double()
    )
    assert float(result) == pytest.approx(normal_mean(rho(name), 0.3, 1.0 + 9.0), abs=1e-6)


@pytest.mark.parametrize("scale", [30.0, 100.0])
@pytest.mark.parametrize("name", ROBUST)
def test_noise_too_wide_for_quadrature_is_sampled(name, scale):
    result = dd.theory.asymptotic_test_error(noise(scale), of_residuals(name), [[0.0]], [[0.25]])
    exact = normal_mean(rho(name), 0.0, 0.25 + scale**2)
    assert 0 < abs(float(result) - exact) < 5 * result.stderr < 0.01 * exact


def test_a_margin_loss_against_plain_sampling():
    margin = dd.Objective(
        dd.heads.Linear(), lambda u, y: nn.functional.softplus(-y * u.reshape(-1))
    )
    result = dd.theory.asymptotic_test_error(noise(2.0, 1.0), margin, [[0.8]], [[1.5]])
    h, y = torch.randn(2, 10**6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    losses = nn.functional.softplus(-(1 + 2 * y) * (0.8 + math.sqrt(1.5) * h))
    assert result.stderr < 1e-5
    assert abs(float(result) - float(losses.mean())) < 4 * float(losses.std()) / 1000


def test_too_coarse_a_rule_for_the_response_shows_in_the_error(monkeypatch):
    """Whatever was decided beforehand, the two rules differ in the response as well."""
    monkeypatch.setattr(orders, "LEAST_AGREEMENT", math.inf)
    for coarse in (4, 8, 16, 32):
        monkeypatch.setattr(orders, "RESPONSE_ORDERS", (coarse,))
        for name in ROBUST:
            result = dd.theory.asymptotic_test_error(
                noise(3.0), of_residuals(name), [[0.0]], [[0.25]]
            )
            exact = normal_mean(rho(name), 0.0, 9.25)
            assert abs(float(result) - exact) < 2 * result.stderr, (coarse, name)
            assert result.stderr > 1e-5


STEP = dd.DecoupledDescent(0.5, 0.9)


def second_overlap(name, variance, overlap, ratio=1.0):
    """Ω[2,2] without signal: η₀²Ω + η₁² α E ρ'(D)²."""
    square = normal_mean(lambda r: ROBUST[name][1](r) ** 2, 0.0, variance + overlap)
    return 0.81 * overlap + 0.25 * ratio * square


@pytest.mark.parametrize("name", ROBUST)
def test_a_step_of_the_recursion(name):
    mixture = dd.theory.MixtureLimit([[0.0]], [1.0], [Noisy(0.0, 3.0)])
    evolution = dd.StateEvolution(mixture, of_residuals(name), STEP, 2.0).run(6)
    gap = abs(float(evolution.overlap[1, 0, 0]) - second_overlap(name, 9.0, 1.0, 2.0))
    assert gap < 1e-5
    assert gap < 3 * float(evolution.stderr["overlap"][1, 0, 0]) + 1e-9
    sampled = dd.StateEvolution(mixture, of_residuals(name), STEP, 2.0, method="paths").run(6)
    for key in ("test_error", "overlap"):
        gaps = (getattr(sampled, key) - getattr(evolution, key)).abs()
        assert (gaps < 5 * sampled.stderr[key] + 1e-9).all(), key


def test_a_step_of_the_recursion_of_two_units():
    """Two residuals of one response, each moved by its own slope."""
    mixture = dd.theory.MixtureLimit([[0.0]], [1.0], [Noisy(0.0, 3.0)])
    objective = dd.Objective(
        nn.Identity(), lambda u, y: torch.log1p((u - y[:, None]) ** 2).sum(1), width=2
    )
    theory = dd.StateEvolution(mixture, objective, STEP, paths=2048)
    evolution = theory.run(3)
    exact, stderr = second_overlap("cauchy", 9.0, 1.0), evolution.stderr["overlap"][1]
    for k in range(2):
        assert abs(float(evolution.overlap[1, k, k]) - exact) < 5 * float(stderr[k, k])
    start = 2 * normal_mean(rho("cauchy"), 0.0, 10.0)
    assert float(evolution.test_error[0]) == pytest.approx(start, abs=1e-6)


@pytest.mark.parametrize("name", ["cauchy", "log-cosh"])
def test_fixed_points_and_slopes(name):
    mixture = dd.theory.MixtureLimit([[0.0]], [1.0], [Noisy(0.0, 3.0)])
    theory = dd.StateEvolution(mixture, of_residuals(name), dd.DecoupledDescent(0.05, 0.9))

    def excess(omega):
        slope = ROBUST[name][1]
        return 0.25 * normal_mean(lambda r: slope(r) ** 2, 0.0, 9 + omega) - omega

    exact = brentq(excess, 0.0, 2.0, xtol=1e-12)
    point = dd.theory.fixed_point(theory)
    assert float(point.overlap) == pytest.approx(exact, abs=1e-6)
    nodes = theory.nodes(1)
    result = theory.model(1).slopes(
        nodes, Point(torch.zeros(1, 1).double(), torch.eye(1).double(), {})
    )
    stein = normal_mean(lambda r: r * ROBUST[name][1](r), 0.0, 10.0) / 10.0
    assert float(result.curvature) == pytest.approx(stein, abs=1e-6)


def test_polynomials_of_the_response_take_few_nodes():
    mixture, objective, _, _ = problems.discrete(10)
    assert step_orders(Model(objective, mixture, 1))[0] == (64, 4)
    quartic = dd.Objective(dd.heads.Linear(), lambda u, y: (u.reshape(-1) - y) ** 4)
    assert step_orders(Model(quartic, noise(3.0), 1))[0] == (64, 4)
    assert step_orders(Model(of_residuals("cauchy"), noise(3.0), 1))[0] == (64, 1024)


def test_two_rules_are_neighbours():
    product = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    assert loss_orders(Model(product, dd.mixtures.xor(2), 2)) == ((64, 4), (65, 5))


def test_a_loss_in_single_precision_is_not_refined_for_its_rounding():
    single = dd.Objective(
        dd.heads.Linear(), lambda u, y: (u.reshape(-1).float() - y.float()).square().double()
    )
    assert step_orders(Model(single, noise(3.0), 1))[0] == (64, 4)


def test_many_modes_are_sampled_before_they_take_too_many_nodes():
    laws = [Noisy(float(j), 3.0) for j in range(100)]
    mixture = dd.theory.MixtureLimit(torch.zeros(100, 100), [0.01] * 100, laws)
    assert loss_orders(Model(of_residuals("cauchy"), noise(3.0), 1))
    assert loss_orders(Model(of_residuals("cauchy"), mixture, 1)) == ()
    assert loss_orders(Model(dd.Objective(dd.heads.Linear(), "squared"), mixture, 1))


def test_quadrature_for_noise_too_wide_is_refused():
    objective, mixture = of_residuals("cauchy"), noise(100.0)
    with pytest.raises(ValueError, match=r"order=80 .* Gaussian responses.* leave order out"):
        dd.theory.asymptotic_test_error(mixture, objective, [[0.0]], [[1.0]], order=80)
    theory = dd.StateEvolution(mixture, objective, STEP, method="quadrature")
    with pytest.raises(ValueError, match=r"too steep for the response noise; use method='paths'"):
        theory.run(3)


MIXTURE = dd.mixtures.flipped_classes(10, flip=0.01)
LINEAR = dd.heads.Linear()


def two_layer(activation):
    return nn.Sequential(nn.Linear(2, 3), activation, nn.Linear(3, 1))


def hinge(u, y):
    return functional.relu(1 - y * u[:, 0])


def rare(u, y):
    """A kink for the rarer label of either class only."""
    return torch.where(y == 1, u[:, 0].abs(), u[:, 0].square())


def huber(u, y):
    return functional.huber_loss(u[:, 0], y, reduction="none", delta=0.5)


def wrong(u, y):
    return y * u[:, 0] < 0


CASES = {
    "squared": (LINEAR, "squared", False, False),
    "smooth loss of one's own": (LINEAR, lambda u, y: torch.cosh(u[:, 0] - y), False, False),
    "absolute": (LINEAR, "absolute", True, True),
    "hinge": (LINEAR, hinge, True, True),
    "a rare label": (LINEAR, rare, True, True),
    "Huber: a kink of the slope": (LINEAR, huber, False, True),
    "wrong classes": (LINEAR, wrong, True, True),
    "no gradient": (LINEAR, lambda u, y: u.detach()[:, 0].square(), True, True),
    "tanh": (two_layer(nn.Tanh()), "squared", False, False),
    "Mish": (two_layer(nn.Mish()), "squared", False, False),
    "ReLU": (two_layer(nn.ReLU()), "squared", True, True),
    "ELU: a kink of the slope": (two_layer(nn.ELU()), "squared", False, True),
}


@pytest.mark.parametrize("name", CASES)
def test_kinks_are_found(name):
    head, loss, in_loss, in_direction = CASES[name]
    objective = dd.Objective(head, loss)
    model = Model(objective, MIXTURE, objective.width or 1)
    assert loss_has_kinks(model) is in_loss
    assert has_kinks(model) is in_direction


@pytest.mark.parametrize("curvature", ["autodiff", "smoothed"])
def test_what_the_curvature_is_called_makes_no_difference(curvature):
    for loss, kinked in (("absolute", True), ("squared", False), (hinge, True)):
        objective = dd.Objective(LINEAR, loss, curvature=curvature)
        assert has_kinks(Model(objective, MIXTURE, 1)) is kinked


@pytest.mark.filterwarnings("ignore::decoupled_descent.objective.KinkWarning")
@pytest.mark.parametrize(
    ("g", "kinked"),
    [
        (lambda h, y, a: torch.tanh(h - y[:, None]), False),
        (lambda h, y, a: torch.sign(h - y[:, None]), True),
        (lambda h, y, a: (h - y[:, None]).clamp(-1, 1), True),
        (lambda h, y, a: h * torch.ones(7, 1), False),  # for seven rows of its own only
    ],
)
def test_directions_of_one_s_own(g, kinked):
    step = LimitStep(g)
    assert has_kinks(Model(dd.Objective(LINEAR, "squared"), MIXTURE, 1, step)) is kinked
    assert has_kinks(Model(dd.Objective(LINEAR, "absolute"), MIXTURE, 1, step))


def test_kinks_far_from_where_heads_begin():
    mixture = dd.mixtures.flipped_classes(10, labels=(39.0, 41.0))
    kinked = dd.Objective(dd.heads.Linear(), lambda u, y: (u.reshape(-1) - y).abs())
    smooth = dd.Objective(dd.heads.Linear(), lambda u, y: torch.log1p((u.reshape(-1) - y) ** 2))
    assert loss_has_kinks(Model(kinked, mixture, 1))
    assert not loss_has_kinks(Model(smooth, mixture, 1))
