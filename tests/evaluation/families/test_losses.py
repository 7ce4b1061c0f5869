"""Derivatives of losses, by differences."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from decoupled_descent.evaluation.families import losses

RNG = np.random.default_rng(0)
OUTPUTS = RNG.normal(size=(20, 3))
Y = RNG.integers(0, 3, 20)
POSITIVE = RNG.uniform(0.5, 2, 20)


def deviance(power):
    def value(o, y):
        mean = np.exp(o[:, 0])
        return mean ** (2 - power) / (2 - power) - y * mean ** (1 - power) / (1 - power)

    return value


def huber(o, y):
    z = (y - o[:, 0]) / o[:, 1]
    return o[:, 1] * (1 + np.where(abs(z) <= 1.3, z**2, 2 * 1.3 * abs(z) - 1.3**2))


CASES = [
    (losses.Squared(), lambda o, y: (o[:, 0] - y) ** 2 / 2, OUTPUTS[:, :1], POSITIVE),
    (losses.Logistic(), lambda o, y: -np.log(expit((2 * y - 1) * o[:, 0])), OUTPUTS[:, :1], Y % 2),
    (losses.Softmax(), lambda o, y: logsumexp(o, 1) - o[np.arange(20), y], OUTPUTS, Y),
    (losses.HalfTweedie(1.5), deviance(1.5), OUTPUTS[:, :1], POSITIVE),
    (losses.HalfTweedie(3.0), deviance(3.0), OUTPUTS[:, :1], POSITIVE),
    (losses.ScaledHuber(1.3), huber, np.stack([OUTPUTS[:, 0], np.full(20, 0.8)], 1), POSITIVE),
]


@pytest.mark.parametrize(("loss", "value", "outputs", "labels"), CASES)
def test_derivatives(loss, value, outputs, labels):
    step = 1e-5
    gradients, curved = loss.gradients(outputs, labels), loss.curvatures(outputs, labels)
    curved = curved[:, None, None] if curved.ndim == 1 else curved
    for k in range(outputs.shape[1]):
        move = step * np.eye(outputs.shape[1])[k]
        slope = (value(outputs + move, labels) - value(outputs - move, labels)) / (2 * step)
        np.testing.assert_allclose(gradients[:, k], slope, atol=1e-6)
        bend = loss.gradients(outputs + move, labels) - loss.gradients(outputs - move, labels)
        np.testing.assert_allclose(curved[:, k], bend / (2 * step), atol=1e-6)


def test_doubt_is_one_half_where_the_margin_is_half_of_the_move():
    assert losses.doubt(np.array([[1.0]]), np.array([[-1.0]])) == pytest.approx(0.5)
    assert losses.doubt(np.array([[1.0]]), np.array([[1.0]])) == 0
