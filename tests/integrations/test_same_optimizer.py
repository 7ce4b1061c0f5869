"""Optimisers that are made again, and follow."""

import pytest
import torch
from torch import nn

from decoupled_descent.integrations.same_optimizer import follow, same_optimizer, unwrapped

KINDS = [
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (torch.optim.AdamW, {"lr": 0.01, "betas": (0.8, 0.9), "weight_decay": 0.3}),
    (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    (torch.optim.RMSprop, {"lr": 0.01, "centered": True}),
    (torch.optim.Adafactor, {"lr": 0.01}),
]


def steps(model, optimizer, x):
    for k in range(4):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        if k == 2:
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=lambda k: getattr(k, "__name__", ""))
def test_it_makes_the_same_steps(kind, options):
    torch.manual_seed(0)
    x, model = torch.randn(8, 3), nn.Linear(3, 2)
    other = nn.Linear(3, 2)
    other.load_state_dict(model.state_dict())
    groups = [{"params": [model.bias], "lr": 0.05}, {"params": [model.weight]}]
    optimizer = kind(groups, **options)
    again = same_optimizer(optimizer, model)(list(other.parameters()))
    assert type(again) is kind
    assert torch.equal(steps(model, optimizer, x), steps(other, again, x))


def test_it_follows_the_learning_rate():
    model, other = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))
    again = same_optimizer(optimizer, model)(list(other.parameters()))
    optimizer.param_groups[0]["lr"].fill_(0.7)
    assert float(again.param_groups[0]["lr"]) == pytest.approx(0.1)  # not the same tensor
    follow(optimizer, [again])
    assert float(again.param_groups[0]["lr"]) == pytest.approx(0.7)
    assert again.param_groups[0]["params"][0] is other.weight


def test_frozen_parameters_do_not_count():
    model = nn.Sequential(nn.Linear(3, 3).requires_grad_(False), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    assert len(same_optimizer(optimizer, model)(list(model[1].parameters())).param_groups) == 1


def test_refusals():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"does not have 0\.weight"):
        same_optimizer(optimizer, model)
    with pytest.raises(ValueError, match="has 4 parameters and the model 2"):
        same_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model[0])
    with pytest.raises(ValueError, match=r"must be a torch\.optim\.Optimizer"):
        unwrapped(model)


def test_what_other_libraries_put_around_it():
    class Around:
        def __init__(self, optimizer):
            self.optimizer = optimizer

    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
    assert unwrapped(Around(Around(optimizer))) is optimizer
