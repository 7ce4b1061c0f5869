"""Losses to second order in outputs, against formulas."""

from __future__ import annotations

import pytest
import torch

from decoupled_descent.networks.examples import Examples
from decoupled_descent.networks.path.derivatives import Network
from decoupled_descent.objective.losses import Loss, get_loss
from tests.networks.path_problems import close, rows, tanh_network
from tests.oracles import path as oracle

LOSSES = {"squared": 1, "logistic": 1, "cross_entropy": 3}


@pytest.mark.parametrize("loss", LOSSES)
def test_expansion_equals_the_formulas(loss):
    count = LOSSES[loss]
    X, y = rows(15, 4, max(2, count))
    model = tanh_network(4, 3, count)
    data = Examples(X, y)
    network = Network(model, get_loss(loss), data.like)
    outputs = network.outputs(network.start, data.X)
    found = network.expand(outputs, data.y, 1.0)
    slopes, curvatures = oracle.slopes_and_curvatures(loss, outputs, y)
    close(found.slopes, slopes)
    close(found.roots @ found.roots.mT, curvatures)
    assert found.exact


def test_a_loss_that_is_not_convex_has_a_positive_curvature_and_says_so():
    X, y = rows(15, 4)
    y = 4 * y
    loss = Loss("sine", lambda outputs, labels: torch.sin(outputs - labels))
    network = Network(tanh_network(4, 3), loss, X)
    outputs = network.outputs(network.start, X)
    found = network.expand(outputs, y, 1.0)
    assert not found.exact
    wanted = (-torch.sin(outputs[:, 0] - y)).clamp_min(0)
    close((found.roots @ found.roots.mT)[:, 0, 0], wanted)


def test_absolute_loss_has_the_mean_curvature_over_the_spread_of_the_labels():
    X, y = rows(15, 4)
    network = Network(tanh_network(4, 3), get_loss("absolute"), X)
    found = network.expand(network.outputs(network.start, X), y, 10.0)
    close(
        (found.roots @ found.roots.mT)[:, 0, 0], torch.full((15,), 0.1, dtype=torch.float64)
    )  # 2 / (2 · 10)
    assert not found.exact
