"""``GradientDescent`` is ``torch.optim.SGD`` on the whole network, update by update."""

import copy

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from tests.problems import binary, normal

UPDATES = 50
LOSSES = {
    "logistic": nn.functional.binary_cross_entropy_with_logits,
    "squared": lambda u, y: nn.functional.mse_loss(u, y) / 2,
}


def head():
    return dd.heads.Deep([4, 3], bias=True, seed=1).double()


def network(theta, head):
    first = nn.Linear(theta.shape[1], theta.shape[0], bias=False).double()
    with torch.no_grad():
        first.weight.copy_(theta)
    return nn.Sequential(first, copy.deepcopy(head))


def sgd(X, y, model, loss, groups):
    """Mean losses of the iterates, the first being the start."""
    optimiser, errors = torch.optim.SGD(groups), []
    for _ in range(UPDATES + 1):
        error = LOSSES[loss](model(X).squeeze(1), y)
        errors.append(error.item())
        optimiser.zero_grad()
        error.backward()
        if len(errors) <= UPDATES:
            optimiser.step()
    return torch.tensor(errors, dtype=torch.float64)


def assert_same(run, errors, model):
    close = {"rtol": 0, "atol": 1e-12}
    torch.testing.assert_close(run.train_error, errors, **close)
    torch.testing.assert_close(run.theta, model[0].weight.detach(), **close)
    for ours, theirs in zip(run.head.parameters(), model[1].parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, **close)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_mean_reduction_is_sgd_with_one_rate(loss, decay):
    (X, y), theta, lr = binary(30, 20), normal(4, 20), 0.3
    algorithm = dd.GradientDescent(
        lr, damping=1 - lr * decay, head_damping=1 - lr * decay, reduction="mean"
    )
    objective = dd.Objective(head(), loss)
    run = dd.fit(X, y, objective, algorithm, UPDATES + 1, theta=theta)
    model = network(theta, objective.head)
    groups = [{"params": model.parameters(), "lr": lr, "weight_decay": decay}]
    assert_same(run, sgd(X, y, model, loss, groups), model)


@pytest.mark.parametrize("loss", LOSSES)
def test_sum_reduction_is_sgd_with_a_rate_per_group(loss):
    (X, y), theta, n = binary(30, 20), normal(4, 20), 30
    algorithm = dd.GradientDescent(0.02, damping=0.99, head_lr=0.1, head_damping=0.98)
    objective = dd.Objective(head(), loss)
    run = dd.fit(X, y, objective, algorithm, UPDATES + 1, theta=theta)
    model = network(theta, objective.head)
    groups = [
        {"params": model[0].parameters(), "lr": 0.02 * n, "weight_decay": 0.01 / (0.02 * n)},
        {"params": model[1].parameters(), "lr": 0.1, "weight_decay": 0.02 / 0.1},
    ]
    assert_same(run, sgd(X, y, model, loss, groups), model)


def test_head_rate_defaults_to_the_first_layers():
    (X, y), objective = binary(), dd.Objective(head(), "logistic")
    runs = [
        dd.fit(X, y, objective, dd.GradientDescent(0.1, head_lr=rate), 5) for rate in (None, 0.1)
    ]
    assert torch.equal(runs[0].theta, runs[1].theta)
    assert runs[0].history == runs[1].history


def test_memory_free():
    (X, y), objective = binary(), dd.Objective(head(), "logistic")
    rows, algorithm = dd.Rows(X, y), dd.GradientDescent(0.1)
    state, info = algorithm.step(algorithm.init(rows, objective, seed=0), rows, objective)
    assert "memory" not in state._fields
    assert state.slots == ()
    assert info.jacobian is None
