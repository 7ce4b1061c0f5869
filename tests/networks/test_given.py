"""Data sets, labels of other types and wrapped modules work, or name the remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import DataLoader, TensorDataset

import decoupled_descent as dd
from decoupled_descent.networks.folds.run import CrossFitRun

X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
BCE, CE = nn.BCEWithLogitsLoss(), nn.CrossEntropyLoss()


def model(outputs=2, *middle):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), *middle, nn.Linear(4, outputs))


def by_fit(X, y, model, loss):
    return dd.fit(X, y, model, loss=loss, steps=3)


def by_folds(X, y, model, loss):
    return dd.CrossFit(model, loss, torch.optim.AdamW, 4).fit(X, y, epochs=2)


BOTH = pytest.mark.parametrize("train", [by_fit, by_folds])


SAME = {
    "a column of classes": (lambda: (X, Y.unsqueeze(1), model(), CE), CE),
    "labels in double precision": (lambda: (X, Y.double().numpy(), model(1), BCE), BCE),
    "read-only labels": (lambda: (X, pd.Series(Y.numpy()), model(), CE), CE),
    "whole labels for two classes": (lambda: (X, Y, model(1), BCE), BCE),
    "bool": (lambda: (X, Y == 1, model(1), BCE), BCE),
    "a column": (lambda: (X, Y.float().unsqueeze(1), model(1), BCE), BCE),
    "float classes": (lambda: (X, Y.float(), model(), CE), CE),
    "arrays": (lambda: (X.numpy(), Y.numpy(), model(), CE), CE),
    "a data set": (lambda: (TensorDataset(X, Y), None, model(), CE), CE),
    "a loader": (lambda: (DataLoader(TensorDataset(X, Y, Y), 7, shuffle=True), None, model(), CE),
                 CE),
    "data parallel": (lambda: (X, Y, nn.DataParallel(model()), CE), CE),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("name", SAME)
def test_other_forms_of_the_same_data_give_the_same_run(train, name):
    given, loss = SAME[name]
    usual = train(X, Y.float() if loss is BCE else Y, model(1 if loss is BCE else 2), loss)
    torch.testing.assert_close(train(*given()).train_error, usual.train_error)


class OldNorm(nn.Linear):
    """Its weight is computed and kept, as with the old ``weight_norm``."""

    def __init__(self):
        super().__init__(5, 2)
        weight = self._parameters.pop("weight")
        self.weight = 2 * weight


class Double(torch.autograd.Function):
    """Without derivatives for torch.func."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


class Doubled(nn.Module):
    def forward(self, x):
        return Double.apply(x)


REFUSED = {
    "text": (lambda: (X, np.where(Y, "yes", "no"), model(), CE), "y has text.*numpy.unique"),
    "from one": (lambda: (X, Y + 1, model(), CE), "y has the class 2.*for classes 0 to 1"),
    "minus one": (lambda: (X, 2 * Y - 1, model(1), BCE), "from -1 to 1.*takes 0 and 1"),
    "not copied": (lambda: (X, Y, nn.Sequential(OldNorm()), CE), "use .*parametrizations"),
    "two outputs": (lambda: (X, Y.float(), model(2), BCE), r"outputs of shape \(\d+, 2\)"),
    "lazy": (lambda: (X, Y, nn.Sequential(nn.LazyLinear(2)), CE), "call it once with a few rows"),
    "labels twice": (lambda: (TensorDataset(X, Y), Y, model(), CE), "y must be None"),
    "no labels": (lambda: (TensorDataset(X), None, model(), CE), "are not .row, label"),
}


@BOTH
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_the_remedy(train, name):
    given, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        train(*given())


@pytest.mark.parametrize(
    "layer",
    [lambda: weight_norm(nn.Linear(5, 2)), lambda: nn.Sequential(nn.Linear(5, 2), Doubled())],
)
def test_layers_without_forward_derivatives_are_trained_by_folds(layer):
    run = by_fit(X, Y, nn.Sequential(layer()), CE)
    assert isinstance(run, CrossFitRun)
    assert "has a layer without forward-mode derivatives" in run.note


def test_half_precision_is_trained_by_folds():
    run = by_folds(X.bfloat16(), Y, model().bfloat16(), CE)
    full = by_folds(X, Y, model(), CE)
    assert run.error == pytest.approx(full.error, rel=0.02)
    with pytest.raises(ValueError, match="pass it in float32"):
        by_fit(X.bfloat16(), Y, model().bfloat16(), CE)
