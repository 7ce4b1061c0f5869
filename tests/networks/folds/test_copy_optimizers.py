"""One optimiser for all copies, or one for each."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from decoupled_descent.networks.folds.copy_optimizers import CopyOptimizers, treats_entries_alone
from decoupled_descent.networks.folds.cross_fit import CrossFit
from tests.networks.problems import batches, copy_of, perceptron, rows, train_folds, train_without

ALONE = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop",
         "Rprop", "ASGD")  # fmt: skip


def stacked(copies=4):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(copies, *s, generator=generator).requires_grad_() for s in ((3, 2), (3,))]


@pytest.mark.parametrize("name", ALONE)
def test_optimisers_that_treat_entries_alone(name):
    assert treats_entries_alone(lambda p: getattr(torch.optim, name)(p, lr=0.01), stacked())


class Layerwise(torch.optim.SGD):
    """Divides each gradient by its norm, as LARS does."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad /= p.grad.norm()
        return super().step(closure)


@pytest.mark.parametrize("make", [Layerwise, torch.optim.Adafactor])
def test_optimisers_that_look_at_tensors_are_made_for_each_copy(make):
    (X, y), model, folds = rows(), perceptron(), torch.arange(60) % 4
    optimizer, plan = (lambda p: make(p, lr=0.01)), batches(60, 16, 2)
    training = CrossFit(model, nn.CrossEntropyLoss(), optimizer, folds).start(y)
    train_folds(training, X, y, plan)
    assert len(training.optimizers) == 5
    for k in (0, 4):
        alone = train_without(model, nn.CrossEntropyLoss(), optimizer, X, y, plan, folds != k)
        for a, b in zip(alone.parameters(), copy_of(training, k).parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_muon_takes_matrices_of_one_copy():
    (X, y), folds = rows(dtype=torch.float32), torch.arange(60) % 4
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5, bias=False), nn.Tanh(), nn.Linear(5, 3, bias=False))
    cross = CrossFit(model, nn.CrossEntropyLoss(), lambda p: torch.optim.Muon(p, lr=0.01), folds)
    run = cross.fit(X, y, 3)
    assert run.out_of_fold_error[3] < run.out_of_fold_error[0]


@pytest.mark.parametrize("make", [torch.optim.AdamW, Layerwise])
def test_copies_without_rows_do_not_move(make):
    parameters = stacked()
    found = CopyOptimizers(lambda p: make(p, lr=0.1), parameters)
    assert found.elementwise is (make is torch.optim.AdamW)
    for trained in ([True] * 4, [True, False, True, False]):
        before = [p.detach().clone() for p in parameters]
        found.trained |= torch.tensor(trained)
        for p in parameters:
            p.grad = torch.ones_like(p)
        found.step()
        for p, old in zip(parameters, before, strict=True):
            moved = [not torch.equal(a, b) for a, b in zip(p, old, strict=True)]
            assert moved == trained
            assert p.grad is None
    if found.elementwise:
        memory = found.list[0].state[parameters[0]]["exp_avg"]
        torch.testing.assert_close(memory[1], torch.full_like(memory[1], 0.1))
        torch.testing.assert_close(memory[0], torch.full_like(memory[0], 0.19))


def test_gradients_that_are_missing_have_no_norm():
    parameters = stacked()
    found = CopyOptimizers(lambda p: torch.optim.SGD(p, lr=0.1), parameters)
    assert found.clip_grad_norm_(1.0).tolist() == [0.0] * 4
