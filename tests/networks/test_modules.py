"""Checks of modules and criteria, and fresh starts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.networks.examples import Examples
from decoupled_descent.networks.modules import as_loss, as_network, fresh_starts
from tests.networks.path_problems import rows


class Mixes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x - x.mean(0))


REFUSED = {
    "dropout": (lambda: nn.Sequential(nn.Dropout(), nn.Linear(4, 1)), "draws random.*CrossFit"),
    "batch norm": (
        lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)),
        "changes its buffers.*model.eval.*CrossFit",
    ),
    "mixed rows": (Mixes, "beside other rows.*CrossFit"),
    "other columns": (lambda: nn.Linear(5, 1), r"cannot be called with rows of shape \(4,\)"),
    "frozen": (lambda: nn.Linear(4, 1).requires_grad_(False), "requires_grad=True"),
    "lazy": (lambda: nn.LazyLinear(1), "not determined yet"),
    "sequence": (lambda: nn.Sequential(nn.Linear(4, 1), nn.Unflatten(1, (1, 1))), "must return"),
    "no module": (lambda: torch.tanh, "must be a torch.nn.Module"),
    "two outputs": (lambda: nn.Linear(4, 2), r"2 output\(s\) but y has 1 column"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    build, message = REFUSED[name]
    X, y = rows(20, 4)
    module, before = build(), torch.get_rng_state()
    with pytest.raises(ValueError, match=message):
        dd.fit(X.float(), y, module, dd.DecoupledGaussNewton(), 3, loss="logistic")
    if name == "dropout":
        assert torch.equal(before, torch.get_rng_state())


def test_criteria_give_one_value_per_row():
    draw = torch.Generator().manual_seed(0)
    outputs, labels = torch.randn(6, 3, generator=draw), torch.randn(6, 3, generator=draw)
    for criterion in (nn.MSELoss(), nn.L1Loss(), nn.SmoothL1Loss(reduction="sum")):
        found = as_loss(criterion).of(outputs, labels)
        total = found.sum() if criterion.reduction == "sum" else found.mean()
        torch.testing.assert_close(total, criterion(outputs, labels))
    assert criterion.reduction == "sum"  # the user's own is not changed
    classes = torch.arange(6) % 3
    found = as_loss(nn.CrossEntropyLoss()).of(outputs, classes)
    torch.testing.assert_close(found.mean(), nn.CrossEntropyLoss()(outputs, classes))


def test_starts_are_drawn_by_the_layers_own_rules_and_only_for_trained_layers():
    X, y = rows(20, 4)
    module = nn.Sequential(nn.Linear(4, 50), nn.Tanh(), nn.Linear(50, 1)).double()
    module[0].requires_grad_(False)
    network = as_network(module, "logistic", Examples(X, y))
    before = torch.get_rng_state()
    starts = fresh_starts(network, 3, seed=5)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(starts[0], network.start)
    for each in starts[1:]:
        assert each.shape == (51,)
        assert 0.5 / 50**0.5 < float(each.abs().max()) <= 1 / 50**0.5  # uniform to 1/√inputs
    assert not torch.equal(starts[1], starts[2])
    assert torch.equal(fresh_starts(network, 3, seed=5)[2], starts[2])


def test_a_layer_that_cannot_be_drawn_again_allows_one_start():
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return (x * self.factor).sum(1)

    X, y = rows(20, 4)
    with pytest.raises(ValueError, match="'factor' belongs to one that cannot; use starts=1"):
        dd.fit(X, y, Scale(), dd.DecoupledGaussNewton(starts=2), 3, loss="logistic")
    assert len(dd.fit(X, y, Scale(), dd.DecoupledGaussNewton(), 3, loss="logistic").theta) == 1
