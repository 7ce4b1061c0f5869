import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.theory import fixed_point

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
