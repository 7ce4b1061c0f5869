"""What is minimised without each group, against sums over rows."""

from __future__ import annotations

import pytest
import torch

from decoupled_descent.networks.examples import Examples
from decoupled_descent.networks.path.derivatives import Network
from decoupled_descent.networks.path.problem import PathProblem
from decoupled_descent.objective.losses import get_loss
from tests.networks.path_problems import close, rows, tanh_network
from tests.oracles import path as oracle

LOSSES = {"squared": 1, "logistic": 1, "cross_entropy": 3}


@pytest.mark.parametrize("loss", LOSSES)
def test_values_and_what_is_missing_equal_those_of_a_loop(loss):
    count = LOSSES[loss]
    X, y = rows(12, 3, max(2, count))
    model, groups = tanh_network(3, 2, count), torch.arange(12) % 5
    data = Examples(X, y, torch.linspace(0.5, 2.0, 12), groups)
    network = Network(model, get_loss(loss), X)
    problem = PathProblem(network, data, data.follow(count), 0.3, 0.6, None)
    draw = torch.Generator().manual_seed(0)
    betas = network.start + 0.2 * torch.randn(5, network.size, generator=draw).double()
    p = torch.randn(network.size, generator=draw).double()
    found, outputs = problem.residual(betas, 0.9, p)
    values, shared = problem.values(outputs, betas), network.outputs(network.start, X)
    at_start = problem.values(shared, network.start)
    for i in range(5):
        keep = data.weights * (groups != i)
        gradient, matrix = oracle.system(model, loss, betas[i], X, y, keep, 0.3)
        close(found[i], gradient - matrix @ p - 0.9 * p)
        given = (X, y, keep, 0.3)
        assert float(values[i]) == pytest.approx(oracle.objective(model, loss, betas[i], *given))
        wanted = oracle.objective(model, loss, network.start, *given)
        assert float(at_start[i]) == pytest.approx(wanted)
    some = torch.tensor([4, 1])
    close(problem.residual(betas[some], 0.9, p, some)[0], found[some])
    close(problem.values(outputs[some], betas[some], some), values[some])


def test_some_groups_are_evenly_spaced():
    data = Examples(torch.zeros(30, 2), torch.zeros(30))
    network = Network(tanh_network(2, 1), get_loss("squared"), data.like)
    problem = PathProblem(network, data, data.follow(1), 1.0, 0.6, None)
    assert problem.some_groups(4).tolist() == [0, 10, 19, 29]
    assert problem.some_groups(99).tolist() == list(range(30))
