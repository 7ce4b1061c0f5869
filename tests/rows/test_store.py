"""Rows that are made from other rows, kept or made when read."""

import numpy as np
import pytest
import torch

from decoupled_descent.rows import inputs, store
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.sources import Sliced
from decoupled_descent.rows.store import FunctionSource, Store
from tests.problems import normal


def rows_of(X):
    return Rows(X)


def written(X, rows):
    result = Store(*X.shape, rows)
    for start in range(0, len(X), 7):
        result.write(slice(start, start + 7), X[start : start + 7])
    return result


@pytest.mark.parametrize("on_disk", [False, True])
def test_what_is_written_is_read(on_disk, monkeypatch):
    X = normal(50, 4)
    rows = rows_of(X)
    if on_disk:
        monkeypatch.setattr(store, "MEMORY", 0)
        with monkeypatch.context() as reading:
            reading.setattr(inputs, "HELD", 0)  # rows that are read in blocks stay where they are
            rows = Rows(Sliced(X, len(X)))
    result = written(X, rows)
    assert (result.map is not None) == on_disk
    assert torch.equal(torch.cat([part.X for part in result.parts(20)]), X)
    assert torch.equal(result.take(torch.tensor([30, 2, 2])), X[[30, 2, 2]])
    result.narrow(3)
    assert torch.equal(result.matrix_of_all(), X[:, :3])
    assert torch.equal(Rows(result, torch.zeros(50)).X, X[:, :3])


def test_large_features_have_the_precision_of_their_rows(monkeypatch):
    X = normal(50, 4)
    single, double = rows_of(X.float()), rows_of(X)
    assert written(X, single).values.dtype == torch.float64  # small
    monkeypatch.setattr(store, "SMALL", 0)
    assert written(X, double).values.dtype == torch.float64
    kept = written(X, single)
    assert kept.values.dtype == torch.float32
    parts = list(kept.parts(20))
    assert {part.X.dtype for part in parts} == {torch.float64}
    np.testing.assert_allclose(torch.cat([part.X for part in parts]), X, rtol=1e-6)


def test_rows_are_made_when_they_are_read():
    X = normal(50, 4)
    rows = Rows(FunctionSource(rows_of(X), lambda part: 2 * part[:, :3], 3), torch.zeros(50))
    assert torch.equal(rows.X, 2 * X[:, :3])
    source = FunctionSource(rows_of(X), lambda part: part + 1, 4, torch.float32)
    assert torch.equal(source.take(torch.tensor([4, 1])), (X[[4, 1]] + 1).float())
