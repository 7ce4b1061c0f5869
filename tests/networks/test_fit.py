"""``fit`` without an algorithm."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.descent import ScalingWarning
from decoupled_descent.descent.info import DivergenceWarning
from decoupled_descent.networks.folds.run import CrossFitRun
from decoupled_descent.training.callbacks import StopReason
from tests.networks.path_problems import rows, tanh_network


def test_the_path_is_that_of_the_algorithm():
    X, y = rows(50, 3)
    model = tanh_network(3, 3)
    run = dd.fit(X, y, model, loss="logistic", steps=7)
    same = dd.fit(X, y, model, dd.DecoupledGaussNewton(), 7, loss="logistic")
    assert torch.equal(run.train_error, same.train_error)
    assert run.note.startswith("Chosen: leave-one-out along the path")
    assert same.note == ""
    whole = dd.fit(X, y, dd.Objective.of_model(model, "logistic"))
    assert len(whole.train_error) == min(60, whole.best_step + 7)  # ended by early stopping


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
    assert run.to_module(best=True)(X).shape == (60, 1)
    assert run.predict(X, best=True).shape == (60,)
    groups = dd.fit(X, y, model, loss=loss, steps=1, groups=torch.arange(60) // 3)
    assert groups.estimate("accuracy").units == 20


def test_the_choice_and_the_time_are_stated_on_a_terminal(capsys):
    X, y = rows(40, 3)
    dd.fit(X, y, tanh_network(3, 2), loss="logistic", steps=2, progress=True)
    assert " s on this machine, and stacked folds" in capsys.readouterr().err
    dd.fit(X, y, tanh_network(3, 2), loss="logistic", steps=2, progress=False)
    assert capsys.readouterr().err == ""


def test_squared_is_half_of_what_pytorch_reports():
    X, y = rows(50, 3)
    run = dd.fit(X, y, tanh_network(3, 3), loss="squared", steps=8)
    reported = nn.functional.mse_loss(run.best_outputs, y)
    assert run.estimate("mse").value == pytest.approx(float(reported))
    assert run.best.train_error == pytest.approx(float(reported) / 2)


def test_what_cannot_be_chosen_or_used_is_an_error():
    X, y = rows(50, 3)
    with pytest.raises(ValueError, match="algorithm is missing; pass one such as"):
        dd.fit(X, y, dd.Objective(dd.heads.TwoLayer(3), "logistic"))
    with pytest.raises(ValueError, match="loss is None"):
        dd.fit(X, y, tanh_network(3, 3))
    with pytest.raises(ValueError, match="loss is None; a module needs one"):
        dd.fit(X, y, tanh_network(3, 3), dd.DecoupledDescent(0.1))
    with pytest.raises(ValueError, match="theta has no effect"):
        dd.fit(X, y, tanh_network(3, 3), loss="logistic", theta=torch.zeros(3, 3))
    noisy = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.2), nn.Linear(3, 1))
    state = dd.fit(X, y, tanh_network(3, 3), loss="logistic", steps=2).state
    with pytest.raises(ValueError, match="state works with leave-one-out along the path only"):
        dd.fit(X, y, noisy, loss="logistic", state=state)
    with pytest.raises(ValueError, match="patience works without an algorithm"):
        dd.fit(X, y, tanh_network(3, 3), dd.DecoupledGaussNewton(), loss="logistic", patience=3)
    with pytest.raises(ValueError, match="patience=0"):
        dd.fit(X, y, noisy, loss="logistic", patience=0)


# Modules with the algorithms of the paper: what works, and what is refused in words


def test_modules_where_an_objective_is_needed():
    X, y = rows(50, 3)
    with pytest.raises(ValueError, match=r"the module Sequential; pass Objective.of_model"):
        dd.sweep(X, y, tanh_network(3, 3), [dd.DecoupledDescent(0.1)])


def test_a_convolution_with_decoupled_descent_names_the_way_that_works():
    X, y = torch.randn(20, 1, 6, 6), torch.arange(20) % 2
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 2))
    with pytest.raises(ValueError, match=r"fit\(X, y, model, loss=…\) without an algorithm"):
        dd.fit(X, y, model, dd.DecoupledDescent(0.1), loss="cross_entropy")
    assert dd.fit(X, y, model, loss="cross_entropy", steps=2).train_error.shape == (2,)


@pytest.mark.parametrize("kind", [dd.DecoupledDescent, dd.GradientDescent])
def test_modules_have_the_mean_over_rows(kind):
    X, y = rows(50, 3)
    X = X / 3**0.5
    model = tanh_network(3, 3)
    run = dd.fit(X, y, model, kind(0.5), 5, loss="logistic")
    mean, total = (
        dd.fit(X, y, model, kind(0.5, reduction=each), 5, loss="logistic")
        for each in ("mean", "sum")
    )
    assert torch.equal(run.theta, mean.theta)
    assert not torch.equal(run.theta, total.theta)
    objective = dd.Objective.of_model(model, "logistic")  # the theory has the same default
    assert torch.equal(dd.fit(X, y, objective, kind(0.5), 5).theta, total.theta)
    run = dd.fit(X, y, model, dd.GradientDescent(0.5), 2, loss="logistic")
    copy = tanh_network(3, 3)
    nn.functional.binary_cross_entropy_with_logits(copy(X).squeeze(1), y).backward()
    torch.testing.assert_close(run.theta, (copy[0].weight - 0.5 * copy[0].weight.grad).detach())


@pytest.mark.parametrize("lr", [50.0, 500.0])
def test_a_rate_that_is_far_too_large_is_noticed(lr):
    X, y = rows(200, 3)
    algorithm = dd.DecoupledDescent(lr, noise=dd.noise.White(1.0))
    with pytest.warns(dd.DivergenceWarning, match="learning rate is too large"):
        dd.fit(X, y, tanh_network(3, 8), algorithm, 30, loss="logistic")


def test_noise_of_another_variance_than_that_of_the_rows_is_noticed():
    X, y = rows(50, 9)
    algorithm = dd.DecoupledDescent(0.1, noise=dd.noise.White(1.0))
    with pytest.warns(ScalingWarning, match=r"in 9 columns has norm 3: pass White\(0.1"):
        dd.fit(X / 3, y, tanh_network(9, 3), algorithm, 3, loss="logistic")
    dd.fit(X, y, tanh_network(9, 3), algorithm, 3, loss="logistic")  # no warning


def test_a_function_that_averages_is_the_criterion():
    X, y = rows(50, 3, 3)
    model = tanh_network(3, 3, 3)
    losses = (nn.CrossEntropyLoss(), nn.functional.cross_entropy)
    one, other = (dd.fit(X, y, model, loss=loss, steps=4) for loss in losses)
    torch.testing.assert_close(one.train_error, other.train_error)
    assert one.estimate("accuracy").value == other.estimate("accuracy").value


class Bounded(nn.Module):
    """A network whose outputs are not a number once they are large."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x):
        outputs = self.layers(x)
        return torch.where(outputs.abs() > 1.5, torch.sqrt(1.5 - outputs.abs()), outputs)


def fit_by_path(X, y, model):
    return dd.fit(X, y, model, loss="cross_entropy")


def fit_by_folds(X, y, model):
    criterion = nn.CrossEntropyLoss()
    return dd.CrossFit(model, criterion, lambda p: torch.optim.AdamW(p, lr=0.05)).fit(X, y, 30)


@pytest.mark.parametrize("train", [fit_by_path, fit_by_folds])
def test_the_last_finite_step_is_kept(train):
    torch.manual_seed(0)
    X, model = torch.randn(80, 5), Bounded()
    y = (X[:, 0] > 0).long()
    with pytest.warns(DivergenceWarning):
        run = train(X, y, model)
    assert run.stop_reason == StopReason.DIVERGED
    assert run.evaluation.verdict == "caution"
    assert torch.isfinite(run.to_module()(X)).all()
    assert "nan" not in run.note
    assert float(run.evaluation.error) < 0.69
