"""Derivatives of sequences of layers that are written out, against those of ``torch.func``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from decoupled_descent.objective.losses import Loss, get_loss
from tests.networks.path_problems import compare_products, two_networks

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


@pytest.mark.parametrize("images", IMAGES)
@pytest.mark.parametrize("loss", [get_loss("cross_entropy"), CUBES], ids=["entropy", "cubes"])
def test_layers_of_images(images, loss):
    compare_products(*two_networks(IMAGES[images], (2, 9, 7), loss, torch.arange(7) % 3))


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
    fast, _, _, _ = two_networks(build, (4,), get_loss("squared"), torch.zeros(7))
    assert not fast.by_layers


def test_a_linear_layer_of_tokens_is_left_to_torch():
    model = nn.Sequential(nn.Linear(4, 5), nn.Flatten(), nn.Linear(15, 1))
    fast, _, _, _ = two_networks(lambda: model, (3, 4), get_loss("squared"), torch.zeros(7))
    assert not fast.by_layers
