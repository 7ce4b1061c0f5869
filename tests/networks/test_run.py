"""What the runs of whole networks have in common; the rest is in the tests of promises."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.networks.run import NetworkRun, Start


def test_a_start_as_numbers():
    assert Start().notes == {"independent_start": 0.0}
    assert Start(0.25, True).notes == {"start_level": 0.25, "independent_start": 1.0}


def test_both_kinds_of_runs_are_one_kind():
    X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] > 0).long()
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    path = dd.fit(X, y, model, loss="cross_entropy", steps=3)
    folds = dd.CrossFit(model, nn.CrossEntropyLoss(), torch.optim.Adam, 4).fit(X, y, epochs=3)
    assert isinstance(path, NetworkRun)
    assert isinstance(folds, NetworkRun)
    common = {"diverged", "interrupted", "still_falling", "best_step", "start_level", "copies"}
    assert common <= path.notes.keys() & folds.notes.keys()
    assert path.evaluation.how == "path"
    assert folds.evaluation.how == "folds"
    for run in (path, folds):
        same = nn.Linear(3, 2)
        assert run.load_into(same) is same
        torch.testing.assert_close(same(X).detach(), run.predict(X).reshape(40, 2))
        with pytest.raises(ValueError, match="has other parameters than the trained one"):
            run.load_into(nn.Linear(4, 2))
    assert set(vars(NetworkRun)) <= set(dir(path)) & set(dir(folds))
