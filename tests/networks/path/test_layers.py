"""Derivatives of single layers that are written out, against those of ``torch.func``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from decoupled_descent.objective.losses import get_loss
from tests.networks.path_problems import compare_products, two_networks

MIDDLES = {
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "norm": lambda: nn.LayerNorm(5),
    "linear": lambda: nn.Linear(5, 5, bias=False),
}


@pytest.mark.parametrize("middle", MIDDLES)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_layers_of_a_perceptron(middle, loss):
    build = lambda: nn.Sequential(  # noqa: E731
        *(nn.Linear(4, 5), MIDDLES[middle](), nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 1))
    )
    compare_products(*two_networks(build, (4,), get_loss(loss), (torch.arange(7) % 2).double()))


def test_a_norm_of_the_rows_themselves():
    build = lambda: nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2))  # noqa: E731
    compare_products(*two_networks(build, (4,), get_loss("squared"), torch.randn(7, 2).double()))
