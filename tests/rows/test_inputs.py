"""Features in memory and elsewhere: blocks of the right size, and any rows by their number."""

import pytest
import torch

from decoupled_descent.rows import inputs as module
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.inputs import Inputs, automatic_block_size
from tests.problems import binary, normal

X, Y = binary(6, 4)


class Numbers:
    """An array that is not one of NumPy."""

    def __init__(self, X):
        self.X, self.shape, self.dtype = X.numpy(), tuple(X.shape), X.numpy().dtype

    def __getitem__(self, which):
        return self.X[which]


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_bad_block_size(size):
    with pytest.raises(ValueError, match=f"block_size={size} must be a whole number"):
        Rows(X, Y, block_size=size)


def test_large_data_goes_in_blocks_that_fit_the_cache(monkeypatch):
    monkeypatch.setattr(module, "SINGLE_BLOCK_BYTES", 1000)
    monkeypatch.setattr(module, "BLOCK_BYTES", 800)
    assert automatic_block_size(torch.zeros(25, 10)) == 25
    assert automatic_block_size(torch.zeros(100, 10)) == 20
    assert automatic_block_size(torch.zeros(100, 10, dtype=torch.float64)) == 16


@pytest.mark.parametrize("kind", ["memory", "sliced", "blocks"])
def test_rows_by_number_and_in_float64(kind, monkeypatch):
    X = normal(30, 3).float()
    given = {"memory": X, "sliced": Numbers(X), "blocks": None}[kind]
    monkeypatch.setattr(module, "HELD", 0)
    monkeypatch.setattr(module, "PIECE_BYTES", 0)
    given = torch.utils.data.DataLoader(X, batch_size=11) if kind == "blocks" else given
    rows = Rows(given, torch.zeros(30))
    assert rows.held == (kind == "memory")
    some = torch.tensor([29, 0, 12, 12])
    assert torch.equal(rows.gather(some), X[some])
    spans, parts = zip(*rows.doubles(), strict=True)
    assert torch.equal(torch.cat(parts), X.double())
    assert spans[-1].stop == 30


@pytest.mark.parametrize("size", [1, 3, 100])
def test_pieces_cover_every_row_once(size):
    X = normal(30, 3)
    result = list(Inputs(X, block_size=7).pieces(size))
    assert torch.equal(torch.cat([part for _, part in result]), X)
    assert all(torch.equal(X[span], part) for span, part in result)
    assert max(len(part) for _, part in result) == min(size, 7)
