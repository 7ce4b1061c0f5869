"""A training loop of one's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from decoupled_descent.networks.folds.cross_fit import CrossFit
from tests.networks.problems import copy_of, perceptron, rows


def adamw(p):
    return torch.optim.AdamW(p, lr=0.02)


def started(folds=4, **options):
    X, y = rows()
    return X, y, CrossFit(perceptron(), nn.CrossEntropyLoss(), adamw, folds).start(y, **options)


def test_the_loop_of_the_docstring():
    X, y, cross = started()
    loader = DataLoader(TensorDataset(X, y, torch.arange(60)), batch_size=16, shuffle=True)
    torch.manual_seed(0)
    for _ in range(5):
        for x, labels, numbers in loader:
            loss = cross.step(x, labels, numbers)
        cross.evaluate(X, y)
    run = cross.run()
    assert len(run.train_error) == 5
    assert run.train_error[-1] < run.train_error[0]
    assert 0 < loss < 2
    assert run.estimate("accuracy").value > 0.4


def test_evaluation_in_batches_is_the_same():
    X, y, cross = started()
    cross.step(X, y, torch.arange(60))
    one = cross.evaluate(X, y)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    other = cross.evaluate(DataLoader(TensorDataset(X[order], y[order], order), batch_size=7))
    assert other.error == pytest.approx(one.error, rel=1e-12)
    assert other.fitted_error == pytest.approx(one.fitted_error, rel=1e-12)


@pytest.mark.parametrize("together", [None, False])
def test_copies_without_rows_stay_where_they_are(together):
    X, y = rows()
    folds = torch.arange(60) % 4
    training = CrossFit(perceptron(), nn.CrossEntropyLoss(), adamw, folds, together).start(y)
    some = (folds == 1).nonzero().flatten()
    losses = training.losses(X[some], y[some], some)
    assert losses[1] == 0
    losses.sum().backward()
    training.update()
    start = perceptron().state_dict()
    for k in range(5):
        same = all(torch.equal(v, start[n]) for n, v in copy_of(training, k).state_dict().items())
        assert same is (k == 1)


def test_a_training_continues_from_its_state():
    X, y, one = started()
    for _ in range(3):
        one.step(X, y, torch.arange(60))
    state = one.state_dict()
    _, _, other = started()
    other.load_state_dict(state, X)
    for training in (one, other):
        training.step(X, y, torch.arange(60))
    for a, b in zip(copy_of(one, 2).parameters(), copy_of(other, 2).parameters(), strict=True):
        assert torch.equal(a, b)


def test_batches_that_leave_one_row_to_a_copy():
    """Batch normalisation has no statistics of one row, so the copy waits for the next batch."""
    X, y = rows()
    folds = torch.arange(60) % 2
    model = perceptron(middle=nn.BatchNorm1d(5, dtype=torch.float64))
    training = CrossFit(model, nn.CrossEntropyLoss(), adamw, folds).start(y)
    some = torch.tensor([0, 1, 3])  # the copy without fold 1 has row 0 only
    training.step(X[some], y[some], some)
    start = model.state_dict()
    for k in range(3):
        same = all(torch.equal(v, start[n]) for n, v in copy_of(training, k).state_dict().items())
        assert same is (k == 1)


def test_time_and_groups_reach_the_run():
    X, y, cross = started(3, time=torch.arange(60))
    cross.evaluate(X, y)
    run = cross.run()
    assert int(run.outputs.isnan().any(1).sum()) == 15
    assert int(run.losses.isnan().sum()) == 15
    assert run.estimate("accuracy").units == 45
    X, y, cross = started(3, groups=[i // 2 for i in range(60)])
    cross.evaluate(X, y)
    assert cross.run().estimate("accuracy").units == 30


def test_refusals():
    X, y, cross = started()
    numbers = torch.arange(60)
    with pytest.raises(ValueError, match="nothing was evaluated"):
        cross.run()
    with pytest.raises(ValueError, match="rows must be a tensor of row numbers"):
        cross.step(X, y, list(range(60)))
    with pytest.raises(ValueError, match="rows has numbers from 5 to 64"):
        cross.step(X, y, numbers + 5)
    with pytest.raises(ValueError, match="not the rows of these labels; give their numbers in"):
        cross.step(X[30:], y[30:], torch.arange(30))  # numbers in the batch
    with pytest.raises(ValueError, match="have 60, 60 and 59 rows"):
        cross.step(X, y, numbers[1:])
    with pytest.raises(ValueError, match="X has 50 rows and y 50; give all 60"):
        cross.evaluate(X[:50], y[:50])
    with pytest.raises(ValueError, match="X has 7 rows; the folds were made for 60"):
        cross.evaluate([(X[:7], y[:7], numbers[:7])])
    with pytest.raises(ValueError, match=r"max_norm=0.0 must be above 0"):
        cross.clip_grad_norm_(0.0)
