"""Frozen layers: computed once, and part of the model that comes back."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.networks.frozen import split_frozen
from tests.networks.path_problems import rows, tanh_network


class Counted(nn.Module):
    """A frozen layer that counts the rows that went through it."""

    def __init__(self, d: int, outputs: int) -> None:
        super().__init__()
        self.layer, self.seen = nn.Linear(d, outputs).requires_grad_(False), [0]

    def __deepcopy__(self, memo):
        found = Counted(self.layer.in_features, self.layer.out_features)
        found.layer, found.seen = copy.deepcopy(self.layer, memo), self.seen
        return found

    def forward(self, x):
        self.seen[0] += len(x)
        return torch.tanh(self.layer(x))


class LowRank(nn.Module):
    """A frozen linear layer and a trainable product of two thin matrices beside it."""

    def __init__(self, layer: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(0.1 * torch.randn(rank, layer.in_features))
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        return self.layer(x) + x @ self.down.T @ self.up.T


class Whole(nn.Module):
    """The same layers in a module of one's own, which is not split."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x):
        return self.layers(x)


def network(*first: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*first, nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double()


def make(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def test_nothing_is_split_that_may_change():
    assert split_frozen(nn.Sequential(nn.Flatten(), nn.Linear(2, 1))) is None
    assert split_frozen(Whole(nn.Linear(2, 1).requires_grad_(False))) is None
    layer = nn.Linear(2, 2).requires_grad_(False)
    assert split_frozen(nn.Sequential(layer, nn.ReLU())) is None  # nothing is left to train
    noisy = nn.Sequential(nn.Dropout(0.5), layer, nn.Linear(2, 1))
    assert split_frozen(noisy) is None
    noisy[0].eval()
    assert len(split_frozen(noisy).layers) == 2
    tied = nn.Sequential(layer, nn.Linear(2, 2), layer)
    assert split_frozen(tied) is None


def test_one_sequence_within_another_is_split():
    inner = nn.Sequential(nn.Linear(2, 3).requires_grad_(False), nn.Tanh(), nn.Linear(3, 3))
    model = nn.Sequential(nn.Flatten(), inner, nn.Linear(3, 1))
    parts = split_frozen(model)
    assert [len(parts.layers), len(parts.rest)] == [3, 2]
    x = torch.randn(300, 2)
    torch.testing.assert_close(parts.rest(parts.features(x)), model(x))
    with torch.no_grad():
        parts.rest[0].weight.zero_()
    joined = parts.joined(parts.rest)
    torch.testing.assert_close(joined(x), parts.rest(parts.features(x)))
    assert joined[1][2].weight.abs().sum() == 0
    assert model[1][2].weight.abs().sum() > 0


def test_a_path_goes_through_frozen_layers_once():
    X, y = rows(30, 4)
    first = Counted(4, 4).double()
    model = network(first)
    run = dd.fit(X, y, model, dd.DecoupledGaussNewton(1.0), 5, loss="logistic", test=(X, y))
    assert first.seen[0] == 30 + 5 * 30  # once for training, and at each step for the test rows
    other = dd.fit(X, y, Whole(model), dd.DecoupledGaussNewton(1.0), 5, loss="logistic")
    torch.testing.assert_close(run.train_error, other.train_error)
    trained = run.to_module()
    torch.testing.assert_close(trained(X).squeeze(1), run.predict(X))
    assert [p.requires_grad for p in trained.parameters()] == [False] * 2 + [True] * 4
    assert run.test_error is not None


@pytest.mark.parametrize("together", [True, False])
def test_folds_go_through_frozen_layers_once(together):
    X, y = rows(30, 4)
    first = Counted(4, 4).double()
    model, loss = network(first), nn.BCEWithLogitsLoss()
    run = dd.CrossFit(model, loss, make, 3, together).fit(X, y, epochs=4)
    assert first.seen[0] == 30
    other = dd.CrossFit(Whole(model), loss, make, 3, together).fit(X, y, epochs=4)
    torch.testing.assert_close(run.train_error, other.train_error)
    torch.testing.assert_close(run.predict(X), other.predict(X))
    assert len(run.to_module(mean=True).members) == 4


def test_with_augmentation_frozen_layers_see_every_batch():
    X, y = rows(30, 4)
    first = Counted(4, 4).double()
    cross = dd.CrossFit(network(first), nn.BCEWithLogitsLoss(), make, 3)
    cross.fit(X, y, epochs=2, transform=lambda x, t: (x + 0.1 * torch.randn_like(x), t))
    assert first.seen[0] > 60


def test_low_rank_adapters_work_with_path_and_folds():
    X, y = rows(60, 4)
    base = tanh_network(4, 6)
    model = nn.Sequential(LowRank(base[0]), nn.Tanh(), LowRank(base[2])).double()
    run = dd.fit(X, y, model, dd.DecoupledGaussNewton(0.1), 12, loss="logistic")
    assert run.theta.shape == (1, 2 * (4 + 6) + 2 * (6 + 1))  # only the thin matrices are trained
    assert run.train_error.min() < run.train_error[0] - 3 * run.train_error_stderr[0]
    torch.testing.assert_close(run.to_module()[0].layer.weight, base[0].weight)
    folds = dd.CrossFit(model, nn.BCEWithLogitsLoss(), make, 5).fit(X, y, epochs=40)
    assert folds.error < run.train_error[0]
    torch.testing.assert_close(folds.to_module()[0].layer.weight, base[0].weight)


def test_images_pass_a_frozen_convolution():
    torch.manual_seed(0)
    X, y = torch.randn(40, 1, 8, 8), torch.arange(40) % 2
    X[y == 1, :, :4] += 1.0
    backbone = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    model = nn.Sequential(backbone.requires_grad_(False).eval(), nn.Linear(144, 2))
    run = dd.fit(X, y, model, loss="cross_entropy", steps=15)
    assert run.theta.shape == (1, 290)
    assert run.estimate("accuracy").value > 0.8
    assert not run.to_module(best=True)[0].training
