"""``fit`` without an algorithm."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.networks.fold_run import CrossFitRun
from tests.networks.path_problems import rows, tanh_network


def test_the_path_is_that_of_the_algorithm():
    X, y = rows(50, 3)
    model = tanh_network(3, 3)
    run = dd.fit(X, y, model, loss="logistic", steps=7)
    same = dd.fit(X, y, model, dd.DecoupledGaussNewton(), 7, loss="logistic")
    assert torch.equal(run.train_error, same.train_error)
    assert run.note.startswith("Chosen: leave-one-out along the path")
    assert same.note == ""
    assert len(dd.fit(X, y, dd.Objective.of_model(model, "logistic")).train_error) <= 60


@pytest.mark.parametrize("loss", ["logistic", nn.BCEWithLogitsLoss()])
def test_folds_where_rows_are_mixed(loss):
    X, y = rows(60, 3)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
    run = dd.fit(X, y, model, loss=loss, steps=6)
    assert isinstance(run, CrossFitRun)
    assert "Chosen: stacked folds, because model Sequential" in run.note
    assert run.train_error.shape == (7,)
    assert run.train_error[-1] < run.train_error[0]
    assert run.estimate("accuracy").verdict in ("trust", "caution")
    assert run.to_module()(X).shape == (60, 1)
    groups = dd.fit(X, y, model, loss=loss, steps=1, groups=torch.arange(60) // 3)
    assert groups.estimate("accuracy").units == 20


def test_the_choice_and_the_time_are_stated_on_a_terminal(capsys):
    X, y = rows(40, 3)
    dd.fit(X, y, tanh_network(3, 2), loss="logistic", steps=2, progress=True)
    assert "few. Expected time: about 1 s." in capsys.readouterr().err
    dd.fit(X, y, tanh_network(3, 2), loss="logistic", steps=2, progress=False)
    assert capsys.readouterr().err == ""


def test_squared_is_half_of_what_pytorch_reports():
    X, y = rows(50, 3)
    run = dd.fit(X, y, tanh_network(3, 3), loss="squared", steps=8)
    reported = nn.functional.mse_loss(run.best_outputs, y)
    assert run.estimate("mse").value == pytest.approx(float(reported))
    assert run.best.train_error == pytest.approx(float(reported) / 2)


def test_what_cannot_be_chosen_or_used_is_an_error(tmp_path):
    X, y = rows(50, 3)
    with pytest.raises(ValueError, match="algorithm is missing; pass one such as"):
        dd.fit(X, y, dd.Objective(dd.heads.TwoLayer(3), "logistic"))
    with pytest.raises(ValueError, match="loss is None"):
        dd.fit(X, y, tanh_network(3, 3))
    with pytest.raises(ValueError, match="theta has no effect"):
        dd.fit(X, y, tanh_network(3, 3), loss="logistic", theta=torch.zeros(3, 3))
    noisy = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.2), nn.Linear(3, 1))
    with pytest.raises(ValueError, match="checkpoint works with leave-one-out along the path only"):
        dd.fit(X, y, noisy, loss="logistic", checkpoint=tmp_path)
