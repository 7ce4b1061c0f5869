"""Which layer is called last, and what it gets."""

from __future__ import annotations

import torch
from torch import nn

from decoupled_descent.networks.last_layer import last_features, weights_last_first
from tests.networks.test_known_labels import Bare, Tokens, perceptron


class Backwards(nn.Module):
    """Its layers are called in the other order than they are made."""

    def __init__(self):
        super().__init__()
        self.last, self.first, self.unused = nn.Linear(3, 1), nn.Linear(2, 3), nn.Linear(9, 9)

    def forward(self, x):
        return self.last(self.first(x))


def test_the_order_is_that_of_the_calls():
    names = lambda model, x: [name for name, _ in weights_last_first(model, x)]  # noqa: E731
    assert names(Backwards(), torch.zeros(2, 2)) == ["last.weight", "first.weight"]
    assert names(perceptron(0), torch.zeros(2, 8)) == ["2.weight", "0.weight"]
    assert names(Bare(), torch.zeros(2, 8)) == ["a", "b"]
    # a token that the whole module adds is no last layer
    wanted = ["inner.2.weight", "inner.0.weight", "token"]
    assert names(Tokens(0), torch.zeros(2, 8)) == wanted


def test_features_are_those_that_the_last_layer_gets():
    X = torch.randn(5, 2)
    model = Backwards()
    features, outputs = last_features(model, X)
    torch.testing.assert_close(features[:, :3], model.first(X).detach())
    assert torch.equal(features[:, 3], torch.ones(5))
    torch.testing.assert_close(outputs, model(X).detach())
    again = features[:, :3] @ model.last.weight.T + model.last.bias
    torch.testing.assert_close(again.detach(), outputs)
    assert last_features(Bare(), torch.zeros(5, 8))[0] is None
    tokens = nn.Sequential(nn.Linear(2, 3), nn.Flatten())  # a linear layer of each position
    assert last_features(tokens, torch.zeros(5, 4, 2))[0] is None
    assert not model.last._forward_hooks
