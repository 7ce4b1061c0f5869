"""Whole models split after their first layer, trained, and put together again."""

import copy

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.objective.models import split
from tests.problems import binary


class Own(nn.Module):
    """A network as one writes it, with a reshaping of its own."""

    def __init__(self, d=16):
        super().__init__()
        self.first, self.second = nn.Linear(d, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x.view(len(x), -1))))


MODELS = {
    "sequential": lambda: nn.Sequential(nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 1)),
    "flattened": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 1)),
    "no bias": lambda: nn.Sequential(nn.Linear(16, 4, bias=False), nn.Tanh(), nn.Linear(4, 1)),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Linear(16, 4), nn.Tanh()), nn.Linear(4, 1)),
    "own": Own,
    "one layer": lambda: nn.Linear(16, 1),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


@every_model
def test_training_is_that_of_pytorch(make):
    """Gradient descent from the model's own weights, biases included, and the model untouched."""
    (X, y), model = binary(), make().double()
    before = copy.deepcopy(model.state_dict())
    objective = dd.Objective.of_model(model, "logistic")
    rule = dd.rules.SGD(0.5, momentum=0.9)
    algorithm = dd.GradientDescent(
        0.5, reduction="mean", rule=rule, head_optimizer=lambda p: torch.optim.SGD(p, 0.5, 0.9)
    )
    run = dd.fit(X, y, objective, algorithm, 21)
    trained = run.to_module()
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    optimiser = torch.optim.SGD(model.parameters(), 0.5, 0.9)
    for _ in range(20):
        optimiser.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model(X).squeeze(1), y).backward()
        optimiser.step()
    assert type(trained) is type(model)
    torch.testing.assert_close(trained.state_dict(), model.state_dict(), rtol=0, atol=1e-12)
    torch.testing.assert_close(run.predict(X), model(X).squeeze(1).detach(), rtol=0, atol=1e-12)


@every_model
def test_the_rest_is_a_head_from_theta(make):
    (X, y), model = binary(), make().double()
    objective, algorithm = dd.Objective.of_model(model, "logistic"), dd.DecoupledDescent(0.1)
    run = dd.fit(X, y, objective, algorithm, 10)
    assert run.bound.curvature == ("autodiff" if make is Own else "structured")
    assert torch.equal(objective.theta, split(model).theta)
    same = dd.fit(X, y, dd.Objective(objective.head, "logistic", width=objective.width), algorithm,
                  10, theta=objective.theta)  # fmt: skip
    assert torch.equal(run.theta, same.theta)
    best = run.to_module(best=True)
    with torch.no_grad():
        assert torch.allclose(best(X).squeeze(1), run.predict(X, best=True))


def test_a_head_alone_becomes_a_module_too():
    (X, y), head = binary(), dd.heads.TwoLayer(3, seed=0)
    run = dd.fit(X, y, dd.Objective(head, "logistic"), dd.DecoupledDescent(0.1), 5)
    module = run.to_module()
    torch.testing.assert_close(module(X).squeeze(1).detach(), run.predict(X))
    assert module[0].bias is None
    assert module[0].weight.dtype == torch.float64


def test_frozen_parts_stay():
    (X, y), model = binary(), MODELS["sequential"]().double()
    model[0].bias.requires_grad_(False)
    run = dd.fit(X, y, dd.Objective.of_model(model, "logistic"), dd.DecoupledDescent(0.5), 5)
    trained = run.to_module()
    assert torch.equal(trained[0].bias, model[0].bias)
    assert not torch.equal(trained[2].bias, model[2].bias)


class Skipping(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, x):
        return self.second(x + torch.tanh(self.first(x)))


class Centring(Own):
    def forward(self, x):
        return super().forward(x - 0.5)


class Swapped(nn.Module):
    """The layer named first is not the one that comes first."""

    def __init__(self):
        super().__init__()
        self.last, self.first = nn.Linear(4, 1), nn.Linear(16, 4)

    def forward(self, x):
        return self.last(self.first(x))


def tied():
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Linear(16, 1))
    model[2].weight = model[0].weight
    return model


def frozen():
    model = MODELS["sequential"]()
    model[0].weight.requires_grad_(False)
    return model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: "model", "must be a torch.nn.Module"),
        (lambda: nn.Sequential(nn.Conv1d(1, 2, 3)), "must start with nn.Linear"),
        (Skipping, "does more to its inputs than layer 'first'"),
        (Centring, "does more to its inputs than layer 'first'"),
        (Swapped, "cannot be called with rows of its 4 inputs"),
        (tied, r"0\.weight is shared with 2\.weight"),
        (frozen, r"0\.weight is frozen"),
    ],
)
def test_models_that_cannot_be_split(make, message):
    X, y = torch.zeros(5, 16), torch.ones(5)
    with pytest.raises(ValueError, match=message):
        dd.fit(X, y, dd.Objective.of_model(make(), "logistic"), dd.DecoupledDescent(0.1), 2)
