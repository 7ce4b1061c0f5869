"""Folds beside any loop."""

import pytest
import torch
from torch import nn

from decoupled_descent.integrations.beside import FoldsBeside
from tests.integrations.problems import plain_folds, two_classes


def network(kind):
    torch.manual_seed(0)
    norm = {"plain": [], "norm": [nn.BatchNorm1d(5)], "dropout": [nn.Dropout(0.5)]}[kind]
    return nn.Sequential(nn.Linear(6, 5), *norm, nn.Tanh(), nn.Linear(5, 2)).double()


def loop(model, X, y, beside=None, seen=None, accumulate=1):
    """An ordinary loop of two epochs, with a schedule, of the rows that are seen."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    criterion, generator = nn.CrossEntropyLoss(), torch.Generator().manual_seed(0)
    beside = None if beside is None else beside(model, criterion, optimizer)
    for _ in range(2):
        for place, rows in enumerate(torch.randperm(len(X), generator=generator).split(15)):
            mine = rows if seen is None else rows[seen[rows]]
            (criterion(model(X[mine]), y[mine]) / accumulate).backward()
            if beside is not None:
                beside.batch(X[rows], y[rows], rows, 1 / accumulate)
            if (place + 1) % accumulate == 0:
                if beside is not None:
                    beside.step(clip=0.5)
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
        if beside is not None:
            beside.evaluate(X, y)
    return beside


@pytest.mark.parametrize("kind", ["plain", "norm"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_copies_are_trainings_without_their_folds(kind, accumulate):
    X, y = two_classes()
    X, folds = X.double(), torch.arange(len(X)) % 3
    found = loop(
        network(kind),
        X,
        y,
        lambda *parts: FoldsBeside(*parts, y, folds=folds),
        accumulate=accumulate,
    )

    def without(seen):
        model = network(kind)
        loop(model, X, y, seen=seen, accumulate=accumulate)
        return model

    expected = plain_folds(X, y, folds, without)
    assert float(found.run().out_of_fold_error[-1]) == pytest.approx(expected, rel=1e-10)


def test_the_loop_goes_on_as_without_it():
    X, y = two_classes()
    alone, watched = network("dropout"), network("dropout")
    torch.manual_seed(1)
    loop(alone, X.double(), y)
    torch.manual_seed(1)
    loop(watched, X.double(), y, lambda *parts: FoldsBeside(*parts, y, folds=4))
    for a, b in zip(alone.parameters(), watched.parameters(), strict=True):
        assert torch.equal(a, b)


def test_dropout_is_reproducible():
    X, y = two_classes()
    errors = []
    for seed in (0, 0, 1):
        kept = {"folds": torch.arange(60) % 4, "seed": seed}
        found = loop(network("dropout"), X.double(), y, lambda *p, k=kept: FoldsBeside(*p, y, **k))
        errors.append(found.run().out_of_fold_error)
    assert torch.equal(errors[0], errors[1])
    assert not torch.equal(errors[0], errors[2])
