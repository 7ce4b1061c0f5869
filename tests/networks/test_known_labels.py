"""Whether a start knows the labels of the rows: levels, power, and what is not a new layer."""

from __future__ import annotations

import itertools
import warnings

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import decoupled_descent as dd
from decoupled_descent.networks.known_labels import ORDERS, label_level


def losses(outputs, y):
    return cross_entropy(outputs, y, reduction="none")


def problem(seed, n=150, related=False):
    draw = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 8, generator=draw)
    y = X[:, 0] > 0 if related else torch.rand(n, generator=draw) > 0.5
    return X, y.long()


def perceptron(seed, width=16):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 2))


def trained(model, X, y, steps=150):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        losses(model(X), y).mean().backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("width", [4, 64])
def test_new_layers_pass_although_labels_depend_on_rows(width):
    """The level is 1/1001 for each of 200 starts: two alarms would have a chance of 2 %."""
    levels = []
    for seed in range(200):
        X, y = problem(seed, related=True)
        levels.append(label_level(perceptron(seed, width), losses, X, y))
    levels = torch.tensor(levels)
    assert int((levels < 0.001).sum()) < 2
    for level in (0.01, 0.05, 0.2):  # p is at most so often so small: three standard errors
        assert float((levels <= level).double().mean()) < level + 3 * (level / 200) ** 0.5


def test_every_order_of_the_weights_is_counted_alike():
    """With three weights all six orders can be looked at; p is about the share of those as good."""
    torch.manual_seed(0)
    model, X = nn.Linear(3, 1, bias=False), torch.randn(30, 3)
    y = X @ torch.tensor([1.0, 2.0, 3.0])
    squares = lambda outputs, y: (outputs.squeeze(1) - y).square()  # noqa: E731
    weights = model.weight.detach()[0]
    errors = [
        float((X @ weights[list(order)] - y).square().mean())
        for order in itertools.permutations(range(3))
    ]
    better = sum(error <= errors[0] for error in errors)
    level = label_level(model, squares, X, y)
    assert better >= 1  # the order itself
    assert level > 1 / (1 + ORDERS)


WARM = {
    "perceptron": lambda seed: perceptron(seed),
    "linear": lambda _: nn.Linear(8, 2),
    "no module for the weights": lambda _: Bare(),
    "tokens of its own": lambda seed: Tokens(seed),
}


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(16, 8) / 3)
        self.b = nn.Parameter(torch.randn(2, 16) / 4)

    def forward(self, x):
        return torch.tanh(x @ self.a.T) @ self.b.T


class Tokens(nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.inner, self.token = perceptron(seed), nn.Parameter(torch.randn(1, 8))

    def forward(self, x):
        return self.inner(x + self.token)


@pytest.mark.parametrize("name", WARM)
def test_training_on_the_same_rows_is_noticed(name):
    for seed in range(3):
        X, y = problem(seed)
        torch.manual_seed(seed)
        model = WARM[name](seed)
        assert label_level(model, losses, X, y) >= 0.001
        before = {k: v.clone() for k, v in trained(model, X, y).state_dict().items()}
        assert label_level(model, losses, X, y) < 0.001
        assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_a_new_head_behind_a_pretrained_backbone_passes():
    """The backbone has learned the same task from other rows."""
    alarms = 0
    for seed in range(20):
        X, y = problem(seed, 400, related=True)
        backbone = trained(perceptron(seed), X[200:], y[200:])[:2].requires_grad_(False)
        torch.manual_seed(seed)
        model = nn.Sequential(*backbone, nn.Linear(16, 2))
        alarms += label_level(model, losses, X[:200], y[:200]) < 0.001
    assert alarms == 0
    X, y = problem(0)
    zero = nn.Linear(8, 2)
    for parameter in zero.parameters():
        nn.init.zeros_(parameter)
    assert label_level(zero, losses, X, y) == 1  # all orders are the same


# What users read


def by_path(model, X, y, **options):
    return dd.fit(X, y, model, loss="cross_entropy", **options)


def by_folds(model, X, y, **options):
    cross = dd.CrossFit(
        model, nn.CrossEntropyLoss(), lambda p: torch.optim.AdamW(p, 1e-3), 5, **options
    )
    return cross.fit(X, y, epochs=5)


def by_chosen_folds(model, X, y, **options):
    model = nn.Sequential(*model[:2], nn.Dropout(0.1), model[2])
    return dd.fit(X, y, model, loss=nn.CrossEntropyLoss(), steps=5, **options)


@pytest.mark.parametrize("train", [by_path, by_folds, by_chosen_folds])
def test_random_labels_that_the_start_has_seen_are_never_trusted(train):
    X, y = problem(0)
    model = trained(perceptron(0, 64), X, y)
    run = train(model, X, y)
    accuracy = run.estimate("accuracy")
    assert accuracy.value > 0.95  # the start knows them by heart
    assert accuracy.verdict == "do not trust"
    reason = " ".join(accuracy.reasons)
    assert "already predict these labels" in reason
    assert "reset_parameters" in reason
    assert "independent_start=True" in reason
    assert dd.diagnose(X, y, run).verdict == "do not trust"
    run = train(model, X, y, independent_start=True)
    assert run.notes["independent_start"] == 1
    assert "already predict" not in " ".join(run.evaluation.reasons)


@pytest.mark.parametrize("train", [by_path, by_folds])
def test_random_starts_are_trusted(train):
    for seed in range(3):
        X, y = problem(seed, related=True)
        run = train(perceptron(seed), X, y)
        assert run.notes["start_level"] >= 0.001
        assert not any("already predict" in one for one in run.evaluation.reasons)


@pytest.mark.parametrize("rate", [1e8, 1e-9])
def test_a_run_whose_best_step_is_its_start_is_not_trusted(rate):
    """A training that diverges at once, and one that does not move."""
    X, y = problem(1)
    cross = dd.CrossFit(perceptron(1), nn.CrossEntropyLoss(), lambda p: torch.optim.SGD(p, rate), 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dd.DivergenceWarning)
        run = cross.fit(X, y.flip(0), epochs=3)
    assert run.best_step == 0
    assert run.estimate("accuracy").verdict != "trust"
    assert "start" in " ".join(run.evaluation.reasons)
