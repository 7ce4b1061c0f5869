"""Derivatives of layers that are written out, against those of ``torch.func``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from decoupled_descent.networks.path.derivatives import Network
from decoupled_descent.objective.losses import Loss, get_loss
from tests.networks.path_problems import close

CUBES = Loss("cubes", lambda outputs, y: (outputs.reshape(len(y), -1).sum(1) - y).pow(4))
IMAGES = {
    "convolutions": lambda: nn.Sequential(
        nn.Sequential(nn.Conv2d(2, 3, 3, stride=2), nn.Tanh()),
        *(nn.Conv2d(3, 4, (2, 3), stride=(1, 2), padding=(1, 0), bias=False), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(20, 3)),
    ),
    "one convolution": lambda: nn.Sequential(
        nn.Conv2d(2, 3, 9, padding=1), nn.SiLU(), nn.Flatten(), nn.Linear(9, 3)
    ),
    "perceptron": lambda: nn.Sequential(nn.Flatten(), nn.Linear(2 * 9 * 7, 3)),
}
MIDDLES = {
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "norm": lambda: nn.LayerNorm(5),
    "linear": lambda: nn.Linear(5, 5, bias=False),
}


def made(build, shape, loss, y):
    """The same network with the layers written out, and with the derivatives of torch.func."""
    torch.manual_seed(0)
    model, X = build().double(), torch.randn(7, *shape, dtype=torch.float64)
    fast = Network(model, loss, X)
    fast.measure(X)
    hidden = nn.Sequential(Hidden(model))
    slow = Network(hidden, loss, X)
    slow.measure(X)
    return fast, slow, X, y


class Hidden(nn.Module):
    """A module whose layers cannot be seen."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


def check(fast, slow, X, y):
    betas = fast.start + 0.3 * torch.randn(5, fast.size, dtype=torch.float64)
    along, weights = torch.randn(5, fast.size).double(), torch.rand(5, 7).double()
    count = fast.outputs(fast.start, X).shape[1]
    assert fast.by_layers
    assert not slow.by_layers
    for name, given in {
        "copy_outputs": (betas, X),
        "own_outputs": (betas, X[:5]),
        "own_directions": (betas, X[:5], along),
        "direction": (betas[0], X, along[0]),
    }.items():
        close(getattr(fast, name)(*given), getattr(slow, name)(*given))
    for step in (None, along[0], along):
        with slow.differentiable():
            wanted = slow.residuals(betas, X, y, weights, step)
        for found, own in zip(fast.residuals(betas, X, y, weights, step), wanted, strict=True):
            close(found, own)
    jacobians = [
        torch.cat([part for _, part in each.jacobians(betas[0], X, count)]) for each in (fast, slow)
    ]
    close(*jacobians)


@pytest.mark.parametrize("middle", MIDDLES)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_layers_of_a_perceptron(middle, loss):
    build = lambda: nn.Sequential(  # noqa: E731
        *(nn.Linear(4, 5), MIDDLES[middle](), nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 1))
    )
    check(*made(build, (4,), get_loss(loss), (torch.arange(7) % 2).double()))


@pytest.mark.parametrize("images", IMAGES)
@pytest.mark.parametrize("loss", [get_loss("cross_entropy"), CUBES], ids=["entropy", "cubes"])
def test_layers_of_images(images, loss):
    check(*made(IMAGES[images], (2, 9, 7), loss, torch.arange(7) % 3))


def test_a_norm_of_the_rows_themselves():
    build = lambda: nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2))  # noqa: E731
    check(*made(build, (4,), get_loss("squared"), torch.randn(7, 2).double()))


def frozen_in_the_middle():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
    model[0].bias.requires_grad_(False)
    return model


def used_twice():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(4, 1))


def with_a_hook():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
    model[1].register_forward_hook(lambda _module, _given, output: 2 * output)
    return model


def of_an_unusual_kind():
    return nn.Sequential(nn.Linear(4, 5), nn.Softsign(), nn.Linear(5, 1))


@pytest.mark.parametrize(
    "build", [frozen_in_the_middle, used_twice, with_a_hook, of_an_unusual_kind]
)
def test_other_networks_are_left_to_torch(build):
    fast, _, _, _ = made(build, (4,), get_loss("squared"), torch.zeros(7))
    assert not fast.by_layers


def test_a_linear_layer_of_tokens_is_left_to_torch():
    model = nn.Sequential(nn.Linear(4, 5), nn.Flatten(), nn.Linear(15, 1))
    fast, _, _, _ = made(lambda: model, (3, 4), get_loss("squared"), torch.zeros(7))
    assert not fast.by_layers
