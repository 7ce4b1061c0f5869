import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent.info import LimitStep
from decoupled_descent.theory.averages import Model, Point
from decoupled_descent.theory.engines import HermiteEngine, PathEngine, Request
from decoupled_descent.theory.gaussian import product_rule, psd_root


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
        _, result = engine.step(
            Request(Point(torch.zeros(1, 2).double(), row[:, -2:], {}), row, own, row)
        )
        np.testing.assert_allclose(result, row.T, atol=1e-10)
