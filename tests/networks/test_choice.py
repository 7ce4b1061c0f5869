"""Which method when: decided by the work and the memory, the same everywhere."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import decoupled_descent as dd
from decoupled_descent.networks.choice import REFINED, STEP, choose, work_of_epoch, work_of_step
from decoupled_descent.networks.path.training import prepared
from tests.networks.path_problems import rows, tanh_network


def asked(model, n=60, d=4, loss="logistic", **options):
    X, y = rows(n, d)
    return choose(X.float(), y.float(), model.float(), loss, None, None, **options)


def test_small_networks_are_followed_along_the_path():
    found = asked(tanh_network(4, 3))
    assert isinstance(found.path, dd.DecoupledGaussNewton)
    assert re.fullmatch(
        "Chosen: leave-one-out along the path. For 60 rows and 19 parameters it takes about "
        r"[\d.]+ s on this machine, and stacked folds about [\d.]+ s.",
        found.reason,
    )


def test_what_mixes_rows_or_is_random_gets_folds():
    noisy = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.1), nn.Linear(3, 1))
    found = asked(noisy)
    assert found.path is None
    assert "draws random numbers (dropout?)" in found.reason
    mixing = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    assert "because model Sequential" in asked(mixing).reason


def test_large_networks_get_folds():
    found = asked(nn.Sequential(nn.Linear(4, 500_000), nn.Tanh(), nn.Linear(500_000, 1)), n=300)
    assert found.path is None
    assert "GB for 300 rows and 3000001 parameters" in found.reason


@pytest.mark.parametrize(("n", "followed"), [(1000, True), (20000, False)])
def test_a_path_may_take_five_times_as_long_as_folds(n, followed):
    """The work of a path grows faster than n, that of folds like n."""
    model = tanh_network(4, 30)
    found = asked(model, n=n)
    assert (found.path is not None) == followed
    X, y = rows(n, 4)
    examples, network = prepared(X.float(), y.float(), model.float(), "logistic")
    count = dd.DecoupledGaussNewton().number(n)
    ratio = (
        25 * work_of_step(network, examples, count, 1) / (100 * work_of_epoch(network, examples))
    )
    assert (ratio < 5) == followed
    assert ("more than 5 times as long" in found.reason) != followed


def test_layers_without_derivatives_of_their_own_take_longer():
    model = tanh_network(4, 3)
    X, y = rows(60, 4)
    unusual = nn.Sequential(model[0], nn.Softsign(), model[2])
    usual, other = (
        work_of_step(network, examples, 60, 1) - STEP
        for examples, network in (
            prepared(X.float(), y.float(), each.float(), "logistic") for each in (model, unusual)
        )
    )
    assert other > 2 * usual


def test_labels_may_be_all_the_same():
    model = tanh_network(4, 3).float()
    assert choose(torch.randn(50, 4), torch.ones(50), model, "squared", None, None).path


def test_wrong_labels_are_errors_and_no_reason_to_choose():
    with pytest.raises(ValueError, match="logistic"):
        choose(torch.randn(9, 4), torch.arange(9.0), tanh_network(4, 3), "logistic", None, None)


@pytest.mark.parametrize(("n", "width", "classes"), [(300, 30, 2), (150, 20, 5), (300, 60, 2)])
def test_the_forecast_counts_the_work(n, width, classes):
    """PyTorch counts the matrix products of four steps; it does not count factors and solves."""
    X, y = rows(n, 6, classes)
    model = tanh_network(6, width, 1 if classes == 2 else classes)
    loss = "logistic" if classes == 2 else "cross_entropy"
    examples, network = prepared(X.float(), y, model.float(), loss)
    forecast = 4 * (work_of_step(network, examples, n, model[2].out_features) - STEP) / REFINED
    with FlopCounterMode(display=False) as counter:
        dd.fit(X.float(), y, model, dd.DecoupledGaussNewton(1.0, followed=n), 4, loss=loss)
    assert 1 / 2 < forecast / counter.get_total_flops() < 8
