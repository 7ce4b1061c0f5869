"""Tuples, dictionaries and data sets of several inputs are trained as one tensor of columns."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import decoupled_descent as dd
from decoupled_descent.networks.several_inputs import SeveralInputs
from tests.networks.test_given import BOTH, CE, X, Y, by_fit, model


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
    "a dictionary as arguments": (lambda: (PARTS, Y, Apart(model()), CE)),
    "a dictionary as one": (lambda: (PARTS, Y, Together(model(), PARTS), CE)),
    "a tuple as arguments": (lambda: (tuple(PARTS.values()), Y, Apart(model()), CE)),
    "a tuple as one": (lambda: (tuple(PARTS.values()), Y, Together(model(), (0, 1)), CE)),
    "a data set of dictionaries": (lambda: (Named(X, Y), None, Apart(model()), CE)),
    "three tensors": (lambda: (TensorDataset(*PARTS.values(), Y), None, Apart(model()), CE)),
}


@BOTH
@pytest.mark.parametrize("name", SAME)
def test_several_inputs_give_the_run_of_one(train, name):
    usual = train(X, Y, model(), CE)
    rows, labels, module, loss = SAME[name]()
    torch.testing.assert_close(train(rows, labels, module, loss).train_error, usual.train_error)


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


def test_whole_numbers_and_masks_pass_unchanged():
    rows = {"ids": torch.tensor([[2**30 + 1, 5]]), "mask": torch.tensor([[True, False]])}
    seen = {}

    class Keep(nn.Module):
        def forward(self, ids, mask):
            seen.update(ids=ids, mask=mask)
            return ids

    module = SeveralInputs(Keep(), rows)
    module(module.columns(rows))
    assert torch.equal(seen["ids"], rows["ids"])
    assert torch.equal(seen["mask"], rows["mask"])
    assert seen["mask"].dtype == torch.bool


@BOTH
def test_inputs_of_other_lengths(train):
    with pytest.raises(ValueError, match="X has inputs with numbers of rows"):
        train((X, X[1:]), Y, Apart(model()), CE)
