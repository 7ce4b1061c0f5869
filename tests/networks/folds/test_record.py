"""The epoch of each fold is chosen by the others."""

from __future__ import annotations

import math

import pytest
import torch

from decoupled_descent.evaluation.folds import FoldAssignment
from decoupled_descent.networks.folds.record import FoldRecord

FOLD = torch.arange(30) % 3


def curves(epochs=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(epochs, 30, generator=generator, dtype=torch.float64)


def recorded(losses, **options):
    record = FoldRecord(FoldAssignment(FOLD, 3), **options)
    best = [record.add(row.unsqueeze(1) * 10, row, row) for row in losses]
    return record, best


@pytest.mark.parametrize("weighted", [False, True])
def test_outputs_are_those_of_the_epoch_that_other_folds_choose(weighted):
    losses = curves()
    weights = torch.rand(30, generator=torch.Generator().manual_seed(1)) if weighted else None
    record, best = recorded(losses, weights=weights)
    share = torch.ones(30) if weights is None else weights
    for k in range(3):
        others = (losses * share)[:, k != FOLD].sum(1)
        epoch = int(others.argmin())
        assert torch.equal(record.losses[k == FOLD], losses[epoch, k == FOLD])
        assert torch.equal(record.outputs[k == FOLD, 0], 10 * losses[epoch, k == FOLD])
    means = (losses * share).sum(1) / share.sum()
    assert record.best == int(means.argmin())
    assert max(place for place, better in enumerate(best) if better) == record.best


def test_the_choice_does_not_make_the_error_too_low():
    """Losses are noise of mean 1/2: the lowest mean of 40 is too low, the record's error is not."""
    lowest, honest = [], []
    for seed in range(50):
        record, _ = recorded(curves(40, seed))
        lowest.append(record.epochs[record.best].error)
        honest.append(record.error_of(record.losses)[0])
    honest, lowest = torch.tensor(honest), torch.tensor(lowest)
    stderr = float(honest.std() / 50**0.5)
    assert float(honest.mean()) == pytest.approx(0.5, abs=3 * stderr)
    assert float(lowest.mean()) < 0.5 - 10 * stderr


def test_the_last_epoch_counts_where_nothing_is_chosen():
    losses = curves(3)
    record = FoldRecord(FoldAssignment(FOLD, 3))
    for row in losses:
        assert record.add(row, row, row, last=True)
    assert torch.equal(record.losses, losses[-1])
    assert record.best == 2


def test_errors_that_are_not_finite_are_never_chosen():
    losses = curves(3)
    losses[1] = torch.nan
    record, best = recorded(losses)
    assert math.isnan(record.epochs[1].error)
    assert not best[1]
    assert bool(record.losses.isfinite().all())
    losses[0] = torch.nan
    record, best = recorded(losses)
    assert best == [True, False, True]
    assert record.best == 2


def test_rows_that_are_never_evaluated_do_not_count():
    fold = FOLD - 1
    record = FoldRecord(FoldAssignment(fold, 2, past_only=True))
    row = curves(1)[0]
    record.add(row, row, row)
    assert record.epochs[0].error == pytest.approx(float(row[fold >= 0].mean()))
    assert record.epochs[0].fitted_error == pytest.approx(float(row.mean()))


def test_groups_are_the_units_of_the_standard_error():
    row = curves(1)[0]
    groups = torch.arange(30) // 3
    record = FoldRecord(FoldAssignment(FOLD, 3), groups=groups)
    record.add(row, row, row)
    means = row.reshape(10, 3).mean(1)
    assert record.epochs[0].stderr == pytest.approx(float(means.std() / 10**0.5), rel=1e-10)
    assert str(record.epochs[0]).startswith("out-of-fold error 0.")
