"""Batches of an epoch."""

from __future__ import annotations

import torch
from torch import nn

from decoupled_descent.networks.folds.cross_fit import CrossFit
from tests.networks.problems import perceptron, rows


def test_every_row_once_per_epoch_and_steps_as_planned():
    (X, y), seen, steps = rows(), [], []
    cross = CrossFit(perceptron(), nn.CrossEntropyLoss(), lambda p: torch.optim.SGD(p, lr=0.1), 3)

    def watch(x, labels):
        seen.append(x)
        return x, labels

    def make(optimizer):
        optimizer.register_step_post_hook(lambda *_: steps.append(1))
        return torch.optim.lr_scheduler.ConstantLR(optimizer)

    cross.fit(X, y, 2, 7, transform=watch, accumulate=2, scheduler=make)
    used = torch.cat(seen)
    assert len(used) == 120
    for half in (used[:60], used[60:]):
        assert torch.equal(half.unique(dim=0), X.unique(dim=0))
    assert len(steps) == 2 * 5  # 9 batches make 5 steps, the last of one batch


def test_clipping_limits_every_step():
    (X, y), model = rows(), perceptron()
    cross = CrossFit(model, nn.CrossEntropyLoss(), lambda p: torch.optim.SGD(p, lr=1.0), 3)
    run = cross.fit(X, y, 1, 60, clip=0.01, best=False)
    moved = torch.nn.utils.parameters_to_vector(
        run.to_module().parameters()
    ) - torch.nn.utils.parameters_to_vector(model.parameters())
    torch.testing.assert_close(
        moved.norm().detach(), torch.tensor(0.01).double(), rtol=1e-3, atol=0
    )


def test_progress_is_drawn_where_it_is_wanted(capsys):
    X, y = rows()
    cross = CrossFit(perceptron(), nn.CrossEntropyLoss(), lambda p: torch.optim.SGD(p, lr=0.1), 3)
    cross.fit(X, y, 2)
    assert capsys.readouterr().err == ""
    cross.fit(X, y, 2, progress=True)
    assert "out-of-fold error" in capsys.readouterr().err
