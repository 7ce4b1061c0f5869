"""An interrupted training with stacked folds continues bit for bit."""

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.training.callbacks import StopReason
from decoupled_descent.training.checkpoint import FILE
from tests.networks.problems import perceptron, rows

EPOCHS = 6


def adamw(parameters):
    first, *rest = parameters
    return torch.optim.AdamW([{"params": [first], "lr": 0.03}, {"params": rest}], lr=0.01)


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def adafactor(parameters):  # one for each copy
    return torch.optim.Adafactor(parameters, lr=0.05)


def mixed(x, y):
    """A transform that draws random numbers."""
    return x + 0.1 * torch.randn_like(x), y


CASES = {
    "adamw": {},
    "sgd": {"optimizer": momentum},
    "adafactor": {"optimizer": adafactor},
    "dropout": {"middle": nn.Dropout(0.3)},
    "batch norm": {"middle": nn.BatchNorm1d(5)},
    "augmentation": {"transform": mixed},
    "cosine": {"scheduler": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 5)},
    "plateau": {"scheduler": lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0)},
    "one cycle": {
        "scheduler": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.05, total_steps=100),
        "scheduler_per_batch": True,
        "accumulate": 2,
        "clip": 0.5,
    },
    "groups": {"groups": [f"patient {k % 20}" for k in range(60)]},
    "weights": {"sample_weight": torch.arange(60.0) + 1},
    "last epoch": {"best": False},
}


def fit(checkpoint=None, middle=None, optimizer=adamw, callbacks=(), **options):
    X, y = rows()
    cross = dd.CrossFit(perceptron(middle=middle), nn.CrossEntropyLoss(), optimizer, folds=4)
    settings = {"epochs": EPOCHS, "batch_size": 16, "seed": 3, "progress": False} | options
    return cross.fit(X, y, callbacks=callbacks, checkpoint=checkpoint, **settings)


class Killed(BaseException):
    """Ends a call as a kill does: nothing is caught."""


def killed_after(epochs, error=Killed):
    def callback(epoch):
        if epoch.index == epochs:
            raise error

    return callback


def assert_same(one, two):
    assert one.message == two.message
    assert one.best_step == two.best_step
    for name in ("out_of_fold_error", "out_of_fold_stderr", "fitted_error", "outputs", "losses"):
        assert torch.equal(getattr(one, name), getattr(two, name)), name
    for name, value in one.weights.items():
        assert torch.equal(value, two.weights[name]), name
    assert torch.equal(one.labels, two.labels)


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_a_training_cut_short_continues_bit_for_bit(tmp_path, options):
    whole, often = fit(**options), dd.Checkpoint(tmp_path, every=2)
    with pytest.raises(Killed):
        fit(often, callbacks=killed_after(5), **options)  # saved after the fourth epoch
    seen = []
    again = fit(often, callbacks=lambda epoch: seen.append(epoch.index), **options)
    assert seen == [5, 6]
    assert_same(again, whole)


def test_a_finished_training_is_read(tmp_path):
    first, seen = fit(tmp_path), []
    again = fit(tmp_path, callbacks=lambda epoch: seen.append(epoch.index))
    assert not seen
    assert_same(again, first)
    assert again.estimate("accuracy") == first.estimate("accuracy")
    X = rows()[0]
    assert torch.equal(again.predict(X), first.predict(X))


def test_ctrl_c_keeps_what_was_reached_and_continues(tmp_path):
    often = dd.Checkpoint(tmp_path, every=1)
    cut = fit(often, callbacks=killed_after(4, KeyboardInterrupt))
    assert cut.message == StopReason.INTERRUPTED
    whole = fit()
    reached = len(cut.out_of_fold_error)
    assert reached == 5
    assert torch.equal(cut.out_of_fold_error, whole.out_of_fold_error[:reached])
    assert_same(fit(often), whole)


def test_early_stopping_and_patience_go_on_counting(tmp_path):
    options = {"optimizer": lambda p: torch.optim.SGD(p, lr=3.0), "epochs": 30}
    whole = fit(callbacks=dd.EarlyStopping(patience=3), **options)
    last = len(whole.out_of_fold_error) - 1
    assert last < 30
    often, kill = dd.Checkpoint(tmp_path / "a", every=1), killed_after(last - 1)
    with pytest.raises(Killed):
        fit(often, callbacks=[dd.EarlyStopping(patience=3), kill], **options)
    assert_same(fit(often, callbacks=dd.EarlyStopping(patience=3), **options), whole)
    whole, often = fit(patience=2, **options), dd.Checkpoint(tmp_path / "b", every=1)
    with pytest.raises(Killed):
        fit(often, callbacks=kill if whole.best_step else killed_after(1), patience=2, **options)
    assert_same(fit(often, patience=2, **options), whole)


CHANGES = {
    "epochs": {"epochs": 7},
    "seed": {"seed": 4},
    "batch_size": {"batch_size": 8},
    "optimizer": {"optimizer": momentum},
    "scheduler": {"scheduler": lambda o: torch.optim.lr_scheduler.StepLR(o, 2)},
    "weights": {"sample_weight": torch.ones(60)},
    "model": {"middle": nn.Dropout(0.3)},
}


@pytest.mark.parametrize(("name", "change"), CHANGES.items(), ids=CHANGES)
def test_another_call_is_refused(tmp_path, name, change):
    fit(tmp_path, epochs=1)
    with pytest.raises(ValueError, match=rf"is of another call: .*{name}"):
        fit(tmp_path, **{"epochs": 1} | change)


def test_damage_is_refused(tmp_path):
    fit(tmp_path, epochs=1)
    path = tmp_path / FILE
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged or no checkpoint"):
        fit(tmp_path, epochs=1)


def test_frozen_layers_and_fit_without_an_algorithm(tmp_path):
    X, y = rows(n=300)
    frozen = perceptron()
    frozen[0].requires_grad_(False)
    cross = dd.CrossFit(frozen, nn.CrossEntropyLoss(), adamw, folds=4)
    runs = [cross.fit(X, y, 2, checkpoint=tmp_path / "frozen") for _ in range(2)]
    assert_same(*runs)
    assert torch.equal(runs[0].predict(X), runs[1].predict(X))
    model = perceptron(middle=nn.BatchNorm1d(5))  # no path
    runs = [
        dd.fit(X, y, model, loss="cross_entropy", steps=2, checkpoint=tmp_path / "fit")
        for _ in range(2)
    ]
    assert_same(*runs)


def test_a_loop_of_ones_own_keeps_its_errors():
    X, y = rows()
    cross = dd.CrossFit(perceptron(), nn.CrossEntropyLoss(), adamw, folds=4)
    whole, cut, again = (cross.start(y) for _ in range(3))
    batches = torch.arange(60).split(20)
    for training in (whole, cut):
        for rows_ in batches:
            training.step(X[rows_], y[rows_], rows_)
        training.evaluate(X, y)
    again.load_state_dict(cut.state_dict(), X)
    for training in (whole, again):
        for rows_ in batches:
            training.step(X[rows_], y[rows_], rows_)
        training.evaluate(X, y)
    assert_same(again.run(), whole.run())
