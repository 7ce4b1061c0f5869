"""One copy of CrossFit is an ordinary training without its rows; nothing leaks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import decoupled_descent as dd
from decoupled_descent.networks.folds.cross_fit import CrossFit
from tests.networks.problems import (
    batches,
    copy_of,
    perceptron,
    rows,
    train_folds,
    train_without,
)

FOLDS = torch.arange(60) % 4


def sgd(p):
    return torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01)


def adamw(p):
    return torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)


def cosine(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)


def assert_same_weights(one, other, exact=False):
    for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=0 if exact else 1e-10, atol=0 if exact else 1e-12)


class Layered(nn.Module):
    """A recurrent network, which torch.vmap does not take."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.last = nn.LSTM(1, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.cell(x.unsqueeze(2))[0][:, -1])


# One copy is an ordinary training


@pytest.mark.parametrize("optimizer", [sgd, adamw])
@pytest.mark.parametrize("together", [None, False])
def test_a_copy_is_an_ordinary_training_without_its_fold(optimizer, together):
    (X, y), model, plan = rows(), perceptron(), batches(60, 16, 3)
    criterion = nn.CrossEntropyLoss()
    training = CrossFit(model, criterion, optimizer, FOLDS, together=together).start(y)
    train_folds(training, X, y, plan, cosine)
    assert training.together is (together is None)
    for k in range(5):
        alone = train_without(model, criterion, optimizer, X, y, plan, k != FOLDS, cosine)
        assert_same_weights(alone, copy_of(training, k))


@pytest.mark.parametrize("optimizer", [sgd, adamw])
def test_one_by_one_a_copy_has_the_same_bits(optimizer):
    """With the loss of each row averaged in both, the kernels and their order are the same."""
    (X, y), plan = rows(dtype=torch.float32), batches(60, 16, 3)
    model = perceptron(dtype=torch.float32)

    def criterion(outputs, labels):
        return F.cross_entropy(outputs, labels, reduction="none")

    training = CrossFit(model, criterion, optimizer, FOLDS, together=False).start(y)
    train_folds(training, X, y, plan)
    for k in range(5):
        alone = train_without(
            model, lambda o, t: criterion(o, t).mean(), optimizer, X, y, plan, k != FOLDS
        )
        assert_same_weights(alone, copy_of(training, k), exact=True)


def test_batch_normalisation_sees_the_rows_of_its_copy_only():
    (X, y), model = rows(), perceptron(middle=nn.BatchNorm1d(5, dtype=torch.float64))
    criterion, plan = nn.CrossEntropyLoss(), batches(60, 16, 3)
    training = CrossFit(model, criterion, adamw, FOLDS).start(y)
    train_folds(training, X, y, plan)
    assert not training.together
    assert training.reason == "outputs of a row depend on the other rows of its batch"
    for k in range(5):
        alone = train_without(model, criterion, adamw, X, y, plan, k != FOLDS)
        assert_same_weights(alone, copy_of(training, k))  # running statistics too
    assert int(model[1].num_batches_tracked) == 0  # the user's model is not changed


def test_a_module_that_vmap_does_not_take_is_trained_copy_by_copy():
    (X, y), model, plan = rows(dtype=torch.float32), Layered(), batches(60, 16, 2)
    training = CrossFit(model, nn.CrossEntropyLoss(), sgd, FOLDS).start(y)
    train_folds(training, X, y, plan)
    assert "aten::lstm" in training.reason
    alone = train_without(model, nn.CrossEntropyLoss(), sgd, X, y, plan, FOLDS != 1)
    for a, b in zip(alone.parameters(), copy_of(training, 1).parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("together", [None, False])
def test_convolutions_and_frozen_layers(together):
    generator, (_, y) = torch.Generator().manual_seed(0), rows()
    X = torch.randn(60, 1, 6, 6, generator=generator)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True), nn.Conv2d(2, 2, 3), nn.Flatten(), nn.Linear(8, 3)
    )
    model[0].requires_grad_(False)
    criterion, plan = nn.CrossEntropyLoss(), batches(60, 20, 2)
    training = CrossFit(model, criterion, sgd, FOLDS, together=together).start(y)
    train_folds(training, X, y, plan)
    alone = train_without(model, criterion, sgd, X, y, plan, FOLDS != 2)
    for a, b in zip(alone.parameters(), copy_of(training, 2).parameters(), strict=True):
        torch.testing.assert_close(a, b)
    assert "0.weight" in training._stack.shared  # stored once


@pytest.mark.parametrize("together", [None, False])
def test_weights_of_rows(together):
    """A weight of 2 is the row twice, in training and in the error."""
    (X, y), model = rows(30), perceptron()
    folds, criterion = torch.arange(30) % 3, nn.CrossEntropyLoss()
    twice = torch.cat([torch.arange(30), torch.arange(10)])
    weights = torch.bincount(twice).double()
    cross = CrossFit(model, criterion, adamw, folds, together=together)
    one = cross.start(y, sample_weight=weights)
    other = CrossFit(model, criterion, adamw, folds[twice], together=together).start(y[twice])
    for _ in range(3):
        one.step(X, y, torch.arange(30))
        other.step(X[twice], y[twice], torch.arange(40))
    for k in range(4):
        assert_same_weights(copy_of(one, k), copy_of(other, k))
    a, b = one.evaluate(X, y), other.evaluate(X[twice], y[twice])
    assert a.error == pytest.approx(b.error, abs=1e-12)
    assert a.fitted_error == pytest.approx(b.fitted_error, abs=1e-12)


def test_other_numbers_of_the_folds_change_nothing():
    (X, y), model, order = rows(), perceptron(), torch.tensor([2, 0, 3, 1])
    runs = [
        CrossFit(model, nn.CrossEntropyLoss(), adamw, folds).fit(X, y, 3, seed=1)
        for folds in (FOLDS, order[FOLDS])
    ]
    torch.testing.assert_close(runs[0].outputs, runs[1].outputs, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(runs[0].out_of_fold_error, runs[1].out_of_fold_error)


def test_gradients_accumulate_and_are_clipped_copy_by_copy():
    (X, y), model, criterion = rows(), perceptron(), nn.CrossEntropyLoss()
    training = CrossFit(model, criterion, sgd, FOLDS).start(y)
    for part in torch.arange(60).split(20):
        (training.loss(X[part], y[part], part) / 3).backward()
    norms = training.clip_grad_norm_(0.05)
    training.update()
    for k in range(5):
        alone = perceptron()
        for part in torch.arange(60).split(20):
            some = part[(k != FOLDS)[part]]
            (criterion(alone(X[some]), y[some]) / 3).backward()
        norm = nn.utils.clip_grad_norm_(alone.parameters(), 0.05)
        sgd(alone.parameters()).step()
        assert norm == pytest.approx(float(norms[k]), rel=1e-10)
        assert_same_weights(alone, copy_of(training, k))


# Nothing leaks


def mixup(x, y):
    share = torch.rand(len(x), 1, dtype=x.dtype)
    order = torch.randperm(len(x))
    return share * x + (1 - share) * x[order], share * y + (1 - share) * y[order]


def augment(x, y):
    return x + 0.1 * torch.randn_like(x), y


@pytest.mark.parametrize("transform", [None, augment, mixup])
@pytest.mark.parametrize("middle", [None, nn.BatchNorm1d(5), nn.Dropout(0.3)], ids=str)
def test_an_absurd_row_does_not_change_the_copy_that_leaves_it_out(transform, middle):
    X, labels = rows(dtype=torch.float32)
    y = F.one_hot(labels, 3).float()
    absurd_X, absurd_y = X.clone(), y.clone()
    absurd_X[FOLDS == 2] = 1e6
    absurd_y[FOLDS == 2] = torch.tensor([0.0, 0.0, 1e9])
    cross = CrossFit(
        perceptron(dtype=torch.float32, middle=middle), nn.CrossEntropyLoss(), adamw, FOLDS
    )
    ends = []
    for data in ((X, y), (absurd_X, absurd_y)):
        run = cross.fit(*data, 3, 16, transform=transform, best=False, seed=3)
        ends.append(run.stack.snapshot())
    for a, b in zip(ends[0].values(), ends[1].values(), strict=True):
        assert torch.equal(a[2], b[2])
    changed = [not torch.equal(a[k], b[k]) for a, b in zip(*map(dict.values, ends), strict=True)
               for k in (0, 1, 3, 4)]  # fmt: skip
    assert any(changed)


def test_a_row_that_overflows_does_not_reach_the_copy_that_leaves_it_out():
    X, _ = rows(dtype=torch.float32)
    y = X[:, 0].clone()
    y[FOLDS == 2] = torch.inf
    model = perceptron(outputs=1, dtype=torch.float32)
    training = CrossFit(model, nn.MSELoss(), sgd, FOLDS).start(y)
    training.step(X, y, torch.arange(60))
    finite = [all(v.isfinite().all() for v in copy_of(training, k).parameters()) for k in range(5)]
    assert finite[2]
    assert not all(finite)


def test_mixing_stays_within_folds():
    (X, y), seen = rows(), []
    training = CrossFit(perceptron(), nn.CrossEntropyLoss(), sgd, FOLDS).start(y)

    def watch(x, labels):
        seen.append((x, labels))
        return x, labels

    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))[:30]
    x, labels, numbers = training.transformed(watch, X[order], y[order], order)
    assert len(seen) == 4
    assert torch.equal(x, X[numbers])
    assert torch.equal(labels, y[numbers])
    assert sorted(numbers.tolist()) == sorted(order.tolist())
    with pytest.raises(ValueError, match="transform returned 1 inputs and 1 labels for"):
        training.transformed(lambda x, y: (x[:1], y[:1]), X[order], y[order], order)


def test_dropout_differs_between_copies_and_is_off_in_the_evaluation():
    X, y = rows()
    model = nn.Sequential(nn.Dropout(0.5), perceptron())
    training = CrossFit(model, nn.CrossEntropyLoss(), sgd, FOLDS).start(y)
    training.evaluate(X, y)
    assert training.together
    with training._stack.mode(True):
        outputs = training._stack.all(X)
    assert not torch.allclose(outputs[0], outputs[1])
    assert training.evaluate(X, y).error == training.evaluate(X, y).error


# fit


def test_out_of_fold_outputs_are_those_of_the_copies():
    (X, y), model = rows(), perceptron()
    run = CrossFit(model, nn.CrossEntropyLoss(), adamw, FOLDS).fit(X, y, 4, best=False)
    for k in range(4):
        with torch.no_grad():
            alone = run.stack.module(k, run.weights)(X[k == FOLDS])
        torch.testing.assert_close(alone, run.outputs[k == FOLDS])
    losses = F.cross_entropy(run.outputs, y, reduction="none")
    assert run.error == pytest.approx(float(losses.mean()), abs=1e-12)
    assert run.stderr >= float(losses.std() / 60**0.5)  # large losses may not have occurred
    assert run.stderr == run.evaluation.stderr
    assert run.best_step == 4
    assert run.selection_bias == 0


def test_early_stopping_restores_the_best_epoch():
    (X, y), model = rows(classes=2), perceptron(outputs=2)
    cross = CrossFit(model, nn.CrossEntropyLoss(), lambda p: torch.optim.AdamW(p, lr=0.3), 5)
    run = cross.fit(X, y, 60, 16, patience=5, seed=2)
    errors = run.out_of_fold_error
    assert run.message == "rising"
    assert len(errors) - 1 == run.best_step + 5
    assert errors[run.best_step] == errors.min()
    again = cross.fit(X, y, run.best_step, 16, best=False, seed=2)  # stops there, keeps the last
    assert_same_weights(run.to_module(), again.to_module(), exact=True)
    torch.testing.assert_close(run.predict(X), again.predict(X))


def test_the_same_seed_gives_the_same_bits_and_leaves_random_numbers_alone():
    (X, y), model = rows(), nn.Sequential(nn.Dropout(0.3), perceptron())
    cross = CrossFit(model, nn.CrossEntropyLoss(), adamw, 3)
    torch.manual_seed(5)
    first = cross.fit(X, y, 2, transform=augment, seed=1)
    after = torch.rand(1)
    torch.manual_seed(6)
    second = cross.fit(X, y, 2, transform=augment, seed=1)
    assert torch.equal(first.outputs, second.outputs)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))
    other = cross.fit(X, y, 2, transform=augment, seed=2)
    assert not torch.equal(first.outputs, other.outputs)


def test_leave_one_out_of_a_tiny_network():
    (X, y), model = rows(12), perceptron()
    run = CrossFit(model, nn.CrossEntropyLoss(), sgd, "loo").fit(X, y, 3, 12, best=False)
    plan = [[torch.arange(12)]] * 3
    for row in (0, 7):
        keep = torch.arange(12) != row
        alone = train_without(model, nn.CrossEntropyLoss(), sgd, X, y, plan, keep)
        torch.testing.assert_close(alone(X[row : row + 1])[0].detach(), run.outputs[row])


def test_stopping_by_callbacks_interruption_and_divergence():
    (X, y), model = rows(), perceptron()
    cross = CrossFit(model, nn.CrossEntropyLoss(), sgd, 3)
    seen = []
    run = cross.fit(X, y, 9, callbacks=lambda epoch: seen.append(epoch) or epoch.index == 2)
    assert [epoch.index for epoch in seen] == [0, 1, 2]
    assert run.message == "stopped by a callback"
    stopping = dd.EarlyStopping(tolerance=10.0, patience=2)
    assert len(cross.fit(X, y, 9, callbacks=[stopping]).train_error) == 3

    def interrupt(epoch):
        if epoch.index == 2:
            raise KeyboardInterrupt

    run = cross.fit(X, y, 9, callbacks=interrupt)
    assert (run.message, len(run.train_error)) == ("interrupted", 3)
    wild = CrossFit(model, nn.MSELoss(), lambda p: torch.optim.SGD(p, lr=1e200), 3)
    with pytest.warns(dd.DivergenceWarning, match="smaller learning rate"):
        run = wild.fit(X, X[:, :3], 9)
    assert run.message == "diverged"
    assert run.best_step == 0


def test_schedulers_of_every_kind():
    (X, y), model = rows(), perceptron()
    cross = CrossFit(model, nn.CrossEntropyLoss(), sgd, 3)
    made = []

    def keep(make):
        return lambda optimizer: made.append(make(optimizer)) or made[-1]

    schedule = torch.optim.lr_scheduler
    cross.fit(X, y, 4, 20, scheduler=keep(lambda o: schedule.StepLR(o, 2)))
    assert made[-1].get_last_lr() == pytest.approx([0.001])
    one = keep(lambda o: schedule.OneCycleLR(o, 0.1, total_steps=12))
    cross.fit(X, y, 4, 20, scheduler=one, scheduler_per_batch=True)
    assert made[-1].last_epoch == 12
    cross.fit(X, y, 4, scheduler=keep(lambda o: schedule.ReduceLROnPlateau(o, patience=0)))
    assert made[-1].last_epoch == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": 3}, "model=3 must be a torch.nn.Module"),
        ({"criterion": nn.MSELoss}, "must be a function of outputs and labels"),
        ({"criterion": nn.MSELoss(reduction="sum")}, "use reduction='mean'"),
        ({"optimizer": 3}, "optimizer=int must be a function of parameters"),
        ({"folds": 1}, "folds=1 must be a whole number of at least 2"),
        ({"folds": 100}, "folds=100 must be at most the number of rows, 60"),
        ({"folds": "ten"}, "folds='ten' must be a whole number, 'loo' or"),
        ({"optimizer": torch.optim.LBFGS}, "optimizer is LBFGS"),
        ({"optimizer": lambda p: 3}, "must return a torch.optim.Optimizer"),
        ({"X": torch.zeros(3, 4)}, "X has 3 rows and y 60"),
        ({"X": torch.full((60, 4), torch.nan)}, r"X\[0, 0\] is nan \(240 such"),
        ({"X": "table.csv"}, "X has dtype <U9; it must be numeric"),
        ({"epochs": 0}, "epochs=0 must be a whole number of at least 1"),
        ({"batch_size": 2.5}, "batch_size=2.5 must be a whole number"),
        ({"clip": -1.0}, "clip=-1.0 must be above 0"),
        ({"sample_weight": [1.0]}, "give 60 numbers of at least 0"),
        ({"callbacks": dd.EarlyStopping}, r"callbacks has the class EarlyStopping; pass"),
        ({"callbacks": [3]}, "callbacks has 3; each must be a function"),
    ],
)  # fmt: skip
def test_refusals_say_what_is_wrong_in_one_line(change, message):
    X, y = rows()
    made = {"model": perceptron(), "criterion": nn.CrossEntropyLoss(), "optimizer": sgd}
    options = {"X": X, "y": y, "epochs": 1} | change
    made |= {key: options.pop(key) for key in (*made, "folds") if key in options}
    with pytest.raises(ValueError, match=message) as raised:
        CrossFit(**made).fit(**options)
    assert "\n" not in str(raised.value)
