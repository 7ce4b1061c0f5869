"""Runs of whole networks: metrics of left-out outputs, and verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from tests.networks.path_problems import rows, tanh_network


def test_metrics_are_those_of_the_left_out_outputs():
    X, y = rows(80, 3)
    algorithm = dd.DecoupledGaussNewton(ridge=1.0, followed=50)
    run = dd.fit(X, y, tanh_network(3, 3), algorithm, 8, loss=nn.BCEWithLogitsLoss())
    assert run.estimate("log_loss").value == pytest.approx(run.best.train_error)
    right = (run.best_outputs > 0) == (y > 0.5)
    found = run.estimate("accuracy")
    assert found.value == pytest.approx(float(right.double().mean()))
    assert (found.verdict, found.units) == ("trust", 80)
    assert str(found).endswith("(trust)")


def test_metrics_of_groups_weights_and_numbers():
    X, y = rows(60, 3)
    groups, weights = torch.arange(60) // 2, torch.linspace(1, 2, 60)
    options = {"loss": nn.MSELoss(), "groups": groups, "weights": weights}
    run = dd.fit(X, y, tanh_network(3, 3), dd.DecoupledGaussNewton(1.0), 6, **options)
    mse, rmse = run.estimate("mse"), run.estimate("rmse")
    assert mse.value == pytest.approx(run.best.train_error)
    assert rmse.value == pytest.approx(mse.value**0.5)
    assert mse.units == 30
    assert mse.verdict == "caution"  # 30 groups are few
    half = dd.fit(X, y, tanh_network(3, 3), dd.DecoupledGaussNewton(1.0), 6, loss="squared")
    losses = half.evaluation.losses
    wider = (losses.var(ddof=1) / len(losses) + half.best.info.pairs) ** 0.5
    assert half.evaluation.stderr >= wider * (1 - 1e-6)  # pairs, and losses that have not occurred
    assert half.best.info.pairs > 0
    assert half.estimate("mse").value == pytest.approx(2 * half.best.train_error)


def test_an_estimate_whose_runs_cannot_be_followed_is_not_trusted():
    X, y = rows(40, 3)
    algorithm = dd.DecoupledGaussNewton(1e-6, rate=1.0, damping=1e-6)
    run = dd.fit(X, y, tanh_network(3, 8), algorithm, 12, loss="logistic")
    last = replace(run, best=run.last).evaluation  # the best step can be trusted
    assert last.verdict == "do not trust"
    assert any("CrossFit" in reason for reason in last.reasons)
