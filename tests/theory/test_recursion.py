import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent.info import LimitStep
from decoupled_descent.descent.rules import Damped
from decoupled_descent.theory.averages import Model, Point
from decoupled_descent.theory.gaussian import product_rule, psd_root
from decoupled_descent.theory.recursion import (
    HermiteEngine,
    PathEngine,
    Request,
    rule_coefficients,
)

LINEAR = dd.Objective(dd.heads.Linear(), "squared")


class Momentum:
    """v ← β v + w, θ ← θ − η v."""

    def __init__(self, lr, beta):
        self.lr, self.beta = lr, beta

    def slots(self, value):
        return (torch.zeros_like(value),)

    def __call__(self, value, direction, slots, step, scale):
        velocity = self.beta * slots[0] + scale * direction
        return value - self.lr * velocity, (velocity,)


class RowRates:
    """The paper's rule with rates of its own for every row of θ."""

    def __init__(self, lr, damping):
        self.lr, self.damping = torch.tensor(lr).double(), torch.tensor(damping).double()

    def slots(self, value):
        return ()

    def __call__(self, value, direction, slots, step, scale):
        return self.damping[:, None] * value - self.lr[:, None] * scale * direction, slots


def test_rule_coefficients_of_momentum():
    found = rule_coefficients(Momentum(0.1, 0.5), 4, 1, 1.0)[3, 0]
    np.testing.assert_allclose(found, [1, -0.175, -0.15, -0.1, 0])


def test_a_rule_that_is_not_linear_is_refused():
    class Signs(RowRates):
        def __call__(self, value, direction, slots, step, scale):
            return value - 0.1 * direction.sign(), slots

    class TrustRatio(RowRates):
        """Homogeneous, but not additive."""

        def __call__(self, value, direction, slots, step, scale):
            ratio = value.norm() / direction.norm() if float(value.norm()) > 0 else 1.0
            return value - 0.1 * ratio * scale * direction, slots

    for rule in (Signs([1.0], [1.0]), TrustRatio([1.0], [1.0])):
        algorithm = dd.DecoupledDescent(0.1, rule=rule)
        with pytest.raises(ValueError, match="not linear"):
            dd.StateEvolution(dd.mixtures.signalless(4), LINEAR, algorithm).run(3)


def test_damped_rule_is_the_default():
    np.testing.assert_allclose(
        rule_coefficients(Damped(0.1, 0.5), 3, 1, 2.0)[2, 0], [0.25, -0.1, -0.2, 0]
    )


def test_mehler_sum_is_the_two_dimensional_expectation():
    """Against brute force, at correlations up to one."""
    mixture = dd.mixtures.flipped_classes(4, labels=(0.0, 1.0), flip=0.3)
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    engine = HermiteEngine(Model(objective, mixture, 1), steps=3, order=80)
    omega = torch.tensor([[1.0, 0.9, -1.2], [0.9, 1.5, -1.08], [-1.2, -1.08, 1.44]]).double()
    alignment = torch.tensor([[[0.3], [-0.3]], [[0.5], [-0.2]], [[0.0], [1.0]]]).double()
    for t in range(3):
        row = omega[t : t + 1, : t + 1]
        _, column = engine.step(Request(Point(alignment[t], row[:, -1:], {}), row, row, row))
    z, w = product_rule(2, 80)
    for r in range(3):
        joint = omega[[[r, r], [2, 2]], [[r, 2], [r, 2]]]
        G, total = z @ psd_root(joint), 0.0
        for j, (first, flip) in enumerate([(0.0, 0.3), (1.0, 0.3)]):
            for y, p in ((first, 1 - flip), (1 - first, flip)):
                g_r = torch.sigmoid(G[:, 0] + alignment[r, j, 0]) - y
                g_s = torch.sigmoid(G[:, 1] + alignment[2, j, 0]) - y
                total += 0.5 * p * float(w @ (g_r * g_s))
        assert float(column[r, 0]) == pytest.approx(total, abs=1e-8)


def test_path_engine_draws_the_covariance_it_is_given():
    """With g the identity, Σ is Ω itself, whatever the order of the blocks."""
    mixture = dd.mixtures.signalless(4)
    objective = dd.Objective(torch.nn.Identity(), lambda u, y: u.square().sum(1), width=2)
    model = Model(objective, mixture, 2, LimitStep(g=lambda h, y, a: h))
    rows = torch.randn(6, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gram = rows @ rows.T / 9
    engine = PathEngine(model, 3, 64, (0, 1), None)
    for t in range(3):
        own = torch.zeros(2, 2 * (t + 1), dtype=torch.float64)
        own[:, -2:] = torch.eye(2)
        row = gram[2 * t : 2 * t + 2, : 2 * t + 2]
        _, found = engine.step(
            Request(Point(torch.zeros(1, 2).double(), row[:, -2:], {}), row, own, row)
        )
        np.testing.assert_allclose(found, row.T, atol=1e-10)
