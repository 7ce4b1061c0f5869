import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent.rules import Damped
from decoupled_descent.theory.recursion import rule_coefficients

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
    result = rule_coefficients(Momentum(0.1, 0.5), 4, 1, 1.0)[3, 0]
    np.testing.assert_allclose(result, [1, -0.175, -0.15, -0.1, 0])


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
