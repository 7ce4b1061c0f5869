"""Heads compute what their formulas say, start from the paper's laws, and refuse nonsense."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

from decoupled_descent.objective import heads
from tests.problems import normal

H = normal(7, 4, seed=0)


def test_linear_and_generalised_linear():
    h = H[:, :1]
    assert torch.equal(heads.Linear()(h), h)
    torch.testing.assert_close(heads.GeneralisedLinear()(h), 1 / (1 + torch.exp(-h)))
    torch.testing.assert_close(heads.GeneralisedLinear(torch.sin)(h), h.sin())
    assert not list(heads.Linear().parameters())


def test_two_layer():
    head = heads.TwoLayer(4, bias=True, link="sigmoid", seed=0).double()
    weight, bias = head[1].weight, head[1].bias
    expected = torch.sigmoid((torch.tanh(H) * weight).sum(1, keepdim=True) + bias)
    torch.testing.assert_close(head(H), expected)


def test_deep():
    head = heads.Deep([4, 3, 2], activation=torch.sin, outputs=5, seed=0).double()
    first, second, last = (layer.weight for layer in head if isinstance(layer, nn.Linear))
    expected = ((H.sin() @ first.T).sin() @ second.T).sin() @ last.T
    torch.testing.assert_close(head(H), expected)
    assert head.width == 4


def test_product():
    torch.testing.assert_close(heads.Product(a=-2.0)(H[:, :2]), -2 * H[:, 0] * H[:, 1])


def test_default_weights_follow_torchs_law():
    weight = heads.TwoLayer(400, outputs=250, seed=0)[1].weight.detach().double()
    bound = 400**-0.5
    assert weight.abs().max() <= bound
    count, variance = weight.numel(), bound**2 / 3
    assert abs(weight.mean()) < 4 * math.sqrt(variance / count)
    # the variance of a square, for the uniform law, is 4/5 of the squared variance
    assert abs(weight.square().mean() / variance - 1) < 4 * math.sqrt(0.8 / count)


def test_product_starts_from_the_standard_normal_law():
    draws = torch.stack([heads.Product(seed=s).a.detach() for s in range(400)]).double()
    assert abs(draws.mean()) < 4 / 20
    assert abs(draws.square().mean() - 1) < 4 * math.sqrt(2) / 20


@pytest.mark.parametrize("make", [heads.Product, lambda seed: heads.Deep([3, 2], seed=seed)])
def test_seed_decides_and_leaves_the_global_generator_alone(make):
    before = torch.get_rng_state()
    once, again, other = (parameters_to_vector(make(seed=s).parameters()) for s in (3, 3, 4))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", heads.ACTIVATIONS)
def test_every_named_activation_works(name):
    assert heads.TwoLayer(4, name).double()(H).shape == (7, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: heads.TwoLayer(3, "swish"), "activation='swish' is unknown; use one of identity"),
        (lambda: heads.TwoLayer(0), "widths=0 must be a whole number of at least 1"),
        (lambda: heads.TwoLayer(2.0), "widths=2.0 must be"),
        (lambda: heads.TwoLayer(2, outputs=-1), "outputs=-1 must be"),
        (lambda: heads.Deep([]), "widths is empty; give at least L"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_widths_may_come_from_numpy():
    assert heads.TwoLayer(np.int64(3)).width == 3


def test_intercepts_and_hidden_biases_are_shifts():
    head = heads.Linear(4, intercept=True).double()
    assert head.width == 4
    torch.testing.assert_close(head(H), H)  # they start at zero
    with torch.no_grad():
        head[0].bias.copy_(torch.arange(4.0))
    torch.testing.assert_close(head(H), H + torch.arange(4.0).double())
    network = heads.TwoLayer(4, bias=True, hidden_bias=True, seed=0).double()
    with torch.no_grad():
        network[0].bias.copy_(torch.arange(4.0))
    c, w, b = network.parameters()
    torch.testing.assert_close(network(H), torch.tanh(H + c) @ w.T + b)
    assert len(list(heads.TwoLayer(4, bias=True).parameters())) == 2


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "2"])
def test_linear_refuses_widths_that_are_none(bad):
    with pytest.raises(ValueError, match="outputs="):
        heads.Linear(bad)
    with pytest.raises(ValueError, match="="):
        heads.Shift(bad)
