"""Derivatives of modules row by row, against formulas and against themselves in other chunks."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from decoupled_descent.networks.path import derivatives
from decoupled_descent.networks.path.derivatives import Network
from decoupled_descent.objective.losses import get_loss
from tests.networks.path_problems import close, rows, tanh_network
from tests.oracles import path as oracle


@pytest.mark.parametrize("chunk", [1, 500, 2**25])
@pytest.mark.parametrize("looped", [False, True])
def test_chunks_and_loops_make_no_difference(monkeypatch, chunk, looped):
    X, y = rows(12, 4, 3)
    model = tanh_network(4, 3, 3)
    network = Network(model, get_loss("cross_entropy"), X)
    network.measure(X)
    if looped:
        network._mapped = derivatives._looped
    monkeypatch.setattr(derivatives, "CHUNK", chunk)
    draw = torch.Generator().manual_seed(0)
    betas = network.start + 0.1 * torch.randn(5, network.size, generator=draw).double()
    weights = torch.rand(5, 12, generator=draw).double()
    along = torch.randn(network.size, generator=draw).double()
    jacobian = torch.cat([part for _, part in network.jacobians(betas[0], X, 3)])
    close(jacobian, oracle.jacobian(model, betas[0], X))
    close(network.direction(betas[0], X, along), jacobian @ along)
    found, outputs = network.residuals(betas, X, y, weights, along)
    plain, again = network.residuals(betas, X, y, weights)
    each, _ = network.residuals(betas, X, y, weights, along * torch.arange(5).unsqueeze(1))
    for k, beta in enumerate(betas):
        gradient, matrix = oracle.system(model, "cross_entropy", beta, X, y, weights[k], 0.0)
        close(plain[k], gradient)
        close(found[k], gradient - matrix @ along)
        close(each[k], gradient - k * matrix @ along)
        for seen in (outputs, again, network.copy_outputs(betas, X)):
            close(seen[k], oracle.outputs(model, beta, X))
    own = network.own_outputs(betas, X[:5])
    close(
        own,
        torch.cat([oracle.outputs(model, b, x[None]) for b, x in zip(betas, X[:5], strict=True)]),
    )


def test_recurrent_layers_are_not_stacked():
    network = Network(nn.LSTM(2, 3, batch_first=True), get_loss("squared"), torch.zeros(1))
    assert network._mapped is derivatives._looped
    enabled = torch.backends.mkldnn.enabled
    with network.differentiable():
        assert not torch.backends.mkldnn.enabled
    assert torch.backends.mkldnn.enabled == enabled
