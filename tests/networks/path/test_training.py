"""``fit`` for whole modules: layers, losses, starts, files, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.networks.path.run import NetworkRun
from decoupled_descent.training import StopReason
from tests.networks.path_problems import close, recorded, rows, tanh_network
from tests.oracles import path as oracle


class LastOfSequence(nn.Module):
    """The last state of a recurrent layer, and a linear layer after it."""

    def __init__(self, layer: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layer, self.last = layer(2, 3, batch_first=True), nn.Linear(3, 1)

    def forward(self, x):
        return self.last(self.layer(x)[0][:, -1])


class Attention(nn.Module):
    """Tokens, one layer of a transformer, and the mean over positions."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(9, 4)
        self.layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.layer(self.tokens(x)).mean(1))


class Tied(nn.Module):
    """An autoencoder whose two layers share their weights, read at its first output."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))
        self.same = self.weight

    def forward(self, x):
        return (torch.tanh(x @ self.weight.T) @ self.same)[:, 0]


def images(n, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(n, 1, 6, 6, generator=draw, dtype=torch.float64)


def sequences(n):
    draw = torch.Generator().manual_seed(0)
    return torch.randn(n, 5, 2, generator=draw, dtype=torch.float64)


MODULES = {
    "convolution": lambda: (
        nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 1)
        ),
        images(14),
    ),
    "layer norm": lambda: (
        nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 1)),
        rows(14, 4)[0],
    ),
    "batch norm in evaluation": lambda: (
        nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.SiLU(), nn.Linear(5, 1)).eval(),
        rows(14, 4)[0],
    ),
    "rnn": lambda: (LastOfSequence(nn.RNN), sequences(10)),
    "gru": lambda: (LastOfSequence(nn.GRU), sequences(10)),
    "lstm": lambda: (LastOfSequence(nn.LSTM), sequences(10)),
    "tied": lambda: (Tied(), rows(14, 4)[0]),
}


@pytest.mark.parametrize("name", MODULES)
def test_any_layer_equals_a_loop_over_rows(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, X = MODULES[name]()
    module = module.double()
    y = (X.flatten(1).sum(1) > 0).double()
    options = {"ridge": 0.5, "rate": 0.6, "damping": 2.0}
    algorithm = dd.DecoupledGaussNewton(**options, stratified=False)
    run, seen = recorded(X, y, module, algorithm, 3, loss="logistic", test=(X, y))
    alone, ones = torch.arange(len(X)), torch.ones(len(X)).double()
    wanted = oracle.path(module, "logistic", X, y, ones, alone, steps=3, **options)
    close(seen[2], wanted[2], 1e-9)
    trained = run.to_module(best=False)
    close(trained(X).reshape(-1).detach(), run.predict(X, best=False))
    test = nn.functional.binary_cross_entropy_with_logits(run.predict(X, best=False), y)
    close(run.test_error[2], test)


def test_tokens_and_attention():
    draw = torch.Generator().manual_seed(0)
    X = torch.randint(0, 9, (8, 4), generator=draw)
    y = X[:, 0] % 3
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = Attention().double()
    options = {"ridge": 0.5, "rate": 0.6, "damping": 2.0}
    algorithm = dd.DecoupledGaussNewton(**options, stratified=False)
    run, seen = recorded(X, y, module, algorithm, 2, loss=nn.CrossEntropyLoss())
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        wanted = _attention_path(module, X, y, options)
    close(seen[1], wanted, 1e-9)
    assert run.theta.dtype == torch.float64
    assert run.predict(X).shape == (8, 3)


def _attention_path(module, X, y, options):
    """The oracle's ``torch.eye(…).to(X)`` takes the dtype of X, which has whole numbers here."""

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rest = module

        def forward(self, x):
            return self.rest(x.long())

    alone, ones = torch.arange(8), torch.ones(8).double()
    data = (X.double(), y, ones, alone)
    return oracle.path(Tokens(), "cross_entropy", *data, steps=2, **options)[1]


def test_frozen_parameters_and_buffers_stay():
    X, y = rows(20, 4)
    module = tanh_network(4, 3)
    module[0].requires_grad_(False)
    algorithm = dd.DecoupledGaussNewton()
    run, _ = recorded(X, y, module, algorithm, 5, loss="logistic")
    trained = run.to_module()
    assert run.theta.shape == (1, 4)
    assert torch.equal(trained[0].weight, module[0].weight)
    assert not torch.equal(trained[2].weight, module[2].weight)
    assert not trained[0].weight.requires_grad
    assert trained[2].weight.requires_grad
    features = torch.tanh(X @ module[0].weight.T + module[0].bias).detach()
    alone = nn.Linear(3, 1).double()
    alone.load_state_dict(module[2].state_dict())
    head, _ = recorded(features, y, alone, algorithm, 5, loss="logistic")
    close(run.train_error, head.train_error)


def test_losses_by_name_by_function_and_by_criterion_are_the_same():
    X, y = rows(20, 4)
    algorithm, module = dd.DecoupledGaussNewton(), tanh_network(4, 3)

    def own(outputs, labels):
        return nn.functional.softplus(outputs) - labels * outputs

    runs = [
        dd.fit(X, y, module, algorithm, 5, loss=loss)
        for loss in ("logistic", nn.BCEWithLogitsLoss(), own, nn.BCEWithLogitsLoss(reduction="sum"))
    ]
    for each in runs[1:]:
        close(each.train_error, runs[0].train_error, 1e-8)
    described = dd.fit(X, y, dd.Objective.of_model(module, "logistic"), algorithm, 5)
    close(described.train_error, runs[0].train_error)


@pytest.mark.parametrize("loss", ["absolute", nn.HuberLoss(delta=0.1)], ids=["absolute", "huber"])
def test_losses_with_kinks_are_minimised(loss):
    X, _ = rows(40, 3)
    y = X[:, 0] + 0.2 * X[:, 1]
    run = dd.fit(X, y, tanh_network(3, 6), dd.DecoupledGaussNewton(ridge=0.05), 30, loss=loss)
    assert float(run.train_error.min()) < 0.5 * float(run.train_error[0])


def test_single_precision_follows_double_precision():
    X, y = rows(40, 5)
    model, algorithm = tanh_network(5, 8), dd.DecoupledGaussNewton()
    double = dd.fit(X, y, model, algorithm, 10, loss="logistic")
    single = dd.fit(X.float(), y, model, algorithm, 10, loss="logistic")
    assert single.theta.dtype == torch.float32
    close(single.train_error, double.train_error, 1e-4)


def test_the_module_is_not_changed_and_the_same_call_gives_the_same_bits():
    X, y = rows(20, 4)
    module = tanh_network(4, 3)
    before = oracle.flat(module)
    runs = [dd.fit(X, y, module, dd.DecoupledGaussNewton(), 5, loss="logistic") for _ in range(2)]
    assert torch.equal(oracle.flat(module), before)
    assert torch.equal(runs[0].train_error, runs[1].train_error)
    assert isinstance(runs[0], NetworkRun)
    assert isinstance(runs[0], dd.Run)


def test_early_stopping_best_step_and_continuing():
    X, y = rows(30, 6)
    y = torch.where(torch.arange(30) % 5 == 0, 1 - y, y)
    model, algorithm = tanh_network(6, 8), dd.DecoupledGaussNewton(ridge=0.1)
    stopped = dd.fit(
        *(X, y, model, algorithm, 60), loss="logistic", callbacks=dd.EarlyStopping(patience=4)
    )
    assert stopped.stop_reason is StopReason.RISING
    assert stopped.best_step == len(stopped.train_error) - 5
    assert float(stopped.train_error[stopped.best_step]) == float(stopped.train_error.min())
    first = dd.fit(X, y, model, algorithm, 4, loss="logistic")
    second = dd.fit(X, y, model, algorithm, 3, loss="logistic", state=first.state)
    close(second.train_error, stopped.train_error[3:6])
    best = stopped.to_module()(X).squeeze(1).detach()
    close(stopped.predict(X), best)
    assert not torch.equal(best, stopped.predict(X, best=False))


def test_ctrl_c_keeps_what_was_reached_and_a_checkpoint_continues(tmp_path):
    X, y = rows(24, 4)
    model, algorithm = tanh_network(4, 3), dd.DecoupledGaussNewton()
    whole = dd.fit(X, y, model, algorithm, 8, loss="logistic")

    def interrupt(step):
        if step.index == 4:
            raise KeyboardInterrupt

    folder = dd.Checkpoint(tmp_path / "run", every=2)
    given = {"loss": "logistic", "checkpoint": folder}
    cut = dd.fit(X, y, model, algorithm, 8, **given, callbacks=interrupt)
    assert cut.stop_reason is StopReason.INTERRUPTED
    assert torch.equal(cut.train_error, whole.train_error[:5])
    resumed = dd.fit(X, y, model, algorithm, 8, **given)
    assert torch.equal(resumed.train_error, whole.train_error)
    assert torch.equal(resumed.best_theta, whole.best_theta)
    with pytest.raises(ValueError, match="is of another call: algorithm"):
        dd.fit(X, y, model, dd.DecoupledGaussNewton(ridge=2.0), 8, **given)


ARGUMENTS = {
    "loss": ({"loss": None}, "loss is None"),
    "weights": ({"weights": torch.zeros(20)}, "weights has the entry 0"),
    "groups": ({"groups": torch.zeros(20)}, "groups has one value only"),
    "theta": ({"theta": torch.zeros(3)}, "theta has no effect"),
    "state": ({"state": 3}, "state is a int"),
    "test": ({"test": 3}, "test must be a pair"),
    "class weights": ({"loss": nn.CrossEntropyLoss(torch.ones(2))}, "divides by the weights"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_wrong_arguments(name):
    given, message = ARGUMENTS[name]
    X, y = rows(20, 4)
    with pytest.raises(ValueError, match=message):
        dd.fit(*(X, y, tanh_network(4, 3), dd.DecoupledGaussNewton(), 3),
               **{"loss": "logistic"} | given)  # fmt: skip


def test_other_algorithms_take_modules_that_start_with_a_linear_layer():
    X, y = rows(40, 5)
    model, descent = tanh_network(5, 3), dd.GradientDescent(lr=0.01, reduction="mean")
    direct = dd.fit(X, y, model, descent, 5, loss="logistic")
    described = dd.fit(X, y, dd.Objective.of_model(model, "logistic"), descent, 5)
    assert torch.equal(direct.train_error, described.train_error)


def test_an_objective_describes_a_module_that_cannot_be_split():
    X = images(12)
    y = (X.flatten(1).sum(1) > 0).double()
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 1)).double()
    objective, algorithm = dd.Objective.of_model(module, "logistic"), dd.DecoupledGaussNewton()
    described = dd.fit(X, y, objective, algorithm, 3)
    direct = dd.fit(X, y, module, algorithm, 3, loss="logistic")
    assert torch.equal(described.train_error, direct.train_error)
    with pytest.raises(ValueError, match=r"cannot be split.*by DecoupledGaussNewton"):
        dd.fit(X.flatten(1), y, objective, dd.GradientDescent(0.1), 3)


@pytest.mark.parametrize("algorithm", [dd.GradientDescent(0.1), dd.DecoupledGaussNewton()])
def test_a_loss_is_given_once(algorithm):
    X, y = rows(20, 4)
    module = tanh_network(4, 3)
    with pytest.raises(ValueError, match="loss is None"):
        dd.fit(X, y, module, algorithm, 3)
    with pytest.raises(ValueError, match="given twice"):
        dd.fit(X, y, dd.Objective.of_model(module, "logistic"), algorithm, 3, loss="logistic")
