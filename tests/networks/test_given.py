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


class Named(TensorDataset):
    """Rows as dictionaries."""

    def __getitem__(self, index):
        row, label = super().__getitem__(index)
        return {"first": row[:2], "second": row[2:]}, label


class Apart(nn.Module):
    """Takes two inputs that are parts of the rows; one argument, or two."""

    def __init__(self, inner, together=None):
        super().__init__()
        self.inner, self.together = inner, together

    def forward(self, first, second):
        return self.inner(torch.cat([first, second], 1))


class Together(Apart):
    def forward(self, x):
        return self.inner(torch.cat([x[key] for key in self.together], 1))


class Tokens(nn.Module):
    """Token ids with a mask."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.last = nn.Embedding(1000, 4), nn.Linear(4, 2)

    def forward(self, ids, mask):
        seen = self.embed(ids).masked_fill(~mask.unsqueeze(2), 0.0)
        return self.last(torch.tanh(seen.sum(1) / mask.sum(1, keepdim=True)))


PARTS = {"first": X[:, :2], "second": X[:, 2:]}

SAME = {
    "a dictionary as arguments": (lambda: (PARTS, Y, Apart(model()), CE), CE),
    "a dictionary as one": (lambda: (PARTS, Y, Together(model(), PARTS), CE), CE),
    "a tuple as arguments": (lambda: (tuple(PARTS.values()), Y, Apart(model()), CE), CE),
    "a tuple as one": (lambda: (tuple(PARTS.values()), Y, Together(model(), (0, 1)), CE), CE),
    "a data set of dictionaries": (lambda: (Named(X, Y), None, Apart(model()), CE), CE),
    "three tensors": (lambda: (TensorDataset(*PARTS.values(), Y), None, Apart(model()), CE), CE),
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
    "inputs of other lengths": (lambda: ((X, X[1:]), Y, Apart(model()), CE), "numbers of rows"),
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


@BOTH
def test_several_inputs_in_all_that_a_run_has(train):
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 1000, (60, 3), generator=draw)
    rows = {"ids": ids, "mask": (torch.rand(60, 3, generator=draw) < 0.8) | (ids < 0)}
    rows["mask"][:, 0] = True
    module, algorithm = Tokens(), dd.DecoupledGaussNewton()
    if train is by_fit:
        run = dd.fit(rows, Y, module, algorithm, 2, loss=CE, test=(rows, Y))
    else:
        run = dd.CrossFit(module, CE, torch.optim.AdamW, 4).fit(rows, Y, 2, test=(rows, Y))
    trained = run.load_into(Tokens())
    with torch.no_grad():
        outputs = trained(ids, rows["mask"])
    torch.testing.assert_close(run.predict(rows), outputs)
    assert type(run.to_module()) is Tokens
    assert float(run.test_error[run.best_step]) == pytest.approx(float(CE(outputs, Y)), rel=1e-5)
    with pytest.raises(ValueError, match="X must be a dictionary of ids, mask"):
        run.predict((ids, ids))


def test_half_precision_is_trained_by_folds():
    run = by_folds(X.bfloat16(), Y, model().bfloat16(), CE)
    full = by_folds(X, Y, model(), CE)
    assert run.error == pytest.approx(full.error, rel=0.02)
    with pytest.raises(ValueError, match="pass it in float32"):
        by_fit(X.bfloat16(), Y, model().bfloat16(), CE)
